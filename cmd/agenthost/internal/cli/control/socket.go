package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/agenthost/agenthost/host"
)

// maxPathBytes is how long a socket's path can be on every system.
const maxPathBytes = 103

// ListenSocket makes a socket at path that only this user can open. A stale socket,
// without a listener, is replaced. Code failed_precondition if another host listens at
// path, or if path is not a socket. Closing the listener leaves the file.
//
// On Linux a path that begins with @ is an abstract socket, which has no file: every user
// of the machine can connect to it, and who may use the host is seen from the peer alone.
func ListenSocket(path string) (net.Listener, error) {
	if err := checkFree(path); err != nil {
		return nil, err
	}
	listen := listenAtFile
	if isAbstract(path) {
		listen = func(path string) (net.Listener, error) { return net.Listen("unix", path) }
	}
	listener, err := listen(path)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "open control socket %s: %w", path, err).
			WithHint("name another one with --socket")
	}
	return listener, nil
}

// checkFree returns an error unless path is free or a stale socket.
func checkFree(path string) error {
	if len(path) > maxPathBytes {
		return host.Errorf(host.InvalidArgument, "control socket %s: its path is %d bytes, more than the %d that a socket's may have", path, len(path), maxPathBytes).
			WithHint("name a shorter one with --socket")
	}
	if isAbstract(path) {
		return checkNoHost(path)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "open control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return host.Errorf(host.FailedPrecondition, "%s is there, and is not a socket", path).WithHint("move it away, or name another one with --socket")
	}
	return checkNoHost(path)
}

// checkNoHost returns an error if a host listens at path.
func checkNoHost(path string) error {
	conn, err := net.Dial("unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil // left behind by a process that has exited
	}
	if err == nil {
		_ = conn.Close()
	}
	// Another error is of a host that is too busy to answer, or another user's.
	return host.Errorf(host.FailedPrecondition, "another host listens at %s", path).WithHint("stop it, or name another one with --socket")
}

// Listens reports whether a host listens at path.
func Listens(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// isAbstract reports whether a path is the name of an abstract socket.
func isAbstract(path string) bool { return runtime.GOOS == "linux" && strings.HasPrefix(path, "@") }

// listenAtFile makes the socket in a temporary directory that only this user can open, and
// renames it to path after setting its mode: at no moment can other users open it.
func listenAtFile(path string) (_ net.Listener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	aside := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", aside)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(aside, 0o600), os.Rename(aside, path)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
