package ui

import (
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

	once  sync.Once
	lines *Console
}

// ReadVariables takes NO_COLOR and TERM from the environment.
func (t *Terminal) ReadVariables(getenv func(string) string) {
	t.NoColor, t.Dumb = getenv("NO_COLOR") != "", getenv("TERM") == "dumb"
}

// Console returns the one writer of the host's messages on this terminal.
func (t *Terminal) Console() *Console {
	t.once.Do(func() {
		t.lines = &Console{out: t.Out, err: t.Err, terminal: t.OutIsTerminal, shown: map[string]bool{}}
	})
	return t.lines
}

// Coloured reports whether Out shows colours.
func (t *Terminal) Coloured() bool { return t.OutIsTerminal && !t.NoColor && !t.Dumb }

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
