package modelhttp

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/retry"
	"github.com/agenthost/agenthost/host/llm"
)

// backoff spaces the attempts.
var backoff = retry.Backoff{First: 500 * time.Millisecond, Last: 8 * time.Second, Earlier: 0.5, Later: 0.5}

// Call is one question to a server, for as many attempts as it takes.
type Call struct {
	server *Server
	yield  func(llm.Chunk, error) bool
	began  bool // a piece of the answer has been passed on
	left   bool // the caller has left the loop
}

// Send passes on a piece of the answer. It reports whether the caller still
// listens.
func (c *Call) Send(chunk llm.Chunk) bool {
	c.began = true
	return c.pass(chunk)
}

func (c *Call) pass(chunk llm.Chunk) bool {
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

// Ask answers one question, as llm.Model's Generate does: it calls try until it
// returns no fault, or one that another attempt does not mend. yield gets a chunk for
// each retry, and the error at the end. Codes of that error:
//
//	unauthenticated      no key, or a wrong one
//	permission_denied    the key may not do this
//	not_found            the server does not know the model, the conversation or
//	                     the address
//	invalid_argument     the server does not take the request
//	resource_exhausted   too many requests (retryable), no credit, or a
//	                     conversation too long for the model
//	deadline_exceeded    silent for longer than Timeout, or ctx's deadline
//	canceled             ctx was cancelled
//	unavailable          down, overloaded, broken off, or not speaking the
//	                     protocol
func (s *Server) Ask(ctx context.Context, yield func(llm.Chunk, error) bool, try Try) {
	c := &Call{server: s, yield: yield}
	if err := c.run(ctx, try); err != nil && !c.left {
		yield(llm.Chunk{}, err)
	}
}

func (c *Call) run(ctx context.Context, try Try) error {
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
		if !c.pass(llm.Chunk{Retry: &llm.RetryNotice{Attempt: attempt, Code: f.Err.Code, Reason: f.Err.Message}}) {
			return nil
		}
		if !retry.Sleep(ctx, f.wait(attempt)) {
			return c.server.ended(fault.ContextError(ctx))
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
