package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

type devFlags struct {
	runFlags
	socket string
}

func devCommand(t *ui.Terminal, projects *projectOpener) *cobra.Command {
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
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return dev(c.Context(), t, projects, list[0], f)
		},
	}
	flags := c.Flags()
	f.add(c)
	flags.StringVar(&f.socket, "socket", "", "the control socket (default: "+socketName+" in --data)")
	return c
}

func dev(ctx context.Context, t *ui.Terminal, projects *projectOpener, projectName string, f devFlags) (err error) {
	c, err := openProject(projectName)
	if err != nil {
		return err
	}
	if err := checkChangeable(c); err != nil {
		return err
	}
	opts := f.projectOptions(projects)
	opts.Replaceable = true
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s, err := newSession(t, a, projectName, f.runFlags)
	if err != nil {
		return err
	}
	socket, err := f.place(a)
	if err != nil {
		return err
	}
	if err := s.steerable(ctx, socket); err != nil {
		return err
	}
	s.live.reload.Watch()
	stop := s.live.reload.Poll(ctx)
	defer stop()
	fmt.Fprintf(t.Out, "Save a plugin, and the next turn runs it. Steer this host with: agenthost plugin list %s\n", hostWords(f.data, socket))
	return s.talk(ctx)
}

// place returns the path of the control socket.
func (f *devFlags) place(a *project.Project) (string, error) {
	switch {
	case f.socket != "":
		return f.socket, nil
	case f.data != "":
		return socketPath(f.data), nil
	}
	path, remove, err := devSocket()
	if err == nil {
		a.OnClose(remove)
	}
	return path, err
}

// hostWords name a running host on a command line.
func hostWords(data, socket string) string {
	if data != "" && socket == socketPath(data) {
		return "--data " + termtext.ShellWord(data)
	}
	return "--socket " + termtext.ShellWord(socket)
}

// steerable opens a control socket for a session whose app is live.
func (s *session) steerable(ctx context.Context, socket string) error {
	if dir := filepath.Dir(socket); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return host.Errorf(host.FailedPrecondition, "open control socket: %w", err).WithHint("make the directory, or name another --socket")
		}
	}
	s.live = newLive(s.app, s.say)
	clients := newServed(s.app)
	s.app.OnClose(clients.close)
	if err := clients.recover(ctx, hostWords(s.data, socket), s.say); err != nil {
		return err
	}
	server, err := s.live.serve(socket, clients)
	if err != nil {
		return err
	}
	s.app.OnClose(server.Close)
	s.app.StartRetention()
	return s.share()
}

// share lets other commands use the threads of a session that keeps them.
func (s *session) share() error {
	stop, shared, err := shareData(s.app.Data(), s.data)
	if host.CodeOf(err) == host.InvalidArgument { // the path of the directory is too long for a socket
		s.say("other commands cannot use %s meanwhile: %s", s.data, ui.ErrorText(err))
		return nil
	}
	if err == nil && shared {
		s.app.OnClose(stop)
	}
	return err
}

// say writes a message of the host to the terminal. The next step of an error is on a
// line of its own.
func (s *session) say(format string, args ...any) {
	for i, arg := range args {
		if err, isError := arg.(error); isError {
			args[i] = ui.ErrorText(err)
		}
	}
	fmt.Fprintf(s.term.Console(), "* "+format+"\n", args...)
}
