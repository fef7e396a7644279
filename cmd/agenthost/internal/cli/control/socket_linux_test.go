package control_test

import (
	"context"
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

// An abstract socket has no file: nothing is left behind by a host, killed or ended.
func TestASocketMayHaveNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := "@agenthost-" + host.NewID()
	for range 2 { // the name is free again when the host has ended
		s, err := control.Listen(path, nil, []control.Route{control.Do("echo", "Answer what is sent.", func(_ context.Context, text string) (string, error) { return text, nil })})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := control.Call(t.Context(), path, "echo", "hello", &got); err != nil || got != "hello" {
			t.Errorf("Call = %q, %v", got, err)
		}
		if _, err := control.Listen(path, nil, nil); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "another host listens at "+path) {
			t.Errorf("a second Listen = %v, want failed_precondition", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := control.Call(t.Context(), path, "echo", "hello", nil); !control.Unreachable(err) {
		t.Errorf("Call after the end = %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("there are files: %v, %v", files, err)
	}
}
