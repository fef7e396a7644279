package host

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// How a run calls its history adapter: within a time, with copies, and so that
// an adapter that panics or never returns ends the run and not the process.

// historyGrace is how long an adapter, or a journal, may take to return after its
// context has ended.
const historyGrace = 2 * time.Second

// historyRequester makes the request of a call of a history adapter: one for each call,
// for the adapter may keep or change it.
type historyRequester interface {
	historyRequest() *HistoryRequest
}

// historyCall is one call of an adapter.
type historyCall[T any] struct {
	method string
	limit  timeLimit // zero is none
	call   func(context.Context, *HistoryRequest) (T, error)
	late   func(T) // takes an answer that comes after the run has stopped waiting; may be nil
}

// timeLimit is a limit of time, with its name in [Limits].
type timeLimit struct {
	name string
	of   time.Duration
}

func (l *Limits) history() timeLimit { return timeLimit{"HistoryTimeout", l.HistoryTimeout} }
func (l *Limits) commit() timeLimit  { return timeLimit{"CommitTimeout", l.CommitTimeout} }

type historyAnswer[T any] struct {
	value T
	err   error
}

// callHistory calls a method of the adapter with a copy of the run's request.
func callHistory[T any](ctx context.Context, t *runThread, c historyCall[T]) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, ContextError(ctx)
	}
	callCtx, cancel := ctx, context.CancelFunc(func() {})
	if c.limit.of > 0 {
		callCtx, cancel = context.WithTimeout(ctx, c.limit.of)
	}
	defer cancel()
	a := awaitHistory(callCtx, t, c)
	if a.err == nil || !endedBy(callCtx, a.err) {
		return a.value, fault.WithholdForeign(a.err)
	}
	if ctx.Err() != nil {
		return none, ContextError(ctx)
	}
	return none, &Error{Code: DeadlineExceeded, Retryable: true, Err: a.err,
		Message: "history took longer than the limit " + c.limit.name + " of " + c.limit.of.String()}
}

// awaitHistory runs the method.
func awaitHistory[T any](ctx context.Context, t *runThread, c historyCall[T]) historyAnswer[T] {
	return awaitForeignCall(ctx, foreignCall[T]{
		who: "history adapter", name: t.history.name, method: c.method, run: t.scope.Run, logger: t.logger, late: c.late,
		fn: func(ctx context.Context) (T, error) { return c.call(ctx, t.requests.historyRequest()) },
	})
}

// foreignCall is a call of an adapter's code, which may panic or never return.
type foreignCall[T any] struct {
	who, name, method, run string // name is the type, if there is one to tell
	logger                 *slog.Logger
	fn                     func(context.Context) (T, error)
	late                   func(T) // takes an answer that comes too late for the caller; may be nil
}

// awaitForeignCall makes the call. One that does not return after its context has
// ended is abandoned: it would hold the run, and the thread, forever.
func awaitForeignCall[T any](ctx context.Context, c foreignCall[T]) historyAnswer[T] {
	answer := make(chan historyAnswer[T])
	left := make(chan struct{})
	go func() {
		a := historyAnswer[T]{err: Errorf(Internal, "%s failed in %s", c.who, c.method)}
		defer func() { // also of one that ends its goroutine
			select {
			case answer <- a:
			case <-left:
				if a.err == nil && c.late != nil {
					c.late(a.value)
				}
			}
		}()
		c.guard(func() { a.value, a.err = c.fn(ctx) }) // a panic is in the log before the run ends with it
	}()
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
	}
	grace := time.NewTimer(historyGrace)
	defer grace.Stop()
	select {
	case a := <-answer:
		return a
	case <-grace.C:
		close(left)
		c.logger.Error(c.who+" goes on after its context has ended", "method", c.method, "run", c.run)
		return historyAnswer[T]{err: ctx.Err()}
	}
}

// namePanic has a panic in fn say whose code it is.
func namePanic[T any](who string, fn func() (T, error)) (T, error) {
	defer func() {
		if p := recover(); p != nil {
			panic(who + ": " + fmt.Sprint(p))
		}
	}()
	return fn()
}

// guard runs fn where a panic would end the process.
func (c *foreignCall[T]) guard(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			c.logger.Error(c.who+" panicked", "name", c.name, "method", c.method, "run", c.run, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// historyRequest says whose history the run asks for: a copy for each call, so
// that an adapter may keep or change it.
func (r *run) historyRequest() *HistoryRequest {
	req := &HistoryRequest{Tenant: r.scope.Tenant, Thread: r.scope.Thread, Branch: r.thread.branch, Run: r.scope.Run, Network: r.net.name, Racing: r.thread.concurrency()}
	req.SoFar = r.soFar(nil)
	if req.SoFar.state == nil {
		layers := r.firstLayers()
		req.SoFar.initial = func() *State {
			s, _ := layeredState(layers, r.scope.Thread, r.limits.StateBytes, r.net.opts.StateSchema) // one that does not fit fails the run, when its turn comes
			return s
		}
	}
	if r.conv.input != nil {
		req.Input = r.conv.input.DeepClone()
	}
	if r.journal.recorder != nil && r.thread.history.journal != nil && r.host.opts.Journal == nil {
		req.Fence = r.journal.recorder.ref.Fence
	}
	return req
}

// copyOf returns a turn that the adapter may keep and change, whatever the
// caller of the run does with its results.
func (t *Turn) copyOf() *Turn {
	c := *t
	c.Results = make([]*Result, len(t.Results))
	for i, r := range t.Results {
		c.Results[i] = r.deepClone()
	}
	c.State = slices.Clone(t.State)
	c.Providers = maps.Clone(t.Providers)
	for key, state := range c.Providers {
		c.Providers[key] = slices.Clone(state)
	}
	c.Artifacts = slices.Clone(t.Artifacts)
	for i := range c.Artifacts {
		c.Artifacts[i].Parts = chat.DeepCloneParts(c.Artifacts[i].Parts)
	}
	return &c
}

func (r *Result) deepClone() *Result {
	c := *r
	c.Messages = make([]*Message, len(r.Messages))
	for i, m := range r.Messages {
		c.Messages[i] = m.DeepClone()
	}
	c.Output = slices.Clone(r.Output)
	return &c
}
