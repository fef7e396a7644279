package nested

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Deadline is a context that ends after a time, like one of context.WithTimeout, but
// that its time can be stopped while nested calls run. The contexts made of it end with
// it, and have no deadline of its own: that may still move.
type Deadline struct {
	context.Context // the lifetime, which the time ends
	cancel          context.CancelCauseFunc
	done            chan struct{}
	passed          atomic.Bool // it was the time that ended the lifetime

	mu      sync.Mutex
	timer   *time.Timer
	at      time.Time
	left    time.Duration // while stopped
	stopped int           // how many have stopped it
}

// WithTimeout returns a context that ends with ctx or after a time. The caller calls
// Cancel when it is no longer needed.
func WithTimeout(ctx context.Context, d time.Duration) *Deadline {
	inner, cancel := context.WithCancelCause(ctx)
	c := &Deadline{Context: inner, cancel: cancel, done: make(chan struct{}), at: time.Now().Add(d)}
	context.AfterFunc(inner, func() { close(c.done) })
	c.timer = time.AfterFunc(d, c.expire)
	return c
}

func (c *Deadline) expire() {
	c.passed.Store(true)
	c.cancel(context.DeadlineExceeded)
}

// Cancel ends the context.
func (c *Deadline) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.cancel(context.Canceled)
}

// Stop stops the time until start is called, once. Several may stop it.
func (c *Deadline) Stop() (start func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped++; c.stopped == 1 && c.timer.Stop() {
		c.left = time.Until(c.at)
	}
	return c.start
}

func (c *Deadline) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped--; c.stopped > 0 || c.Err() != nil {
		return
	}
	c.at = time.Now().Add(c.left)
	c.timer.Reset(c.left)
}

// Done implements context.Context.
func (c *Deadline) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *Deadline) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if c.passed.Load() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// AfterFunc has contexts that are made of this one end with it, and with its error,
// without a goroutine for each.
func (c *Deadline) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, func() {
		<-c.done
		f()
	})
}
