package mcpcmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/project"
)

type flags struct {
	data          cli.DataFlag
	tenant, model string
}

// New returns the command agenthost mcp.
func New(t *ui.Terminal, projects *open.Projects) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "mcp PROJECT",
		Short: "Serve a project to an MCP client on stdin and stdout",
		Long: `Serve a project to one client of the Model Context Protocol, an editor or a chat
front-end that starts this command: its networks and agents as tools, the tools and
prompts that the configuration names under serve_mcp, and the artifacts of threads as
resources. It ends when the client closes its end.

Nothing but messages of the protocol is on stdout; messages for people are on stderr.
Calls act for the tenant of --tenant, or the project's. agenthost serve and agenthost dev
serve the same to any number of clients, over HTTP at /mcp.

The commands below are about servers whose tools the project's agents use.`,
		Example: `  agenthost mcp shop --data ./data
  claude mcp add shop -- agenthost mcp /home/me/shop`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return serve(c.Context(), t, projects, list[0], &f) },
	}
	set := c.Flags()
	set.Var(&f.data, "data", cli.DataUsage("where threads are kept (default: in memory)"))
	set.StringVar(&f.tenant, "tenant", "", "the tenant that calls act for (default: the project's)")
	set.StringVar(&f.model, "model", "", "a model for every agent: a configured one, or a real one by its name (needs OPENAI_API_KEY or OPENAI_BASE_URL)")
	projects.AddWaitLock(set)
	open.CompleteFlag(c, "model", (*project.File).Models)
	c.AddCommand(commands(t, projects)...)
	return c
}

func serve(ctx context.Context, t *ui.Terminal, projects *open.Projects, name string, f *flags) (err error) {
	c, err := open.ReadProject(name)
	if err != nil {
		return err
	}
	opts := projects.QuietOptions()
	opts.Data, opts.Model = f.data.Text(), f.model
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	server, err := a.MCP()
	if err != nil {
		return err
	}
	in, ok := t.In.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(t.In)
	}
	tenant := a.Tenant(f.tenant)
	return server.ServeStream(ctx, in, keptOpen{t.Out}, mcpserver.Caller{Tenant: tenant, MayRun: true, MayRead: true,
		Answering: func(ctx context.Context, run string) error {
			return open.Record(ctx, a.Data().Driver, "run.answer", tenant, "run/"+run)
		}})
}

// keptOpen is a stream that another owner closes.
type keptOpen struct{ io.Writer }

// Close implements io.Closer.
func (keptOpen) Close() error { return nil }
