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

	"golang.org/x/term"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/childcompiler"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lineedit"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childcompiler.Name {
		os.Exit(childcompiler.Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	signaled, stop := context.WithCancel(context.Background())
	interrupts := ui.NewInterrupts(stop)
	go handleSignals(interrupts, stop)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writing to a closed pipe returns an error instead of ending the process
	ctx, cancel := context.WithCancelCause(signaled)
	env := &environment{
		stdin: ui.Interruptible(ctx, os.Stdin), stdout: &outlet{os.Stdout, cancel}, stderr: os.Stderr,
		getenv: os.Getenv, stdinTerminal: isTerminal(os.Stdin), stdoutTerminal: isTerminal(os.Stdout),
		stderrTerminal: isTerminal(os.Stderr),
		columns:        columns, interrupts: interrupts, editor: newEditor,
		compiler: childcompiler.New(),
	}
	os.Exit(run(ctx, os.Args[1:], env))
}

// handleSignals has ctrl-C end what the command asks for, and SIGTERM the command. After
// the signal that ends the command another one ends the process at once.
func handleSignals(interrupts *ui.Interrupts, end func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	for s := range signals {
		if s == os.Interrupt && !interrupts.Interrupt() {
			continue
		}
		signal.Stop(signals)
		end()
		return
	}
}

// columns returns how wide the terminal is, 0 if that is not known.
func columns() int {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// newEditor returns the editor of the lines of a conversation on this process's terminal.
func newEditor(historyFile string, complete func(string) []ui.Word) ui.LineEditor {
	history, err := lineedit.OpenHistory(historyFile)
	if err != nil { // the conversation has its own history
		history = nil
	}
	return lineedit.New(&lineedit.Options{History: history, Complete: complete})
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
	columns        func() int                                                              // of the terminal; nil: not known
	interrupts     *ui.Interrupts                                                          // nil: ctrl-C ends the command
	editor         func(historyFile string, complete func(string) []ui.Word) ui.LineEditor // nil reads plain lines
	endWork        func()                                                                  // of the command that runs: see [ui.Terminal.Working]
	compiler       *childcompiler.Compiler                                                 // nil compiles plugins in this process
}

// terminal returns the streams as commands use them.
func (env *environment) terminal() *ui.Terminal {
	t := &ui.Terminal{
		In: env.stdin, Out: env.stdout, Err: env.stderr,
		InIsTerminal: env.stdinTerminal, OutIsTerminal: env.stdoutTerminal, ErrIsTerminal: env.stderrTerminal,
	}
	t.ReadVariables(env.getenv)
	t.Columns, t.Interrupts = env.columns, env.interrupts
	if env.editor != nil {
		t.Editor = func(complete func(string) []ui.Word) ui.LineEditor {
			return env.editor(lineedit.HistoryFile(env.getenv), complete)
		}
	}
	t.DrawActivity()
	return t
}

// run parses arguments, runs a command and returns the exit code.
func run(ctx context.Context, args []string, env *environment) int {
	root := newRoot(env)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if env.endWork != nil {
		env.endWork()
	}
	if context.Cause(ctx) == errClosedPipe {
		return cli.ExitPipe // the reader has left: no message can be shown
	}
	if err != nil && command == root { // which does nothing itself: there is no such command
		err = cli.UsageError(err, root.CommandPath())
	}
	return cli.Exit(env.stderr, err, cli.WantsJSON(args))
}
