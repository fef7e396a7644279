package host

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// runLedger counts a run's usage and artifacts.
type runLedger struct {
	events  *report.Reporter
	limits  *Limits
	counter TokenCounter // may be nil
	record  UsageRecord  // nil without a ledger, and before the run works

	spent       *spent // with the agents that run as tools in the run
	usage       Usage
	cost        Cost
	artifacts   []Artifact
	around      []Artifact // of the run in which this one is an agent used as a tool
	bookedUntil time.Time  // until when the run's time is booked; zero before it begins to work
}

// bookTime books the time since it was booked last. The time of an agent used as a
// tool is the time of the call.
func (l *runLedger) bookTime() {
	if l.record == nil || l.events.Depth > 0 || l.bookedUntil.IsZero() {
		return
	}
	now := time.Now()
	l.record.UseTime(now.Sub(l.bookedUntil))
	l.bookedUntil = now
}

// reserveModelCall reserves a request to a model in the run's usage record, and waits until
// the tenant may ask. It returns the request to send, which has a maximum of output, and
// the reservation, which bookTokens settles; nil without a record.
func (l *runLedger) reserveModelCall(ctx context.Context, model Model, req *llm.Request) (*llm.Request, *ModelCall, error) {
	if l.record == nil {
		return req, nil, nil
	}
	l.bookTime()
	call := &ModelCall{Agent: req.Scope.Agent, Model: model.Name(), Input: llm.MostTokens(req), MaxOutput: req.MaxOutputTokens}
	err := l.record.ReserveModel(ctx, call)
	if CodeOf(err) == ResourceExhausted && call.Waited == 0 {
		if n, ok := llm.CountRequest(ctx, l.counter, call.Model, req); ok && n < call.Input { // the estimate was too much
			call.Input, call.MaxOutput = n, req.MaxOutputTokens
			err = l.record.ReserveModel(ctx, call)
		}
	}
	if call.Waited > 0 {
		l.bookedUntil = l.bookedUntil.Add(call.Waited)
		l.events.Emit(&runevent.ModelThrottled{Model: call.Model, WaitUS: call.Waited.Microseconds()})
	}
	if err == nil && req.MaxOutputTokens == 0 && call.MaxOutput > 0 {
		own := *req
		own.MaxOutputTokens = call.MaxOutput
		req = &own
	}
	return req, call, err
}

// bookTokens books the tokens of an answer to a call. call is nil without a usage record.
func (l *runLedger) bookTokens(call *ModelCall, u Usage) {
	l.spent.tokens.Add(int64(u.Total()))
	if call != nil {
		kept := u // u itself would be allocated without a record too
		l.record.SettleModel(call, &kept)
	}
}

// bookUnfinished books the tokens of an answer that broke off, or was not
// taken: its provider has still worked for it. Without the answer's own count the
// tokens are estimated from the request and the received part of the answer. A
// request that was refused before any output costs nothing, unless it broke off
// because the run ended: the provider's progress is then unknown. It returns what it booked.
func (l *runLedger) bookUnfinished(ctx context.Context, call *ModelCall, req *llm.Request, resp *llm.Response, shown int) Usage {
	var u Usage
	switch {
	case resp != nil && resp.Usage != (Usage{}):
		u = resp.Usage.Bounded()
	case resp != nil:
		u = llm.EstimateUsage(req, resp)
	case shown > 0 || ctx.Err() != nil:
		u = llm.EstimateUsage(req, &llm.Response{})
		u.OutputTokens = llm.EstimateTokens(shown)
	default:
		if call != nil {
			l.record.SettleModel(call, nil)
		}
		return u
	}
	l.usage = l.usage.Add(u)
	l.bookTokens(call, u)
	return u
}

// admitToolCalls fails if n more tools may not be called.
func (l *runLedger) admitToolCalls(ctx context.Context, n int) error {
	if l.spent.toolCalls.Add(int64(n)) > int64(l.limits.MaxToolCalls) {
		return Errorf(ResourceExhausted, "run calls more tools than the limit MaxToolCalls of %d", l.limits.MaxToolCalls)
	}
	if l.record == nil {
		return nil
	}
	l.bookTime()
	return l.record.ReserveTools(ctx, n)
}

// admitNestedCalls fails if tools may not call n more tools, and counts none of them then.
func (l *runLedger) admitNestedCalls(ctx context.Context, n int) error {
	if err := l.checkLeft(); err != nil {
		return err
	}
	err := l.admitToolCalls(ctx, n)
	if err != nil {
		l.spent.toolCalls.Add(-int64(n))
	}
	return err
}

// addCost adds the usage of sandboxed code.
func (l *runLedger) addCost(c *Cost) {
	l.cost.Add(c)
	l.spend(c)
}

// spend counts the instructions of sandboxed code.
func (l *runLedger) spend(c *Cost) {
	if c != nil {
		l.spent.instructions.Add(c.Instructions)
	}
}

// checkLeft fails if the run has used its tokens or instructions up. One call can
// exceed the rest, by as much as its own limits allow.
func (l *runLedger) checkLeft() error {
	if used := l.spent.tokens.Load(); used >= int64(l.limits.RunTokens) {
		return Errorf(ResourceExhausted, "run has used %d tokens of the limit RunTokens of %d", used, l.limits.RunTokens).
			WithHint("raise the limit or give the agent fewer rounds")
	}
	if used := l.spent.instructions.Load(); used >= l.limits.RunInstructions {
		return Errorf(ResourceExhausted, "run has used %d instructions of the limit RunInstructions of %d", used, l.limits.RunInstructions).
			WithHint("raise the limit or give the run's plugins less to do")
	}
	return nil
}

// madeBefore returns the artifacts of the run and of the runs around it.
func (l *runLedger) madeBefore() []Artifact {
	list := slices.Clone(l.around)
	if len(list) == 0 {
		return slices.Clone(l.artifacts)
	}
	for _, a := range l.artifacts {
		list = chat.PutArtifact(list, a)
	}
	return list
}

// spent is the usage of a run, with the agents that run as tools in it.
type spent struct{ tokens, toolCalls, artifacts, artifactBytes, instructions atomic.Int64 }

// countArtifact counts one that a call has made, if there is room for it.
func (s *spent) countArtifact(bytes int, l *Limits) error {
	if s.artifacts.Add(1) > int64(l.RunArtifacts) {
		return Errorf(ResourceExhausted, "the tools of the run make more artifacts than the limit RunArtifacts of %d", l.RunArtifacts)
	}
	if s.artifactBytes.Add(int64(bytes)) > int64(l.RunArtifactBytes) {
		return Errorf(ResourceExhausted, "the artifacts of the run have more bytes than the limit RunArtifactBytes of %d", l.RunArtifactBytes)
	}
	return nil
}
