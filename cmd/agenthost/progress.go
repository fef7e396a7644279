package main

import (
	"fmt"
	"time"
)

// How often progress is shown, so that short work shows none.
const progressEvery = 500 * time.Millisecond

// progress shows the progress of work on a line of stderr, and nothing if stderr is not
// a terminal.
type progress struct {
	term  *terminal
	last  time.Time
	shown bool
}

func newProgress(t *terminal) *progress { return &progress{term: t, last: time.Now()} }

func (p *progress) say(format string, args ...any) {
	if !p.term.ErrIsTerminal || time.Since(p.last) < progressEvery {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.term.Err, "\r\x1b[K"+format, args...)
}

// end clears the line.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.term.Err, "\r\x1b[K")
	}
}

// entries shows how far a backup or restore is.
func (p *progress) entries(_ int, bytes int64) { p.say("%s", byteWords(bytes)) }
