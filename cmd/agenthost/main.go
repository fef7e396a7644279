// Command agenthost runs networks of agents whose parts are sandboxed
// WebAssembly modules.
//
// Try it without anything installed, configured or paid for:
//
//	agenthost demo
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == compileChildName {
		os.Exit(compileChild(os.Args[2:], os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // a second ctrl-C ends the process at once
		<-ctx.Done()
		stop()
	}()
	env := &environment{
		stdin: interruptible{ctx, os.Stdin}, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, stdinTerminal: isTerminal(os.Stdin), stdoutTerminal: isTerminal(os.Stdout),
		stderrTerminal: isTerminal(os.Stderr),
		compiler:       newChildCompiler(),
	}
	os.Exit(run(ctx, os.Args[1:], env))
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
	compiler       *childCompiler // nil compiles plugins in this process
}

// run parses arguments, runs a command and returns the exit code.
func run(ctx context.Context, args []string, env *environment) int {
	root := newRoot(env)
	root.SetArgs(args)
	return exit(env, root.ExecuteContext(ctx))
}
