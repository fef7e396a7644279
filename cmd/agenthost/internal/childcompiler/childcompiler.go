package childcompiler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
)

// Name is the first argument of a compiling process. It is internal: no
// help lists it as a command.
const Name = "compile-child"

// The exit codes of a child other than 0.
const (
	exitRefused = 1 // an error is on stdout
	exitLate    = 3
)

const (
	// maxChildWords bounds how much of a child's output is read.
	maxChildWords = 64 << 10
	// childPatience is how long the output of a child that has ended may stay open: a busy
	// machine reads it late.
	childPatience = 10 * time.Second
)

// Compiler starts children. Its compile is a plugin.Options.Compiler.
type Compiler struct {
	path     string // this program
	name     string // os.Args[0]
	patience time.Duration
}

// New returns nil where the program cannot find itself; modules are
// then compiled in this process.
func New() *Compiler {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	if runtime.GOOS == "linux" {
		path = "/proc/self/exe" // this very file, also after an update has replaced it
	}
	return &Compiler{path, os.Args[0], childPatience}
}

// Func returns the value of plugin.Options.Compiler.
func (c *Compiler) Func() func(context.Context, *plugin.CompileJob) error {
	if c == nil {
		return nil
	}
	return c.compile
}

// compile runs a child for one job.
func (c *Compiler) compile(ctx context.Context, job *plugin.CompileJob) error {
	out, words := &capped{}, &capped{}
	err := c.command(ctx, job, out, words).Run()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded, and its output, which is of no use then, was not read to the end
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &exit):
		return host.Errorf(host.Internal, "start a process that compiles: %w", err)
	}
	return childError(job, exit, out.b, string(words.b))
}

// command returns a child that is not started yet.
func (c *Compiler) command(ctx context.Context, job *plugin.CompileJob, out, words io.Writer) *exec.Cmd {
	keepFiles()
	cmd := exec.CommandContext(ctx, c.path)
	cmd.Args = []string{c.name, Name, job.Timeout.String(), strconv.FormatInt(job.Memory, 10)}
	cmd.Env = []string{} // nil would pass on this process's environment
	cmd.Dir = job.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(job.Wasm), out, words
	cmd.WaitDelay = c.patience
	return cmd
}

// childError says why a child did not succeed.
func childError(job *plugin.CompileJob, exit *exec.ExitError, out []byte, words string) error {
	var refused host.Error
	switch {
	case exit.ExitCode() == exitLate, strings.Contains(words, "SIGXCPU"):
		return job.TimeoutError()
	case outOfMemory(words), outOfMemory(string(out)):
		return job.MemoryError()
	case exit.ExitCode() == exitRefused && json.Unmarshal(out, &refused) == nil && refused.Code.Valid():
		return &refused
	}
	first, _, _ := strings.Cut(words, "\n")
	return host.Errorf(host.InvalidArgument, "compile: the process that compiled it ended with %v: %s", exit, first).
		WithHint("report it with the module, and build the module in another way")
}

// outOfMemory recognises the last messages of a Go program that got no memory, and
// the kernel's.
func outOfMemory(words string) bool {
	return strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate memory") ||
		strings.Contains(words, "pthread_create failed") || // no memory for a thread's stack
		strings.Contains(words, "ThreadSanitizer failed to allocate") // of a program built with the race detector
}

// capped is a writer that keeps the first maxChildWords bytes.
type capped struct{ b []byte }

func (c *capped) Write(b []byte) (int, error) {
	c.b = append(c.b, b[:min(len(b), maxChildWords-len(c.b))]...)
	return len(b), nil
}

// Main is the child's main function: it sets the limits in its arguments
// before it reads a byte of the module, and compiles into its working directory.
func Main(args []string, in io.Reader, out io.Writer) int {
	timeout, memory, err := childArgs(args)
	if err == nil {
		err = bindChild(timeout, memory)
	}
	if err == nil {
		// This timer ends the child even if its parent has exited.
		time.AfterFunc(timeout, func() { os.Exit(exitLate) })
		debug.SetMemoryLimit(memory - memory/4) // collect garbage before the hard limit is reached
		err = compileStdin(in)
	}
	if err == nil {
		return 0
	}
	_ = json.NewEncoder(out).Encode(fault.AsError(err)) // a parent that has exited needs no answer
	return exitRefused
}

func childArgs(args []string) (timeout time.Duration, memory int64, err error) {
	if len(args) != 2 {
		return 0, 0, host.Errorf(host.InvalidArgument, "%s is started by agenthost only", Name)
	}
	timeout, err1 := time.ParseDuration(args[0])
	memory, err2 := strconv.ParseInt(args[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil || timeout <= 0 || memory <= 0 {
		return 0, 0, host.Errorf(host.InvalidArgument, "%s %q: not limits", Name, args)
	}
	return timeout, memory, nil
}

func compileStdin(in io.Reader) error {
	wasm, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	return plugin.CompileInto(&plugin.CompileJob{Wasm: wasm, Dir: "."})
}
