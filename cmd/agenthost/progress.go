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

// byteWords is a number of bytes for people.
func byteWords(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
