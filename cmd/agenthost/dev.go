package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/watch"
)

type devFlags struct {
	runFlags
	socket string
}

func devCommand(env *environment) *cobra.Command {
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
			return dev(c.Context(), env, list[0], f)
		},
	}
	flags := c.Flags()
	f.add(c)
	flags.StringVar(&f.socket, "socket", "", "the control socket (default: "+socketName+" in --data)")
	return c
}

func dev(ctx context.Context, env *environment, project string, f devFlags) (err error) {
	c, err := readConfig(nil, project)
	if err != nil {
		return err
	}
	if err := c.changeable(); err != nil {
		return err
	}
	a, err := newApp(ctx, env, c, appOptions{data: f.data, verify: f.verify, dsn: f.history, model: f.model, live: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s, err := newSession(a, project, f.runFlags)
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
	s.live.watch()
	stop := s.live.poll(ctx)
	defer stop()
	fmt.Fprintf(env.stdout, "Save a plugin, and the next turn runs it. Steer this host with: agenthost plugin list %s\n", hostWords(f.data, socket))
	return s.talk(ctx)
}

// place returns where the control socket is to be.
func (f *devFlags) place(a *app) (string, error) {
	switch {
	case f.socket != "":
		return f.socket, nil
	case f.data != "":
		return socketPath(f.data), nil
	}
	path, remove, err := devSocket()
	if err == nil {
		a.closers = append(a.closers, remove)
	}
	return path, err
}

// hostWords name a running host on a command line.
func hostWords(data, socket string) string {
	if data != "" && socket == socketPath(data) {
		return "--data " + quoted(data)
	}
	return "--socket " + quoted(socket)
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
	s.app.closers = append(s.app.closers, clients.close)
	if err := clients.recover(ctx, hostWords(s.data, socket), s.say); err != nil {
		return err
	}
	server, err := s.live.serve(socket, clients)
	if err != nil {
		return err
	}
	s.app.closers = append(s.app.closers, server.Close)
	s.app.startRetention()
	return s.share()
}

// share has other commands use the threads of a session that keeps them.
func (s *session) share() error {
	if s.app.data.shared == nil {
		return nil
	}
	stop, err := s.app.data.share(s.data)
	if host.CodeOf(err) == host.InvalidArgument { // the path of the directory is too long for a socket
		s.say("other commands cannot use %s meanwhile: %s", s.data, sentence(err))
		return nil
	}
	if err == nil {
		s.app.closers = append(s.app.closers, stop)
	}
	return err
}

// say tells who sits at the terminal of something that they did not type.
func (s *session) say(format string, args ...any) {
	fmt.Fprintf(s.app.env.console(), "* "+format+"\n", args...)
}

// pollInterval is the time between two looks at the files of a project.
const pollInterval = 250 * time.Millisecond

// poll looks at the files in the background until it is stopped.
func (l *live) poll(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		watch.Poll(ctx, pollInterval, func() time.Duration { l.refresh(ctx); return pollInterval })
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
