package modelhttp

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/agenthost/agenthost/host"
)

// The waits between attempts.
const (
	firstWait   = 500 * time.Millisecond
	longestWait = 8 * time.Second
	waitGrowth  = 2
	waitJitter  = 0.5 // a wait is up to this part longer or shorter
)

// Call is one question to a server, for as many attempts as it takes.
type Call struct {
	server *Server
	yield  func(host.ModelChunk, error) bool
	began  bool // a piece of the answer has been passed on
	left   bool // the caller has left the loop
}

// Send passes on a piece of the answer. It reports whether the caller still
// listens.
func (c *Call) Send(chunk host.ModelChunk) bool {
	c.began = true
	return c.pass(chunk)
}

func (c *Call) pass(chunk host.ModelChunk) bool {
	if !c.left && !c.yield(chunk, nil) {
		c.left = true
	}
	return !c.left
}

// Left reports whether the caller has left the loop.
func (c *Call) Left() bool { return c.left }

// Try is one attempt: it sends the request over the exchange and passes the
// answer on. No fault ends the question.
type Try func(c *Call, x *Exchange) *Fault

// Ask answers one question, as host.Model's Generate does: it calls try until
// there is no fault, or none that another attempt may mend, and tells yield of
// each retry, and of the error in the end.
func (s *Server) Ask(ctx context.Context, yield func(host.ModelChunk, error) bool, try Try) {
	c := &Call{server: s, yield: yield}
	if err := c.run(ctx, try); err != nil && !c.left {
		yield(host.ModelChunk{}, err)
	}
}

func (c *Call) run(ctx context.Context, try Try) error {
	waits := &backoff.ExponentialBackOff{
		InitialInterval: firstWait, MaxInterval: longestWait, Multiplier: waitGrowth, RandomizationFactor: waitJitter,
	}
	for attempt := 1; ; attempt++ {
		f := c.attempt(ctx, try)
		switch {
		case f == nil || c.left:
			return nil
		case f.AtOnce:
			attempt--
			continue
		case !c.again(f, attempt):
			return f.final(attempt)
		}
		c.server.opts.Logger.DebugContext(ctx, "ask model again", "model", c.server.model, "attempt", attempt, "err", f.Err)
		if !c.pass(host.ModelChunk{Retry: &host.RetryNotice{Attempt: attempt, Code: f.Err.Code, Reason: f.Err.Message}}) {
			return nil
		}
		if err := sleep(ctx, f.wait(waits)); err != nil {
			return c.server.ended(err)
		}
	}
}

func (c *Call) attempt(ctx context.Context, try Try) *Fault {
	x := newExchange(ctx, c.server)
	defer x.close()
	return try(c, x)
}

func (c *Call) again(f *Fault, attempt int) bool {
	return f.Again && !c.began && attempt <= c.server.opts.MaxRetries && f.after <= MaxRetryAfter
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return host.ContextError(ctx)
	}
}
