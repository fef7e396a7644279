// Package testchild starts a test of the program that runs in a process of its own, which
// can be killed: what it has left is then looked at from outside.
package testchild

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"testing"
)

// Process is a process that runs one test. Its standard error is that of the program, and
// its last lines are in [Process.Wait]'s error.
type Process struct {
	Cmd *exec.Cmd

	t     testing.TB
	in    io.WriteCloser
	lines *bufio.Scanner
	said  tail
}

// Start starts the test with a name, with more variables in its environment. The process is
// killed at the end of t.
func Start(t testing.TB, test string, env ...string) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$")}
	p.Cmd.Env, p.Cmd.Stderr = append(os.Environ(), env...), io.MultiWriter(os.Stderr, &p.said)
	in, err := p.Cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.lines = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		p.Kill()
		_ = p.Cmd.Wait()
	})
	return p
}

// Wait waits for the end of the process. Its error has the last lines of standard error.
func (p *Process) Wait() error {
	err := p.Cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, p.said.last)
	}
	return err
}

// tail keeps the end of all that is written to it.
type tail struct{ last []byte }

func (t *tail) Write(b []byte) (int, error) {
	const most = 4096
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-most):]
	return len(b), nil
}

// Lines are what the process says, up to its end.
func (p *Process) Lines() iter.Seq[string] {
	return func(yield func(string) bool) {
		for p.lines.Scan() && yield(p.lines.Text()) {
		}
	}
}

// Line waits for the next line.
func (p *Process) Line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("a process has ended: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// Tell writes a line to the standard input of the process.
func (p *Process) Tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// Hangup closes the standard input of the process.
func (p *Process) Hangup() { _ = p.in.Close() }

// Kill ends the process as nothing else would. It may be called again.
func (p *Process) Kill() { _ = p.Cmd.Process.Kill() }

// KillAt kills the process when it says a word, and waits for its end.
func (p *Process) KillAt(word string) {
	for line := range p.Lines() {
		if line == word {
			p.Kill()
		}
	}
	_ = p.Cmd.Wait()
}
