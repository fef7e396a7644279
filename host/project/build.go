package project

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/osprocess"
	"github.com/agenthost/agenthost/internal/termtext"
	"github.com/agenthost/agenthost/internal/watch"
)

// The bounds of a plugin's build command.
const (
	buildTimeout   = 10 * time.Minute
	buildGrace     = 2 * time.Second // for the output of processes that outlive the command
	maxBuildOutput = 16 << 10
)

// buildDir returns the directory in which a plugin's build command runs, "" if the plugin
// has none. A module that was loaded from elsewhere is not built.
func (s *pluginSet) buildDir(id, source string) string {
	p := s.config.Plugins[id]
	switch {
	case len(p.Build.Run) == 0 || s.config.Fsys != nil || source != s.path(id):
		return ""
	case p.Build.In == "":
		return path.Dir(filepath.ToSlash(source))
	}
	return s.config.FilePath(p.Build.In)
}

// watched returns the file or directory whose changes make a plugin's next version.
func (s *pluginSet) watched(id, source string) string {
	if dir := s.buildDir(id, source); dir != "" {
		return dir
	}
	return source
}

// buildSource runs a plugin's build command if its module is older than the source, or in
// any case. Code failed_precondition if the command cannot be run, invalid_argument if it
// fails; its output is in the error.
func (s *pluginSet) buildSource(ctx context.Context, id string, always bool, progress func(string)) error {
	module := s.path(id)
	dir := s.buildDir(id, module)
	if dir == "" || !always && !stale(module, dir) {
		return nil
	}
	run := s.config.Plugins[id].Build.Run
	words := make([]string, len(run))
	for i := range run {
		words[i] = termtext.ShellWord(run[i])
	}
	command := strings.Join(words, " ")
	if !s.modules.commands {
		if _, err := os.Stat(module); err == nil {
			return nil
		}
		return host.Errorf(host.FailedPrecondition, "plugin %q: %s is not built, and this program runs no commands of configurations", id, module).
			WithHint("build it: (cd %s && %s)", termtext.ShellWord(dir), command)
	}
	if progress != nil {
		progress("build plugin " + id + ": " + command)
	}
	if err := runBuild(ctx, id, dir, run, command); err != nil {
		return err
	}
	if _, err := os.Stat(module); err != nil {
		return host.Errorf(host.InvalidArgument, "build plugin %q: %s has not made %s", id, command, module).
			WithHint("name in path what the command makes, relative to the configuration; the command runs in %s", dir)
	}
	return nil
}

// runBuild runs a command. Its processes have ended when runBuild returns, but those that
// have left its process group.
func runBuild(ctx context.Context, id, dir string, run []string, command string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, run[0], run[1:]...)
	cmd.Dir, cmd.WaitDelay = filepath.FromSlash(dir), buildGrace
	osprocess.OwnGroup(cmd)
	cmd.Cancel = func() error { return osprocess.KillGroup(cmd) }
	said := &tail{max: maxBuildOutput}
	cmd.Stdout, cmd.Stderr = said, said
	// Linux ends the command with the thread that has started it.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	if cmd.Process != nil {
		_ = osprocess.KillGroup(cmd) // what the command has left in the background
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded, and a process in the background kept its output open
		return nil
	case ctx.Err() != nil:
		return fault.ContextError(ctx)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return host.Errorf(host.FailedPrecondition, "build plugin %q: %w", id, err).
			WithHint("install %s, or make it executable; it runs in %s", run[0], dir)
	}
	return host.Errorf(host.InvalidArgument, "build plugin %q: %s: %w\n%s", id, command, err, strings.TrimSpace(string(said.b))).
		WithHint("fix what the command says above")
}

// stale reports whether a module is missing, or older than a file of its source.
func stale(module, dir string) bool {
	made, err := os.Stat(module)
	if err != nil {
		return true
	}
	newest, err := watch.Newest(dir)
	return err == nil && newest.After(made.ModTime())
}

// tail keeps the end of the text written to it.
type tail struct {
	b   []byte
	max int
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if len(t.b) > t.max {
		t.b = append(t.b[:0], t.b[len(t.b)-t.max:]...)
	}
	return len(b), nil
}
