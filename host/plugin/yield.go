package plugin

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
)

// operationContext is the context of an operation, for as long as it runs in the call's quantum.
type operationContext struct {
	context.Context
	inst  *instance
	since time.Time // it began, or was last counted; later by the time of its blocking sections
}

// whileBlocked runs wait as a blocking section: other calls run in the meantime. An
// operation waits there for a store, a server, a model or a reader of its events.
func whileBlocked(ctx context.Context, wait func(context.Context)) {
	p, ok := ctx.(*operationContext)
	if !ok { // it has none
		wait(ctx)
		return
	}
	p.block(wait)
}

// block is whileBlocked for a call in the scheduler, or one that lost its place before.
func (p *operationContext) block(wait func(context.Context)) {
	if p.inst.unscheduled {
		wait(p.Context)
		return
	}
	began := time.Now()
	p.inst.beginBlocking()
	defer func() {
		p.inst.endBlocking()
		p.since = p.since.Add(time.Since(began))
	}()
	wait(p.Context)
}

// Pace is called by an operation that takes long, between two pieces of work: it
// checks the call's time, counts the piece's time, and lets calls run that the
// scheduler puts first.
func (p *operationContext) Pace() error {
	if !p.inst.yieldAfter(time.Since(p.since).Nanoseconds()) {
		return p.inst.lateError()
	}
	p.since = time.Now() // the wait for other calls is not the operation's
	return nil
}

// yield yields to other calls, if ctx is of a call in the scheduler, and returns an
// error if the call has ended.
func yield(ctx context.Context) error {
	if p, ok := ctx.(*operationContext); ok {
		return p.Pace()
	}
	if ctx.Err() != nil {
		return host.ContextError(ctx)
	}
	return nil
}

// chargeOperation counts instructions of an operation beyond its price, if ctx is of a call.
func chargeOperation(ctx context.Context, n int64) {
	p, ok := ctx.(*operationContext)
	if !ok || p.inst.unscheduled { // which ends the call after the operation
		return
	}
	began := time.Now()
	p.inst.charge(n)
	p.since = p.since.Add(time.Since(began)) // it may have yielded
}
