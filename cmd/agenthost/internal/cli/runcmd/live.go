package runcmd

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"

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
func (s *conversation) serveCommands(ctx context.Context, socket string) error {
	if dir := s.data.LocalDir(); s.data.At().IsDatabase() && socket == control.SocketPath(dir) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return host.Errorf(host.FailedPrecondition, "make the directory of the control socket: %w", err).WithHint("name another --socket, or set XDG_RUNTIME_DIR to a directory of this user")
		}
	}
	if dir := filepath.Dir(socket); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return host.Errorf(host.FailedPrecondition, "open control socket: %w", err).WithHint("make the directory, or name another --socket")
		}
	}
	s.reload = project.NewReloader(s.app, s.printMessage)
	stop, err := s.reload.Follow(ctx)
	if err != nil {
		return err
	}
	s.app.OnClose(func() error { stop(); return nil })
	clients := sessioncmd.NewServed(s.app)
	s.app.OnClose(clients.Close)
	if err := clients.Recover(ctx, control.HostWords(&s.data, socket), s.printMessage); err != nil {
		return err
	}
	server, err := control.Listen(socket, handlers(s.app, s.reload, clients))
	if err != nil {
		return err
	}
	s.app.OnClose(server.Close)
	s.app.StartRetention()
	return s.shareData()
}

// shareData lets other commands use the threads of a session that keeps them.
func (s *conversation) shareData() error {
	if s.data.At().IsDatabase() {
		return nil // other commands reach it as this one does
	}
	stop, shared, err := serveStore(s.app.Data(), s.data.At().Dir())
	if host.CodeOf(err) == host.InvalidArgument { // the path of the directory is too long for a socket
		s.printMessage("other commands cannot use %s meanwhile: %s", s.data.String(), ui.ErrorText(err))
		return nil
	}
	if err == nil && shared {
		s.app.OnClose(stop)
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
