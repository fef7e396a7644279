package runcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/project"
)

type devFlags struct {
	run    runFlags
	socket string
}

// NewDev returns the command agenthost dev.
func NewDev(t *ui.Terminal, projects *open.Projects) *cobra.Command {
	var f devFlags
	c := &cobra.Command{
		Use:   "dev PROJECT",
		Short: "Talk to a project while you change its plugins",
		Long: `Talk to a project while you change its plugins. Saving a plugin, the Go source in
a directory or a .wasm file, puts it into service: the next turn runs it. If it
does not build or load, that is said, and the version before stays. A turn that
is running ends on the versions that it began with. Grants and tenants of the
configuration are taken when it is saved.

Other commands can steer it: agenthost plugin list|load|reload|rollback|unload|top
with --data DIR or --socket PATH. Without --data the socket is in a temporary
directory, and is told at the start.`,
		Example: "  agenthost dev shop --data ./data",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := f.run.checkHistory(); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			return dev(c.Context(), t, projects, list[0], f)
		},
	}
	flags := c.Flags()
	f.run.add(c, projects)
	flags.StringVar(&f.socket, "socket", "", "the control socket (default: "+control.SocketName+" in --data)")
	return c
}

func dev(ctx context.Context, t *ui.Terminal, projects *open.Projects, projectName string, f devFlags) (err error) {
	c, err := open.ReadProject(projectName)
	if err != nil {
		return err
	}
	if err := open.CheckChangeable(c); err != nil {
		return err
	}
	opts := f.run.projectOptions(projects)
	opts.Replaceable = true
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s, err := newConversation(t, a, projectName, f.run)
	if err != nil {
		return err
	}
	socket, err := f.socketPath(a)
	if err != nil {
		return err
	}
	if err := s.serveCommands(ctx, socket); err != nil {
		return err
	}
	s.reload.Watch()
	stop := s.reload.Poll(ctx)
	defer stop()
	fmt.Fprintf(t.Out, "Save a plugin, and the next turn runs it. Steer this host with: agenthost plugin list%s\n", control.HostWords(&f.run.data, socket))
	return s.talk(ctx)
}

// socketPath returns the path of the control socket.
func (f *devFlags) socketPath(a *project.Project) (string, error) {
	switch {
	case f.socket != "":
		return f.socket, nil
	case f.run.data.LocalDir() != "":
		return control.SocketPath(f.run.data.LocalDir()), nil
	}
	path, remove, err := devSocket()
	if err == nil {
		a.OnClose(remove)
	}
	return path, err
}
