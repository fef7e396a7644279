package runcmd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/datacmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/plugincmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/sessioncmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/usagecmd"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/project"
)

// liveHost is a project's host that other processes use while it runs.
type liveHost struct {
	app      *project.Project
	reload   *project.Reloader
	api      httpapi.Options // of each address
	say      func(string, ...any)
	draining atomic.Bool // no run begins any more
}

// serveCommands lets other commands use this host over a control socket.
func (s *conversation) serveCommands(ctx context.Context, socket string) error {
	h, err := newLiveHost(ctx, s.app, &s.data, socket, s.term.Logger(), s.term.Say)
	if err == nil {
		s.reload = h.reload
	}
	return err
}

// newLiveHost lets other processes use a project's host over a control socket until the
// project is closed. say receives messages for people.
func newLiveHost(ctx context.Context, app *project.Project, data *cli.DataFlag, socket string, logger *slog.Logger, say func(string, ...any)) (*liveHost, error) {
	if err := makeSocketDir(data, socket); err != nil {
		return nil, err
	}
	h := &liveHost{app: app, reload: project.NewReloader(app, say), say: say}
	stop, err := h.reload.Follow(ctx)
	if err != nil {
		return nil, err
	}
	app.OnClose(func() error { stop(); return nil })
	clients := sessioncmd.NewServed(app)
	app.OnClose(clients.Close)
	if err := clients.Recover(ctx, control.HostWords(data, socket), say); err != nil {
		return nil, err
	}
	if h.api, err = h.apiOptions(ctx, clients, logger); err != nil {
		return nil, err
	}
	api, err := h.administratorAPI()
	if err != nil {
		return nil, err
	}
	server, err := control.Listen(socket, api, slices.Concat(clients.Routes(), plugincmd.Routes(app, h.reload), datacmd.Routes(app), usagecmd.Routes(app)))
	if err != nil {
		return nil, err
	}
	app.OnClose(server.Close)
	app.StartRetention()
	return h, shareData(app, data, say)
}

// makeSocketDir makes the directory of a database's sockets, and refuses another one that
// is missing.
func makeSocketDir(data *cli.DataFlag, socket string) error {
	if dir := data.LocalDir(); data.At().IsDatabase() && socket == control.SocketPath(dir) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return host.Errorf(host.FailedPrecondition, "make the directory of the control socket: %w", err).WithHint("name another --socket, or set XDG_RUNTIME_DIR to a directory of this user")
		}
	}
	if _, err := os.Stat(filepath.Dir(socket)); err != nil {
		return host.Errorf(host.FailedPrecondition, "open control socket: %w", err).WithHint("make the directory, or name another --socket")
	}
	return nil
}

// apiOptions returns the parts of the host that each of its addresses serves.
func (h *liveHost) apiOptions(ctx context.Context, clients *sessioncmd.Served, logger *slog.Logger) (httpapi.Options, error) {
	var opts httpapi.Options
	if err := project.AddParts(ctx, &opts, h.app); err != nil {
		return opts, err
	}
	opts.Sessions, opts.Logger = clients.Service, logger
	opts.Ready = func(context.Context) error {
		if h.draining.Load() {
			return host.Errorf(host.Unavailable, "the host ends")
		}
		return nil
	}
	return opts, nil
}

// administratorAPI returns the API of the control socket, which acts for the tenant that
// a request names, or the project's.
func (h *liveHost) administratorAPI() (*httpapi.API, error) {
	opts := h.api
	opts.WholeErrors, opts.MCP = true, nil
	project.AddCredentials(&opts, h.app, &keys.Options{Logger: opts.Logger}) // the socket asks for none, and manages them
	return httpapi.New(control.Authenticate(h.app.Tenant), &opts)
}

// shareData lets other commands use the threads of a host that keeps them.
func shareData(app *project.Project, data *cli.DataFlag, say func(string, ...any)) error {
	if data.At().IsDatabase() {
		return nil // other commands reach it as this one does
	}
	stop, shared, err := serveStore(app.Data(), data.At().Dir())
	if host.CodeOf(err) == host.InvalidArgument { // the path of the directory is too long for a socket
		say("other commands cannot use %s meanwhile: %s", data.String(), ui.ErrorText(err))
		return nil
	}
	if err == nil && shared {
		app.OnClose(stop)
	}
	return err
}

// serveStore lets other processes of this user use the store of a directory while it is
// open. shared reports whether the directory has a store to share.
func serveStore(d *datadir.Dir, dir string) (stop func() error, shared bool, err error) {
	path := datadir.SocketPath(dir)
	shared, err = d.Serve(func() (net.Listener, error) { return control.ListenSocket(path) })
	return func() error {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}, shared, err
}

// localSocket returns the path of the control socket that a flag names, or that of the
// data. A host without either has it in a temporary directory of its own.
func localSocket(named string, data *cli.DataFlag, a *project.Project) (string, error) {
	switch {
	case named != "":
		return named, nil
	case data.LocalDir() != "":
		return control.SocketPath(data.LocalDir()), nil
	}
	dir, err := os.MkdirTemp("", "agenthost")
	if err != nil {
		return "", host.Errorf(host.FailedPrecondition, "make a temporary directory: %w", err).WithHint("name one with --data or --socket")
	}
	a.OnClose(func() error { return os.RemoveAll(dir) })
	return filepath.Join(dir, control.SocketName), nil
}
