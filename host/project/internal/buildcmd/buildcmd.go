// Package buildcmd runs the command that makes a plugin's module of its source. The command,
// its directory and its environment go in; the error that comes out says what to install or to
// fix. What the command leaves running ends with it.
package buildcmd

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/osprocess"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The bounds of a command.
const (
	timeout   = 10 * time.Minute
	grace     = 2 * time.Second // for the output of processes that outlive the command
	maxOutput = 16 << 10
)

// exitNoCompiler is the exit code of the kits' build scripts where there is no compiler
// (EX_UNAVAILABLE of sysexits.h). Their last line says what to install.
const exitNoCompiler = 69

// Line returns a command as it is written in a shell.
func Line(words []string) string {
	quoted := make([]string, len(words))
	for i := range words {
		quoted[i] = termtext.ShellWord(words[i])
	}
	return strings.Join(quoted, " ")
}

// Run runs a command in a directory. doing begins the texts of errors, such as build plugin
// "todo". Its processes have ended when Run returns, but those that have left its process
// group. Code failed_precondition if the command cannot be run or has no compiler,
// invalid_argument if it fails; its output is in the error.
func Run(ctx context.Context, doing, dir string, words, env []string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.FromSlash(dir), env, grace
	osprocess.OwnGroup(cmd)
	cmd.Cancel = func() error { return osprocess.KillGroup(cmd) }
	said := &tail{max: maxOutput}
	cmd.Stdout, cmd.Stderr = said, said
	// Linux ends the command with the thread that has started it.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	if cmd.Process != nil {
		_ = osprocess.KillGroup(cmd) // what the command has left in the background
	}
	output := strings.TrimSpace(string(said.b))
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded, and a process in the background kept its output open
		return nil
	case ctx.Err() != nil:
		return fault.ContextError(ctx)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return fault.Errorf(fault.FailedPrecondition, "%s: %w", doing, err).
			WithHint("install %s, or make it executable; it runs in %s", words[0], dir)
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitNoCompiler && output != "":
		lines := strings.Split(output, "\n")
		return fault.Errorf(fault.FailedPrecondition, "%s: %s: there is no compiler", doing, Line(words)).
			WithHint("%s (the command runs in %s)", strings.TrimSpace(lines[len(lines)-1]), dir)
	}
	return fault.Errorf(fault.InvalidArgument, "%s: %s: %w\n%s", doing, Line(words), err, output).
		WithHint("fix what the command says above")
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
