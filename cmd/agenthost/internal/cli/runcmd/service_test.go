//go:build unix

package runcmd

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The process says at its end that it stops: a manager that hangs must not keep it.
func TestAManagerThatReadsNothingHoldsUpNoEnd(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // short: it is a socket's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "n")
	address := &net.UnixAddr{Name: path, Net: "unixgram"}
	l, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for err == nil { // until the socket takes no more
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = conn.Write([]byte("WATCHDOG=1"))
	}
	m := serviceManager{getenv: func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000"}[name]
	}}
	ended := make(chan struct{})
	go func() {
		stop := m.startWatchdog()
		m.notify("STOPPING=1")
		stop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the process waits for its manager")
	}
}
