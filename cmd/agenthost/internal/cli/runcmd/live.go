package runcmd

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/datacmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/plugincmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/sessioncmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/project"
)

// serveCommands lets other commands steer this host over a control socket.
func (s *conversation) serveCommands(ctx context.Context, socket string) (err error) {
	s.reload, err = serveCommands(ctx, s.app, &s.data, socket, s.printMessage)
	return err
}

// serveCommands lets other commands steer a project's host over a control socket, until
// the project is closed. say receives messages for people.
func serveCommands(ctx context.Context, app *project.Project, data *cli.DataFlag, socket string, say func(string, ...any)) (*project.Reloader, error) {
	if dir := data.LocalDir(); data.At().IsDatabase() && socket == control.SocketPath(dir) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, host.Errorf(host.FailedPrecondition, "make the directory of the control socket: %w", err).WithHint("name another --socket, or set XDG_RUNTIME_DIR to a directory of this user")
		}
	}
	if dir := filepath.Dir(socket); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, host.Errorf(host.FailedPrecondition, "open control socket: %w", err).WithHint("make the directory, or name another --socket")
		}
	}
	reload := project.NewReloader(app, say)
	stop, err := reload.Follow(ctx)
	if err != nil {
		return nil, err
	}
	app.OnClose(func() error { stop(); return nil })
	clients := sessioncmd.NewServed(app)
	app.OnClose(clients.Close)
	if err := clients.Recover(ctx, control.HostWords(data, socket), say); err != nil {
		return nil, err
	}
	server, err := control.Listen(socket, handlers(app, reload, clients))
	if err != nil {
		return nil, err
	}
	app.OnClose(server.Close)
	app.StartRetention()
	return reload, shareData(app, data, say)
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

// handlers are the operations of the control socket.
func handlers(a *project.Project, reload *project.Reloader, clients *sessioncmd.Served) map[string]control.Handler {
	all := clients.Handlers()
	maps.Copy(all, plugincmd.Handlers(a, reload))
	maps.Copy(all, datacmd.Handlers(a))
	return all
}

// devSocket returns where the socket of a host without a data directory is: in a
// temporary directory of its own.
func devSocket() (path string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "agenthost")
	if err != nil {
		return "", nil, host.Errorf(host.FailedPrecondition, "make a temporary directory: %w", err).WithHint("name one with --data or --socket")
	}
	return filepath.Join(dir, control.SocketName), func() error { return os.RemoveAll(dir) }, nil
}
