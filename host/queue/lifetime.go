package queue

import (
	"context"
	"sync"
)

// lifetime is the time from New to Close of a queue, and the goroutines that run in
// it.
type lifetime struct {
	ctx        context.Context // the lifetime: ends with Close; handlers and all that the queue does by itself run in it
	cancel     context.CancelFunc
	goroutines sync.WaitGroup // that Close waits for

	mu      sync.Mutex
	started bool // jobs run
	closed  bool
}

func newLifetime() *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run runs fn in a goroutine that Close waits for, unless the queue is closed. once is
// called before, if it is not nil and the queue is open.
func (l *lifetime) run(fn, once func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed()
	}
	if once != nil {
		once()
	}
	l.goroutines.Go(fn)
	return nil
}

// start is run with the first of the goroutines that make jobs run.
func (l *lifetime) start(fn func()) error { return l.run(fn, func() { l.started = true }) }

// close ends the lifetime. It reports whether jobs ran in it.
func (l *lifetime) close() (started bool) {
	l.mu.Lock()
	l.closed = true
	started = l.started
	l.mu.Unlock()
	l.cancel()
	return started
}

func (l *lifetime) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// runsJobs reports whether this process runs jobs.
func (l *lifetime) runsJobs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started && !l.closed
}

// over reports whether the lifetime has ended.
func (l *lifetime) over() bool { return l.ctx.Err() != nil }
