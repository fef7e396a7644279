package host

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/callbatch"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/runevent"
)

// runCalls runs calls of one answer in parallel and adds their results in the order of
// the calls: those that no person must agree to. Only a failure that must end the run is
// an error.
func (t *turn) runCalls(ctx context.Context, calls []*toolCall) error {
	t.calls.askPersons(ctx, calls)
	for _, c := range calls {
		if c.settled {
			t.calls.concludeCall(ctx, c)
		}
	}
	t.calls.runBatch(ctx, calls)
	if err := t.run.journal.recorder.Err(); err != nil {
		return err
	}
	for _, c := range calls {
		t.addResult(c)
	}
	t.addJoined()
	t.run.events.SendState(t.run.state.view())
	if ctx.Err() != nil {
		return fault.ContextError(ctx)
	}
	if len(t.run.routes.stack) > replay.MaxScheduledAgents {
		return Errorf(ResourceExhausted, "tools schedule more than %d agents", replay.MaxScheduledAgents)
	}
	return nil
}

func (t *turn) newCalls(parts []*ToolCall) []*toolCall {
	calls, soFar, before := make([]*toolCall, len(parts)), t.soFar(), t.run.ledger.MadeBefore()
	for i, part := range parts {
		calls[i] = t.newCall(part, fmt.Sprintf("%s/%d/%d/%d", t.run.keyPrefix, t.run.routes.iterations, t.result.Rounds, i), soFar, before)
	}
	return calls
}

// newCall makes a call, in the run's goroutine. before are the artifacts that it sees.
func (t *turn) newCall(part *ToolCall, key string, soFar *SoFar, before []Artifact) *toolCall {
	c := &toolCall{part: part, attempt: &Call{
		ID: part.ID, Tool: part.Name, Attempt: 1, IdempotencyKey: key,
		Arguments: part.Arguments, Scope: t.run.scope, State: t.run.state, SoFar: soFar, limits: t.run.limits, steps: replay.CallSteps{Of: t.run.journal.steps, Agent: t.run.scope.Agent, Tool: part.Name}, spent: t.run.ledger.Total, before: before, earlier: &t.run.services.earlier,
	}}
	if tool := t.calls.toolNamed(part.Name); tool != nil && tool.agent != nil {
		c.attempt.branch = t.branch()
	}
	return c
}

// parallelCalls is how many calls of the agent's tools may run at once.
func (tc *toolCalls) parallelCalls() int {
	if tc.agent.opts.SerialTools {
		return 1
	}
	return tc.limits.ParallelTools
}

// runBatch runs calls at most parallelCalls at a time, begun in their order, and
// passes on their events. It returns when all have an answer.
func (tc *toolCalls) runBatch(ctx context.Context, calls []*toolCall) {
	waiting, running := slices.DeleteFunc(slices.Clone(calls), func(c *toolCall) bool { return c.settled }), 0
	if len(waiting) == 0 {
		return
	}
	b := callbatch.New(len(waiting), slices.ContainsFunc(waiting, tc.callsOthers))
	defer b.Close() // also when the reader panics: no call waits for it then
	if len(waiting) == 1 && tc.runsHere(waiting[0]) {
		tc.runHere(ctx, b, waiting[0])
		return
	}
	done := make(chan struct{}, len(waiting)) // one value for each call that has ended
	parallel := tc.parallelCalls()
	for len(waiting) > 0 || running > 0 {
		for len(waiting) > 0 && running < parallel {
			tc.startCall(ctx, b, waiting[0], done)
			waiting, running = waiting[1:], running+1
		}
		select {
		case ev := <-b.Events():
			tc.deliver(b, ev)
		case <-done:
			running--
			for len(b.Events()) > 0 { // its own last ones come before the next call's first
				tc.deliver(b, <-b.Events())
			}
		}
	}
}

// callsOthers reports whether a call may make calls of its own.
func (tc *toolCalls) callsOthers(c *toolCall) bool {
	tool := tc.toolNamed(c.part.Name)
	return tool != nil && len(tool.ways.calls) > 0
}

// deliver sends an event of a call, after the call's changes and artifacts until
// then.
func (tc *toolCalls) deliver(b *callbatch.Batch, said any) {
	switch said := said.(type) {
	case callbatch.Changed:
		tc.events.SendChanges(tc.state.view(), said.Revision)
	case made:
		tc.events.SendArtifacts(said.call.takeUntold())
	case finished:
		tc.events.SendChanges(tc.state.view(), math.MaxInt64)
		tc.events.SendArtifacts(said.call.attempt.takeUntold())
		if said.call.open == nil {
			tc.events.Emit(said.call.finished())
		}
	case *callbatch.Job:
		said.Run()
	case EventData:
		tc.events.Emit(said)
	}
	if len(b.Events()) == 0 {
		for _, what := range b.TakeMissed() {
			tc.deliver(b, what)
		}
	}
}

// Reports of calls in a batch beside their own events and the notice of a change.
type (
	made     struct{ call *Call } // an artifact
	finished struct{ call *toolCall }
)

// runsHere reports whether a call that is alone in its batch runs in the run's own
// goroutine, which passes on the events while the handler runs in another: with one
// goroutine less to start and to wake, a call costs about 5 µs less. Hooks and waits
// between attempts would keep the events from the reader.
func (tc *toolCalls) runsHere(c *toolCall) bool {
	hooks, tool := &tc.agent.opts.Hooks, tc.toolNamed(c.part.Name)
	return hooks.ToolStart == nil && hooks.ToolEnd == nil && (tool == nil || tool.Retries == 0)
}

// runHere runs the only call of a batch; awaitHandler passes on its events.
func (tc *toolCalls) runHere(ctx context.Context, b *callbatch.Batch, c *toolCall) {
	tc.beginCall(ctx, b, c)
	c.pumped = true
	tc.answerCall(ctx, c)
	for len(b.Events()) > 0 {
		tc.deliver(b, <-b.Events())
	}
	tc.deliver(b, finished{c})
}

// beginCall tells the call where its events go, and the reader that it begins.
func (tc *toolCalls) beginCall(ctx context.Context, b *callbatch.Batch, c *toolCall) {
	c.connect(reportsTo(ctx, b))
	tc.events.Emit(c.started(tc.providerOf(c.part.Name)))
}

// reports are where the events and notices of calls go.
type reports struct {
	batch   *callbatch.Batch
	emit    func(EventData) error
	mention func(any)
}

func reportsTo(ctx context.Context, b *callbatch.Batch) reports {
	return reports{b, func(ev EventData) error { return b.Emit(ctx, ev) }, b.Mention}
}

// connect tells the call where its events go.
func (c *toolCall) connect(to reports) {
	c.batch, c.attempt.emit, c.attempt.mention = to.batch, to.emit, to.mention
}

func (c *toolCall) started(provider string) *runevent.ToolStarted {
	return &runevent.ToolStarted{ID: c.part.ID, Key: c.clientKey(), Name: c.part.Name, Arguments: c.part.Arguments, Provider: provider, Parent: c.parentID()}
}

// answerCall runs the call up to its answer in the conversation.
func (tc *toolCalls) answerCall(ctx context.Context, c *toolCall) {
	c.start = time.Now()
	tc.callToOutput(ctx, c)
	c.duration = time.Since(c.start)
	tc.concludeCall(ctx, c)
	c.attempt.release()
}

func (tc *toolCalls) runToOutput(ctx context.Context, c *toolCall) {
	c.output, c.err = tc.callTool(ctx, c)
	tc.logWithheld(ctx, c.part.Name, c.err)
	c.ensureOutput(tc.events.Scope.Run)
}

// startCall runs the call in a goroutine of its own, which says on done that it has ended.
func (tc *toolCalls) startCall(ctx context.Context, b *callbatch.Batch, c *toolCall, done chan<- struct{}) {
	tc.beginCall(ctx, b, c)
	go func() {
		growStack(0)
		tc.runAside(ctx, c, func() { done <- struct{}{} })
	}()
}

// runAside runs a call that has begun, in a goroutine of its own, and then calls ended.
func (tc *toolCalls) runAside(ctx context.Context, c *toolCall, ended func()) {
	defer func() {
		if c.output == nil { // a hook left by runtime.Goexit
			c.err = fault.Disclose(Errorf(Internal, "The tool %s failed.", c.part.Name))
			c.ensureOutput(tc.events.Scope.Run)
			tc.concludeCall(ctx, c)
		}
		ended()
	}()
	tc.answerCall(ctx, c)
	c.batch.Send(finished{c})
}
