//go:build unix

package watch

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// A pipe in a file's place has no writer, and opening it must not wait for one: the
// watcher of all plugins would stand still.
func TestReadWaitsForNoPipe(t *testing.T) {
	change, path := reported(t, "valid")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("this file system has no pipes: ", err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := change.Read(100)
		read <- err
	}()
	release := func() { // a reader that waits ends with the test
		if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			w.Close()
		}
	}
	select {
	case err := <-read:
		if fault.CodeOf(err) != fault.FailedPrecondition {
			t.Errorf("Read of a pipe: %v", err)
		}
	case <-time.After(time.Minute):
		release()
		t.Errorf("Read of a pipe waits: %v", <-read)
	}
}
