package modelhttp

import (
	"sync"
	"time"
)

// watchdog bites when it has looked for longer than its limit.
//
// It looks at every read of an answer, and nearly never bites. So its timer is
// not set at each look: it goes off early, and is set again for the remaining
// time. Setting one wakes a thread that sleeps until the next timer or packet,
// which costs as much as the read.
type watchdog struct {
	bite func()

	mu      sync.Mutex
	limit   time.Duration
	looking bool
	since   time.Time // when it began to look
	timer   *time.Timer
	until   time.Time // when the timer goes off; zero if it is not set
}

// look begins to wait for bytes, rest ends it: the time that the reader of the
// answer takes is not the server's silence.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking, w.since = true, time.Now()
	if end := w.since.Add(w.limit); w.until.IsZero() || end.Before(w.until) {
		w.set(end, w.limit)
	}
}

func (w *watchdog) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = false
}

// set has the timer go off at end, which is d from now. w.mu is held.
func (w *watchdog) set(end time.Time, d time.Duration) {
	w.until = end
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.wake)
		return
	}
	w.timer.Reset(d)
}

func (w *watchdog) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Time{}
	if !w.looking {
		return // the next look sets it
	}
	end := w.since.Add(w.limit)
	if left := time.Until(end); left > 0 {
		w.set(end, left)
		return
	}
	w.bite()
}

// hurry makes the limit shorter, from the next look on.
func (w *watchdog) hurry(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = min(w.limit, limit)
}

// allow sets the limit, before the first look.
func (w *watchdog) allow(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
}

// allows returns the limit.
func (w *watchdog) allows() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit
}

// stop ends the watch.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = false
	if w.timer != nil {
		w.timer.Stop()
	}
}
