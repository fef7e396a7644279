package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Terminal is the streams of a command, and the abilities of the terminal behind them.
// A command gets one, and its goroutines share it: the fields do not change, and the
// console is safe for concurrent use.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer

	InIsTerminal, OutIsTerminal, ErrIsTerminal bool

	NoColor bool // NO_COLOR is set
	Dumb    bool // the terminal cannot draw a line again

	// Columns returns how wide the terminal is; nil, or 0, if that is not known.
	Columns func() int

	// Editor reads lines that a person edits; nil if the terminal has no such thing.
	Editor func(complete func(line string) []Word) LineEditor

	// Interrupts tells ctrl-C apart: nil if it ends the command at once.
	Interrupts *Interrupts

	once   sync.Once
	lines  *Console
	screen *screen // nil unless Err is a terminal that draws lines again
}

// Word is a completion of the word before the cursor, and a few words about it.
type Word struct{ Text, About string }

// ErrInterrupted is the error of a line at which ctrl-C was typed.
var ErrInterrupted = errors.New("interrupted")

// LineEditor reads lines that a person edits. One line is read at a time.
type LineEditor interface {
	// Read shows a prompt and returns a line, which joins the history. Its error is
	// ErrInterrupted, with the text so far, for ctrl-C, io.EOF for ctrl-D on an empty
	// line, and that of ctx if ctx ends first.
	Read(ctx context.Context, prompt string) (string, error)
	// Ask is Read for an answer to a question, which does not join the history.
	Ask(ctx context.Context, question string) (string, error)
	// Print shows whole lines above the line that is read. It is safe for concurrent use.
	Print(lines []byte)
}

// DrawActivity has Out and Err erase and redraw the line that [Terminal.Working] shows, if
// Err is a terminal that can. It is called once, before the terminal is used.
func (t *Terminal) DrawActivity() {
	if !t.ErrIsTerminal || t.Dumb {
		return
	}
	t.screen = &screen{out: t.Err, width: t.Columns}
	t.Err = screenWriter{t.screen, t.Err}
	if t.OutIsTerminal {
		t.Out = screenWriter{t.screen, t.Out}
	}
}

// Width returns how many columns Out has if it is a terminal; 0 if lines need not fit.
func (t *Terminal) Width() int {
	if !t.OutIsTerminal || t.Columns == nil {
		return 0
	}
	return t.Columns()
}

// ErrWidth is [Terminal.Width] of Err.
func (t *Terminal) ErrWidth() int {
	if !t.ErrIsTerminal || t.Columns == nil {
		return 0
	}
	return t.Columns()
}

// ReadVariables takes NO_COLOR and TERM from the environment.
func (t *Terminal) ReadVariables(getenv func(string) string) {
	t.NoColor, t.Dumb = getenv("NO_COLOR") != "", getenv("TERM") == "dumb"
}

// Console returns the one writer of the host's messages on this terminal.
func (t *Terminal) Console() *Console {
	t.once.Do(func() {
		t.lines = &Console{out: t.Out, err: t.Err, terminal: t.ErrIsTerminal && !t.Dumb, shown: map[string]bool{}}
	})
	return t.lines
}

// Coloured reports whether Out shows colours.
func (t *Terminal) Coloured() bool { return t.OutIsTerminal && !t.NoColor && !t.Dumb }

// ErrColoured reports whether Err shows colours.
func (t *Terminal) ErrColoured() bool { return t.ErrIsTerminal && !t.NoColor && !t.Dumb }

// Note writes a remark to the console, beside the output.
func (t *Terminal) Note(format string, args ...any) {
	fmt.Fprintf(t.Console(), "agenthost: "+format+"\n", args...)
}

// Say writes a message of the host to the terminal, as fmt.Printf does. The next step of
// an error is on a line of its own.
func (t *Terminal) Say(format string, args ...any) {
	for i, arg := range args {
		if err, isError := arg.(error); isError {
			args[i] = ErrorText(err)
		}
	}
	fmt.Fprintf(t.Console(), "* "+format+"\n", args...)
}
