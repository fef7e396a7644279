package ui

import (
	"fmt"
	"time"
)

// How often progress is shown, so that short work shows none.
const progressEvery = 500 * time.Millisecond

// Progress shows the progress of work on a line of stderr, and nothing if stderr is not
// a terminal.
type Progress struct {
	term  *Terminal
	last  time.Time
	shown bool
}

// NewProgress begins the progress of one piece of work.
func NewProgress(t *Terminal) *Progress { return &Progress{term: t, last: time.Now()} }

// Say shows a text in the place of the one before.
func (p *Progress) Say(format string, args ...any) {
	if !p.term.ErrIsTerminal || time.Since(p.last) < progressEvery {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.term.Err, "\r\x1b[K"+format, args...)
}

// End clears the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.term.Err, "\r\x1b[K")
	}
}

// Entries shows how far a backup or restore is.
func (p *Progress) Entries(_ int, bytes int64) { p.Say("%s", ByteWords(bytes)) }
