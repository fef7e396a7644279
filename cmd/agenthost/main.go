// Command agenthost runs networks of agents whose parts are sandboxed
// WebAssembly modules.
//
// Try it without anything installed, configured or paid for:
//
//	agenthost demo
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/childcompiler"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childcompiler.Name {
		os.Exit(childcompiler.Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // a second ctrl-C ends the process at once
		<-signaled.Done()
		stop()
	}()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writing to a closed pipe returns an error instead of ending the process
	ctx, cancel := context.WithCancelCause(signaled)
	env := &environment{
		stdin: ui.Interruptible(ctx, os.Stdin), stdout: &outlet{os.Stdout, cancel}, stderr: os.Stderr,
		getenv: os.Getenv, stdinTerminal: isTerminal(os.Stdin), stdoutTerminal: isTerminal(os.Stdout),
		stderrTerminal: isTerminal(os.Stderr),
		compiler:       childcompiler.New(),
	}
	os.Exit(run(ctx, os.Args[1:], env))
}

// errClosedPipe ends a command whose output has lost its reader, as in
// agenthost demo | head -1.
var errClosedPipe = host.Errorf(host.Canceled, "nobody reads the output any more")

// outlet is the output of a command. When its reader has left, the command is
// canceled, so that it cleans up after itself as after ctrl-C.
type outlet struct {
	io.Writer
	cancel context.CancelCauseFunc
}

// Write implements io.Writer.
func (o *outlet) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.cancel(errClosedPipe)
	}
	return n, err
}

// environment is everything outside the program that a command touches, so that
// tests can stand in for it.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	stdinTerminal  bool
	stdoutTerminal bool
	stderrTerminal bool
	compiler       *childcompiler.Compiler // nil compiles plugins in this process
}

// terminal returns the streams as commands use them.
func (env *environment) terminal() *ui.Terminal {
	t := &ui.Terminal{
		In: env.stdin, Out: env.stdout, Err: env.stderr,
		InIsTerminal: env.stdinTerminal, OutIsTerminal: env.stdoutTerminal, ErrIsTerminal: env.stderrTerminal,
	}
	t.ReadVariables(env.getenv)
	return t
}

// run parses arguments, runs a command and returns the exit code.
func run(ctx context.Context, args []string, env *environment) int {
	root := newRoot(env)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if context.Cause(ctx) == errClosedPipe {
		return cli.ExitPipe // the reader has left: no message can be shown
	}
	if err != nil && command == root { // which does nothing itself: there is no such command
		err = cli.UsageError(err, root.CommandPath())
	}
	return cli.Exit(env.stderr, err, cli.WantsJSON(args))
}
