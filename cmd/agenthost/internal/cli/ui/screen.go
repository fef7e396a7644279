package ui

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// The times of an activity: shorter work shows none, so that the screen does not flicker.
const (
	activityAfter = 300 * time.Millisecond
	activityEvery = 100 * time.Millisecond
)

// screen draws on the last line of a terminal what the command is doing, and for how long.
// Whatever is written to the terminal erases that line first. It is safe for concurrent
// use.
type screen struct {
	out   io.Writer
	width func() int // columns; nil or 0: not known

	mu      sync.Mutex
	works   []*work // the innermost last
	drawn   bool
	midLine bool // the cursor stands behind text
	stop    chan struct{}
	stopped chan struct{}
}

// work is a piece of work that may be shown. One without a name is a wait that is not.
type work struct {
	what  string
	since time.Time
}

// screenWriter writes to the terminal of a screen.
type screenWriter struct {
	s *screen
	w io.Writer
}

// Write implements io.Writer.
func (w screenWriter) Write(b []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.erase()
	n, err := w.w.Write(b)
	if n > 0 {
		w.s.midLine = b[n-1] != '\n'
	}
	return n, err
}

// erase takes the activity off the screen. s.mu is held.
func (s *screen) erase() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.drawn = false
	}
}

// begin shows a piece of work from activityAfter on, until the returned function is
// called.
func (s *screen) begin(what string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &work{what, time.Now()}
	s.works = append(s.works, w)
	s.erase()
	if s.stop == nil {
		s.stop, s.stopped = make(chan struct{}), make(chan struct{})
		go s.draw(s.stop, s.stopped)
	}
	return func() { s.end(w) }
}

// rename gives the work at hand another name, and counts its time from now on. It reports
// whether there is such work that is shown.
func (s *screen) rename(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.works) == 0 || s.works[len(s.works)-1].what == "" {
		return false
	}
	s.works[len(s.works)-1].what, s.works[len(s.works)-1].since = what, time.Now()
	return true
}

// end ends a piece of work, and the drawing with the last one. It may be called again.
func (s *screen) end(w *work) {
	s.mu.Lock()
	s.erase()
	left := s.works[:0]
	for _, other := range s.works {
		if other != w {
			left = append(left, other)
		}
	}
	s.works = left
	var stopped chan struct{}
	if len(s.works) == 0 && s.stop != nil {
		close(s.stop)
		stopped = s.stopped
		s.stop = nil
	}
	s.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// draw draws the innermost work until stop is closed.
func (s *screen) draw(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	tick := time.NewTicker(activityEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			s.drawAt(now)
		}
	}
}

func (s *screen) drawAt(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.works) == 0 || s.midLine {
		return
	}
	w := s.works[len(s.works)-1]
	took := now.Sub(w.since)
	if w.what == "" || took < activityAfter {
		return
	}
	line := fmt.Sprintf("… %s  %s", OneLine(w.what), took.Truncate(activityEvery))
	if s.width != nil {
		line = CutWidth(line, s.width()-1) // a full line would wrap
	}
	fmt.Fprint(s.out, "\r\x1b[K"+line)
	s.drawn = true
}

// Working shows on a terminal what the command is doing, with the time that it takes, from
// the moment that it takes long, until the returned function is called. The innermost
// work is shown. Elsewhere it shows nothing.
func (t *Terminal) Working(what string) (end func()) {
	if t.screen == nil {
		return func() {}
	}
	return t.screen.begin(what)
}

// Idle shows no work until the returned function is called: the command waits for a
// person, or for ever.
func (t *Terminal) Idle() (end func()) { return t.Working("") }
