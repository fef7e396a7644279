package control_test

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
)

// TestASocketOfABusyHostIsNotReplaced connects to one that accepts nobody until the kernel
// takes no more.
func TestASocketOfABusyHostIsNotReplaced(t *testing.T) {
	path := socketPath(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.ListenSocket(path); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "another host listens") {
		t.Errorf("ListenSocket where a busy host listens = %v, want failed_precondition", err)
	}
	if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket was replaced (%v)", err)
	}
}
