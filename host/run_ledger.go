package host

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// runLedger counts a run's usage and artifacts.
type runLedger struct {
	events *runEvents
	quota  Quota
	limits *Limits

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
	quota, ok := l.quota.(TimeQuota)
	if !ok || l.events.depth > 0 || l.bookedUntil.IsZero() {
		return
	}
	now := time.Now()
	quota.UseTime(l.events.scope.Tenant, now.Sub(l.bookedUntil))
	l.bookedUntil = now
}

// waitForModelQuota waits until the tenant may ask a model.
func (l *runLedger) waitForModelQuota(ctx context.Context, model Model) error {
	quota := l.quota
	if quota == nil {
		return nil
	}
	l.bookTime()
	waited, err := quota.AskModel(ctx, l.events.scope.Tenant, model.Name())
	if waited > 0 {
		l.bookedUntil = l.bookedUntil.Add(waited)
		l.events.emit(&runevent.ModelThrottled{Model: model.Name(), WaitUS: waited.Microseconds()})
	}
	return err
}

// bookTokens books the tokens of an answer.
func (l *runLedger) bookTokens(u Usage) {
	l.spent.tokens.Add(int64(u.Total()))
	if quota := l.quota; quota != nil {
		quota.UseTokens(l.events.scope.Tenant, u.Total())
	}
}

// bookUnfinished books the tokens of an answer that broke off, or was not
// taken: its provider has still worked for it. Without the answer's own count the
// tokens are estimated from the request and the received part of the answer. A
// request that was refused before any output costs nothing, unless it broke off
// because the run ended: the provider's progress is then unknown.
func (l *runLedger) bookUnfinished(ctx context.Context, req *llm.Request, resp *llm.Response, shown int) {
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
		return
	}
	l.usage = l.usage.Add(u)
	l.bookTokens(u)
}

// admitToolCalls fails if n more tools may not be called.
func (l *runLedger) admitToolCalls(ctx context.Context, n int) error {
	if l.spent.toolCalls.Add(int64(n)) > int64(l.limits.MaxToolCalls) {
		return Errorf(ResourceExhausted, "run calls more tools than the limit MaxToolCalls of %d", l.limits.MaxToolCalls)
	}
	if quota := l.quota; quota != nil {
		l.bookTime()
		return quota.CallTools(ctx, l.events.scope.Tenant, n)
	}
	return nil
}

// addCost adds the usage of sandboxed code.
func (l *runLedger) addCost(c *Cost) {
	if c != nil {
		l.cost.Add(c)
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
