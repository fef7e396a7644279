//go:build unix

package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/buildcmd"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// A process of the command holds a pipe open, whose end shows when the last one has ended.
func TestTheProcessesOfABuildEndWithIt(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
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
			err := buildcmd.Run(ctx, "build", dir, []string{"sh", "-c", c.script}, os.Environ())
			if (err == nil) != (c.code == "") || err != nil && host.CodeOf(err) != c.code {
				t.Errorf("the build ends with %v, want code %q", err, c.code)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("a process of the build lives on")
			}
		})
	}
}

// hangingBuild is a reloader of a plugin whose next build says in the pipe runs that it
// runs, and waits until something is written to the pipe ends.
func hangingBuild(t *testing.T, say func(string, ...any)) (r *Reloader, dir string) {
	t.Helper()
	dir = builtProject(t, "sh, build.sh")
	writeProjectFile(t, dir, "guest/build.sh", "if [ -e ../runs ]; then echo > ../runs; read end < ../ends; fi; cp source guest.wasm")
	p, err := openBuilt(t, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "runs"), 0o600), syscall.Mkfifo(filepath.Join(dir, "ends"), 0o600)); err != nil {
		t.Skip("this file system has no pipes: ", err)
	}
	return NewReloader(p, say), dir
}

func awaitBuild(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.ReadFile(filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
}

func endBuild(t *testing.T, dir string) { writeProjectFile(t, dir, "ends", "\n") }

func TestAPluginIsUnloadedWhileItIsBuilt(t *testing.T) {
	r, dir := hangingBuild(t, t.Logf)
	reloaded, unloaded := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.Reload(t.Context(), "guest")
		reloaded <- err
	}()
	awaitBuild(t, dir)
	go func() {
		_, err := r.Unload(t.Context(), "guest")
		unloaded <- err
	}()
	select {
	case err := <-unloaded:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("an unload waits for a build")
	}
	endBuild(t, dir)
	if err := <-reloaded; host.CodeOf(err) != host.Conflict {
		t.Errorf("the reload of a plugin that was unloaded meanwhile: %v, want conflict", err)
	}
	if r.project.plugins.slot("guest").Current() != nil {
		t.Error("an unloaded plugin serves again when its build ends")
	}
}

// Grants that a person takes away are gone, however long a command takes.
func TestASavedConfigurationIsTakenWhileAPluginIsBuilt(t *testing.T) {
	said := make(chan string, 100)
	r, dir := hangingBuild(t, func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
	r.Watch()
	stop := r.Poll(t.Context())
	defer stop()
	writeProjectFile(t, dir, "guest/notes", "a save that is built")
	awaitBuild(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, configfile.FileName))
	if err != nil {
		t.Fatal(err)
	}
	writeProjectFile(t, dir, configfile.FileName, string(text)+"tenants: {acme: {plugins: []}}\n")
	deadline := time.After(time.Minute)
	for taken := false; !taken; {
		select {
		case line := <-said:
			taken = strings.HasSuffix(line, "are taken")
		case <-deadline:
			t.Fatal("a saved configuration waits for a build")
		}
	}
	endBuild(t, dir)
}
