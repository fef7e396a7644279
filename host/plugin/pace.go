package plugin

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
)

// paced is the context of an operation, for as long as it runs in the call's quantum.
type paced struct {
	context.Context
	inst  *instance
	since time.Time // it began, or was last counted; later by the time waited outside
}

// outside runs wait as a blocking section: other calls run in the meantime. An
// operation waits there for a store, a server, a model or a reader of its events.
func outside(ctx context.Context, wait func(context.Context)) {
	p, ok := ctx.(*paced)
	if !ok { // it has none
		wait(ctx)
		return
	}
	p.step(wait)
}

// step is outside for a call in the scheduler, or one that lost its place before.
func (p *paced) step(wait func(context.Context)) {
	if p.inst.turnless {
		wait(p.Context)
		return
	}
	began := time.Now()
	p.inst.pause()
	defer func() {
		p.inst.retake()
		p.since = p.since.Add(time.Since(began))
	}()
	wait(p.Context)
}

// Pace is called by an operation that takes long, between two pieces of work: it
// checks the call's time, counts the piece's time, and lets calls run that the
// scheduler puts first.
func (p *paced) Pace() error {
	if !p.inst.work(time.Since(p.since).Nanoseconds()) {
		return p.inst.late()
	}
	p.since = time.Now() // the wait for other calls is not the operation's
	return nil
}

// pace yields to other calls, if ctx is of a call in the scheduler, and returns an
// error if the call has ended.
func pace(ctx context.Context) error {
	if p, ok := ctx.(*paced); ok {
		return p.Pace()
	}
	if ctx.Err() != nil {
		return host.ContextError(ctx)
	}
	return nil
}

// charge counts instructions of an operation beyond its price, if ctx is of a call.
func charge(ctx context.Context, n int64) {
	p, ok := ctx.(*paced)
	if !ok || p.inst.turnless { // which ends the call after the operation
		return
	}
	began := time.Now()
	p.inst.charge(n)
	p.since = p.since.Add(time.Since(began)) // it may have yielded
}
