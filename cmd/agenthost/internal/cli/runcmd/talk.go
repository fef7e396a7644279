package runcmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
)

// talk is a conversation on a terminal.
func (s *conversation) talk(ctx context.Context) error {
	t := s.term
	fmt.Fprintf(t.Out, "Talking to %s. An empty line or ctrl-D ends it.\n", s.target.Name())
	next := readLines(t.In)
	for {
		l := s.readLine(ctx, "> ", next)
		if l.err != nil || strings.TrimSpace(l.text) == "" {
			return s.endTalk(l.err)
		}
		err := s.turn(ctx, l.text)
		if err == nil {
			err = s.answerAll(ctx, next)
		}
		var quiet cli.QuietExit
		switch {
		case errors.As(err, &quiet), errors.Is(err, io.EOF), errors.Is(err, bufio.ErrTooLong):
			return s.endTalk(err)
		case err != nil && ctx.Err() != nil:
			return s.withResumeCommand(err)
		case err != nil:
			fmt.Fprintf(t.Err, "agenthost: %s\n", ui.ErrorText(err))
		}
	}
}

// line is a line that a person typed, or the error that ended the input.
type line struct {
	text string
	err  error
}

// readLines reads a line for each receive. A read cannot be interrupted: the last one
// ends with the process.
func readLines(r io.Reader) <-chan line {
	out := make(chan line)
	go func() {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, cli.MaxPromptBytes)
		for lines.Scan() {
			out <- line{text: lines.Text()}
		}
		out <- line{err: cmp.Or(lines.Err(), io.EOF)}
	}()
	return out
}

func (s *conversation) endTalk(err error) error {
	var quiet cli.QuietExit
	switch {
	case errors.As(err, &quiet):
		return err
	case errors.Is(err, bufio.ErrTooLong):
		return host.Errorf(host.ResourceExhausted, "a line is more than %d bytes", cli.MaxPromptBytes).WithHint("say it in less")
	case err != nil && err != io.EOF:
		return host.Errorf(host.FailedPrecondition, "read stdin: %w", err)
	case err == io.EOF:
		fmt.Fprintln(s.term.Out)
	}
	s.footer()
	return nil
}

// readLine asks for a line.
func (s *conversation) readLine(ctx context.Context, prompt string, next <-chan line) line {
	console := s.term.Console()
	if err := console.Ask(prompt); err != nil {
		return line{err: err}
	}
	defer console.Answered()
	select {
	case l := <-next:
		return l
	case <-ctx.Done(): // ctrl-C at the prompt
		fmt.Fprintln(s.term.Out)
		return line{err: cli.QuietExit(host.Canceled.ExitCode())}
	}
}
