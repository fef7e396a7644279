package main

import (
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/auditcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/datacmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/doctorcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/helpcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/keycmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/mcpcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/plugincmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/processorscmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/projectcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/queuecmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/runcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/sessioncmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/tenantcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/threadcmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/tokenscmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/tracecmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/usagecmd"
)

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "agenthost",
		Short: "Run networks of agents made of sandboxed plugins",
		Long: `agenthost runs networks of LLM agents and keeps their conversations. Tools,
routers, history processors and context providers are WebAssembly modules:
written in any language, limited, permissioned, unable to hurt the host.

Start with:   agenthost demo`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	t := env.terminal()
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { // before cobra does it, whose error has no type
		if !cli.IsWaiting(c) {
			env.endWork = t.Working(strings.TrimPrefix(c.CommandPath(), "agenthost "))
		}
		if err := c.ValidateFlagGroups(); err != nil {
			return cli.UsageError(err, root.CommandPath())
		}
		return cli.ResolveData(c, env.getenv)
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return cli.UsageError(err, c.CommandPath()) })
	dirs := open.NewData(t, env.getenv)
	plugins := open.NewPlugins(t, env.getenv, env.compiler.Func())
	projects := open.NewProjects(t, env.getenv, plugins)
	addGroup(root, "Begin", runcmd.NewDemo(t, projects, env.getenv), projectcmd.NewInit(t), runcmd.NewRun(t, projects, dirs),
		cli.Waits(runcmd.NewDev(t, projects, dirs)), sessioncmd.NewChat(t), projectcmd.NewValidate(t, projects),
		projectcmd.NewConfig(t), doctorcmd.New(t, plugins, dirs, env.getenv, version()))
	addGroup(root, "Plugins and models", pluginCommands(t, plugins, projects, dirs), processorscmd.New(t, plugins, projects), tokenscmd.New(t))
	addGroup(root, "Conversations and runs", threadcmd.New(t, dirs), tracecmd.New(t, dirs), sessioncmd.New(t), queuecmd.New(t, dirs))
	addGroup(root, "Serve", cli.Waits(runcmd.NewServe(t, projects)), cli.Waits(mcpcmd.New(t, projects)), tenantcmd.New(t, dirs), keycmd.New(t, dirs), usagecmd.New(t, dirs),
		auditcmd.New(t, dirs), datacmd.New(t, dirs))
	root.AddCommand(projectcmd.NewSchema(t), helpcmd.Environment(), helpcmd.ExitCodes(), helpcmd.Man())
	return root
}

// addGroup adds commands below a title of the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// pluginCommands returns agenthost plugin. The command that makes a plugin shares its files
// with init.
func pluginCommands(t *ui.Terminal, plugins *open.Plugins, projects *open.Projects, dirs *open.Data) *cobra.Command {
	c := plugincmd.New(t, plugins, projects, dirs)
	c.AddCommand(projectcmd.NewPlugin(t))
	return c
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
