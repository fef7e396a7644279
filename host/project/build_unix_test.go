//go:build unix

package project

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
)

// A process of the command holds a pipe open, whose end shows when the last one has ended.
func TestTheProcessesOfABuildEndWithIt(t *testing.T) {
	const background = "exec 3> ../alive; echo up >&3; sleep 600 & "
	for name, c := range map[string]struct {
		script string
		cancel bool
		code   host.Code // empty: the build succeeds
	}{
		"one that fails":                          {background + "exit 1", false, host.InvalidArgument},
		"one that is canceled":                    {background + "sleep 600", true, host.Canceled},
		"one that succeeds, and holds its output": {background + "cp source guest.wasm", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(builtProject(t, copySource), "guest")
			alive := filepath.Join(filepath.Dir(dir), "alive")
			if err := syscall.Mkfifo(alive, 0o600); err != nil {
				t.Skip("this file system has no pipes: ", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				pipe, err := os.Open(alive)
				if err == nil {
					_, err = io.ReadFull(pipe, make([]byte, len("up\n")))
				}
				if err == nil && c.cancel {
					cancel()
				}
				if err == nil {
					_, err = io.ReadAll(pipe)
				}
				ended <- err
			}()
			err := runBuild(ctx, "guest", dir, []string{"sh", "-c", c.script}, "sh")
			if (err == nil) != (c.code == "") || err != nil && host.CodeOf(err) != c.code {
				t.Errorf("the build ends with %v, want code %q", err, c.code)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("a process of the build lives on")
			}
		})
	}
}
