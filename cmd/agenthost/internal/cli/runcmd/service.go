package runcmd

import (
	"net"
	"os"
	"strconv"
	"time"
)

// notifyTimeout is how long the process waits for a manager that does not read.
const notifyTimeout = time.Second

// serviceManager is the program that started the process and wants to hear of it, such as
// systemd. Its variables are those of sd_notify.
type serviceManager struct {
	getenv func(string) string
}

// notify says that the state of the process has changed. Without a manager it does
// nothing, and neither does it if the manager does not listen, or reads nothing for
// notifyTimeout.
func (m serviceManager) notify(state string) {
	path := m.getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // Linux's abstract sockets
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	_, _ = conn.Write([]byte(state))
}

// startWatchdog says at half the manager's interval that the process lives, if the manager
// asks for that, until stop is called.
func (m serviceManager) startWatchdog() (stop func()) {
	usec, err := strconv.ParseInt(m.getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 1 {
		return func() {}
	}
	if pid := m.getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return func() {} // it asks another process
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Duration(usec) * time.Microsecond / 2)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.notify("WATCHDOG=1")
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended); <-done }
}
