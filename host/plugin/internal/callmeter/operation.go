package callmeter

import (
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Operation is the context of a host operation, for as long as it runs in the call's
// quantum. Its time counts like instructions that take as long.
type Operation struct {
	context.Context // the lifetime of the operation
	meter           *Meter
	since           time.Time // it began, or was last counted; later by the time of its blocking sections
}

// BeginOperation returns the context of an operation that begins, which ends with the call.
// Its timer is made when something asks for Done: many operations wait for nothing, and a
// timer is most of what reading a short answer costs.
func (m *Meter) BeginOperation() (*Operation, context.CancelFunc) {
	ctx := &untimedContext{Context: m.deadline.caller, at: m.deadline.at}
	return &Operation{Context: ctx, meter: m, since: time.Now()}, ctx.end
}

// untimedContext is a context with a deadline that it looks up by the clock, until
// something waits for it.
type untimedContext struct {
	context.Context // the lifetime of the caller
	at              time.Time

	mu     sync.Mutex
	timed  context.Context // the lifetime of the operation, made by Done
	cancel context.CancelFunc
	ended  bool
}

// Deadline implements context.Context.
func (c *untimedContext) Deadline() (time.Time, bool) { return c.at, true }

// Done implements context.Context.
func (c *untimedContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.at)
		if c.ended {
			c.cancel()
		}
	}
	return c.timed.Done()
}

// Err implements context.Context.
func (c *untimedContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timed != nil:
		return c.timed.Err()
	case c.Context.Err() != nil:
		return c.Context.Err()
	case c.ended:
		return context.Canceled
	case !time.Now().Before(c.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Contexts made of this one find its timed one.
func (c *untimedContext) Value(key any) any {
	c.mu.Lock()
	ctx := c.timed
	c.mu.Unlock()
	if ctx == nil {
		ctx = c.Context
	}
	return ctx.Value(key)
}

// end cancels the context.
func (c *untimedContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.cancel != nil {
		c.cancel()
	}
}

// End counts the time of the operation since it was last counted, and lets other calls
// run. It fails if the call's time is up.
func (o *Operation) End() error {
	if !o.meter.YieldAfter(time.Since(o.since).Nanoseconds()) {
		return o.meter.LateError()
	}
	return nil
}

// Pace is called by an operation that takes long, between two pieces of work: it
// checks the call's time, counts the piece's time, and lets calls run that the
// scheduler puts first.
func (o *Operation) Pace() error {
	if err := o.End(); err != nil {
		return err
	}
	o.since = time.Now() // the wait for other calls is not the operation's
	return nil
}

// block is [WhileBlocked] for a call in the scheduler, or one that lost its place before.
func (o *Operation) block(wait func(context.Context)) {
	if o.meter.Unscheduled() {
		wait(o.Context)
		return
	}
	began := time.Now()
	o.meter.BeginBlocking()
	defer func() {
		o.meter.EndBlocking()
		o.since = o.since.Add(time.Since(began))
	}()
	wait(o.Context)
}

// WhileBlocked runs wait as a blocking section: other calls run in the meantime. An
// operation waits there for a store, a server, a model or a reader of its events. With a
// ctx that is not an operation's it only runs wait.
func WhileBlocked(ctx context.Context, wait func(context.Context)) {
	o, ok := ctx.(*Operation)
	if !ok {
		wait(ctx)
		return
	}
	o.block(wait)
}

// WhileCalling is [WhileBlocked] for an operation that calls other code, whose time has
// limits of its own: it does not count for the call, and wait is given the lifetime of the
// call's caller, without the call's deadline. Meanwhile the call has no place among those
// that have started, for the other code may be a guest that must start, and its stack counts
// for no more than it has.
func WhileCalling(ctx context.Context, wait func(context.Context)) {
	o, ok := ctx.(*Operation)
	if ok {
		o.meter.EndGrowth() // of the stack, which is outside the run queue
	}
	if !ok || o.meter.Unscheduled() {
		wait(ctx)
		return
	}
	began := time.Now()
	o.suspend()
	restore := o.meter.stack.suspend(false)
	defer func() {
		took := time.Since(began)
		o.meter.deadline.at = o.meter.deadline.at.Add(took)
		o.resume()
		o.since = o.since.Add(time.Since(began))
		if err := restore(); err != nil {
			o.meter.Stop(err)
		}
	}()
	wait(o.meter.deadline.caller)
}

// suspend takes the call out of the run queue, and from those that have started. No stack
// grows.
func (o *Operation) suspend() {
	m := o.meter
	m.host.Scheduler.Suspend(m.payer.Flow, m.TakeUnreported())
	m.place.unscheduled = true
}

// resume ends what suspend began. The call is unscheduled then if its time is up.
func (o *Operation) resume() {
	m, since := o.meter, time.Now()
	err := m.host.Scheduler.Resume(m.deadline.caller, m.payer.Flow, m.deadline.at.Sub(since))
	m.place.began(since, err)
}

// Yield lets other calls run, if ctx is an operation's, and returns an error if the call
// has ended.
func Yield(ctx context.Context) error {
	if o, ok := ctx.(*Operation); ok {
		return o.Pace()
	}
	if ctx.Err() != nil {
		return fault.ContextError(ctx)
	}
	return nil
}

// Charge counts instructions of an operation beyond its price, if ctx is an operation's.
func Charge(ctx context.Context, n int64) {
	o, ok := ctx.(*Operation)
	if !ok || o.meter.Unscheduled() { // which ends the call after the operation
		return
	}
	began := time.Now()
	o.meter.Charge(n)
	o.since = o.since.Add(time.Since(began)) // it may have yielded
}
