package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
)

// How a run calls its history adapter: within a time, with copies, and so that
// an adapter that panics or never returns ends the run and not the process.

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

// historyLimit bounds a call of a history adapter before the model is asked.
func historyLimit(l *Limits) timeLimit { return timeLimit{"HistoryTimeout", l.HistoryTimeout} }

// commitLimit bounds a call that stores the results of a run.
func commitLimit(l *Limits) timeLimit { return timeLimit{"CommitTimeout", l.CommitTimeout} }

// callHistory calls a method of the adapter with a copy of the run's request.
func callHistory[T any](ctx context.Context, t *runThread, c historyCall[T]) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, fault.ContextError(ctx)
	}
	callCtx, cancel := ctx, context.CancelFunc(func() {})
	if c.limit.of > 0 {
		callCtx, cancel = context.WithTimeout(ctx, c.limit.of)
	}
	defer cancel()
	value, err := awaitHistory(callCtx, t, c)
	if err == nil || !foreign.EndedBy(callCtx, err) {
		return value, fault.WithholdForeign(err)
	}
	if ctx.Err() != nil {
		return none, fault.ContextError(ctx)
	}
	return none, &Error{Code: DeadlineExceeded, Retryable: true, Err: err,
		Message: "history took longer than the limit " + c.limit.name + " of " + c.limit.of.String()}
}

// awaitHistory runs the method.
func awaitHistory[T any](ctx context.Context, t *runThread, c historyCall[T]) (T, error) {
	call := foreign.Call[T]{
		Who: "history adapter", Name: t.history.name, Method: c.method, Run: t.scope.Run, Logger: t.logger, Late: c.late,
		Fn: func(ctx context.Context) (T, error) { return c.call(ctx, t.requests.historyRequest()) },
	}
	return call.Await(ctx)
}

// historyRequest says whose history the run asks for: a copy for each call, so
// that an adapter may keep or change it.
func (r *run) historyRequest() *HistoryRequest {
	req := &HistoryRequest{Tenant: r.scope.Tenant, Thread: r.scope.Thread, Branch: r.thread.branch, Run: r.scope.Run, Resumes: r.resume.run, Network: r.net.name, Racing: r.thread.concurrency()}
	req.SoFar = r.soFar(nil)
	if req.SoFar.state == nil {
		req.SoFar.initial = r.initial.beforeLoading()
	}
	if r.conv.input != nil {
		req.Input = r.conv.input.DeepClone()
	}
	if r.journal.recorder != nil && r.thread.history.journal != nil && r.host.opts.Journal == nil {
		req.Fence = r.journal.recorder.Ref().Fence
	}
	return req
}

// copyOf returns a turn that the adapter may keep and change, whatever the
// caller of the run does with its results.
func (t *Turn) copyOf() *Turn {
	c := *t
	c.Results = make([]*Result, len(t.Results))
	for i, r := range t.Results {
		c.Results[i] = r.DeepClone()
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
