package main

import (
	"fmt"
	"io"
	"sync"
)

// terminal is the streams of a command, and the abilities of the terminal behind them.
type terminal struct {
	In       io.Reader
	Out, Err io.Writer

	InIsTerminal, OutIsTerminal, ErrIsTerminal bool

	NoColor bool // NO_COLOR is set
	Dumb    bool // the terminal cannot draw a line again

	once  sync.Once
	lines *console
}

// readVariables takes NO_COLOR and TERM from the environment.
func (t *terminal) readVariables(getenv func(string) string) {
	t.NoColor, t.Dumb = getenv("NO_COLOR") != "", getenv("TERM") == "dumb"
}

// console returns the one writer of the host's messages on this terminal.
func (t *terminal) console() *console {
	t.once.Do(func() {
		t.lines = &console{out: t.Out, err: t.Err, terminal: t.OutIsTerminal, shown: map[string]bool{}}
	})
	return t.lines
}

// coloured reports whether Out shows colours.
func (t *terminal) coloured() bool { return t.OutIsTerminal && !t.NoColor && !t.Dumb }

// note writes a remark to the console, beside the output.
func (t *terminal) note(format string, args ...any) {
	fmt.Fprintf(t.console(), "agenthost: "+format+"\n", args...)
}
