package talk

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
)

// Options are those of a conversation.
type Options struct {
	// Say has a turn. ctx ends with ctrl-C, and the turn with it.
	Say func(ctx context.Context, text string, p *Person) error

	Commands []Command // beside /help and /quit
}

// Person is at the terminal: a turn may ask them.
type Person struct {
	term     *ui.Terminal
	commands []Command
	editor   ui.LineEditor // nil reads plain lines
	lines    <-chan line   // nil with an editor
}

// line is a line that a person typed, or the error that ended the input.
type line struct {
	text string
	err  error
}

// errLeave ends a conversation that a command ends.
var errLeave = errors.New("leave")

// Hold holds a conversation until it is left: by /quit, the end of the input, or ctrl-C
// twice. Its error then is nil, and [cli.QuietExit] after ctrl-C. A failed turn is shown,
// and the conversation continues.
func Hold(ctx context.Context, t *ui.Terminal, opts *Options) error {
	p := newPerson(t, opts.Commands)
	rest := t.Idle()
	defer rest()
	interrupted := false // the last thing that happened was ctrl-C
	for {
		text, err := p.read(ctx, "> ", false)
		switch {
		case errors.Is(err, ui.ErrInterrupted) && ctx.Err() == nil && text != "":
			interrupted = false // the line is discarded
			continue
		case errors.Is(err, ui.ErrInterrupted) && ctx.Err() == nil && !interrupted:
			fmt.Fprintln(t.Err, "Ctrl-C again leaves, as do ctrl-D and /quit.")
			interrupted = true
			continue
		case err != nil:
			return p.end(err)
		}
		interrupted = false
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		var stopped bool
		stopped, err = p.have(ctx, text, opts.Say)
		interrupted = stopped
		var quiet cli.QuietExit
		switch {
		case err == nil:
		case errors.Is(err, errLeave):
			return nil
		case errors.As(err, &quiet), errors.Is(err, io.EOF), errors.Is(err, bufio.ErrTooLong):
			return p.end(err)
		case ctx.Err() != nil:
			return err
		case stopped:
			fmt.Fprintln(t.Err, "Interrupted; what was finished is kept. Ctrl-C again leaves.")
		default:
			fmt.Fprintf(t.Err, "agenthost: %s\n", ui.ErrorText(err))
		}
	}
}

func newPerson(t *ui.Terminal, commands []Command) *Person {
	p := &Person{term: t}
	p.commands = append(append(p.commands, commands...), p.help(), quit())
	if t.Editor != nil && t.InIsTerminal && t.OutIsTerminal && !t.Dumb {
		p.editor = t.Editor(p.complete)
	} else {
		p.lines = readLines(t.In)
	}
	return p
}

// have does a command, or has a turn. stopped reports that ctrl-C ended it.
func (p *Person) have(ctx context.Context, text string, say func(context.Context, string, *Person) error) (stopped bool, err error) {
	turn, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release := p.term.Interrupts.Catch(func() { cancel(errStopped) })
	defer release()
	if name, arg, ok := commandOf(text); ok {
		err = p.do(turn, name, arg)
	} else {
		err = say(turn, text, p)
	}
	return context.Cause(turn) == errStopped, err
}

// errStopped is the cause of the end of a turn that ctrl-C ended.
var errStopped = host.Errorf(host.Canceled, "interrupted")

// Ask shows a question, and returns the person's answer. Ctrl-C gives none.
func (p *Person) Ask(ctx context.Context, question string) (string, error) {
	text, err := p.read(ctx, question, true)
	if errors.Is(err, ui.ErrInterrupted) && ctx.Err() == nil {
		return "", nil
	}
	return text, err
}

// read asks for a line.
func (p *Person) read(ctx context.Context, prompt string, asking bool) (string, error) {
	idle := p.term.Idle()
	defer idle()
	if p.editor == nil {
		return p.readPlain(ctx, prompt)
	}
	defer p.term.Console().Editing(p.editor)()
	read := p.editor.Read
	if asking {
		read = p.editor.Ask
	}
	text, err := read(ctx, prompt)
	if ctx.Err() != nil {
		return "", cli.QuietExit(host.Canceled.ExitCode())
	}
	if err == nil && !utf8.ValidString(text) {
		return "", cli.NotUTF8("the line")
	}
	return text, err
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

func (p *Person) readPlain(ctx context.Context, prompt string) (string, error) {
	console := p.term.Console()
	if err := console.Ask(prompt); err != nil {
		return "", err
	}
	defer console.Answered()
	select {
	case l := <-p.lines:
		return l.text, l.err
	case <-ctx.Done(): // ctrl-C at the prompt
		fmt.Fprintln(p.term.Err)
		return "", cli.QuietExit(host.Canceled.ExitCode())
	}
}

// end returns the error of a conversation whose input has ended.
func (p *Person) end(err error) error {
	var quiet cli.QuietExit
	switch {
	case errors.As(err, &quiet):
		return err
	case errors.Is(err, ui.ErrInterrupted):
		return cli.QuietExit(host.Canceled.ExitCode())
	case errors.Is(err, bufio.ErrTooLong):
		return host.Errorf(host.ResourceExhausted, "a line is more than %d bytes", cli.MaxPromptBytes).WithHint("say it in less")
	case !errors.Is(err, io.EOF):
		return host.Errorf(host.FailedPrecondition, "read stdin: %w", err)
	}
	if p.editor == nil {
		fmt.Fprintln(p.term.Err)
	}
	return nil
}
