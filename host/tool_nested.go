package host

import (
	"context"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host/internal/callbatch"
	"github.com/agenthost/agenthost/host/internal/nesting"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/nested"
)

// CallTools calls other tools of the agent at work, those that [ToolOptions].Calls names,
// and returns their answers in the order of the calls. They run at the same time, within
// [Limits].ParallelTools, like the calls of a model: arguments are checked, persons asked,
// hooks called, limits and budgets kept, and they have events, with the call as their
// Parent. A call that fails, or is denied, is an answer of the kind [nested.Error]. The
// time of the calls is not the tool's: its timeout stands still. They end with ctx, and with
// the run whatever ctx is.
//
// If one of them asks a person, CallTools returns [nested.ErrInterrupted], and the tool
// must return: its answer is ignored, and the run is interrupted with the question. With
// the answer the tool is called again, from its beginning. Calls that had completed are
// then answered with what they returned, by their position among all that this call makes:
// a tool must make the same calls in the same order. So it is for another attempt, and when
// a durable run continues in another process.
//
// Code permission_denied for a tool that is not named, failed_precondition without Calls,
// outside a run, for a tool that the call is made by, and while another list runs,
// invalid_argument for no calls and for arguments above [Limits].ArgumentBytes,
// resource_exhausted past the limits MaxToolCalls and those of package nested: none of the
// list runs then. Code conflict if a call differs from what the tool called at its position
// before; the tool's call then fails.
func (c *Call) CallTools(ctx context.Context, calls []nested.Call) ([]nested.Answer, error) {
	if c.nest == nil {
		return nil, Errorf(FailedPrecondition, "The tool %s can call no other tools here", c.Tool).
			WithHint("name them in the tool's option Calls, or grant its plugin the permission tools; outside a run no tool can be called")
	}
	return c.nest.callTools(ctx, calls)
}

// Tools returns the tools that [Call.CallTools] may call here.
func (c *Call) Tools() []llm.ToolSpec {
	if c.nest == nil {
		return nil
	}
	set := &c.nest.calls.tools
	specs := slices.Clone(set.specs)
	for _, t := range set.hidden {
		specs = append(specs, t.ToolSpec)
	}
	return slices.DeleteFunc(specs, func(s llm.ToolSpec) bool { return c.nest.caller.MayCall(s.Name) != nil })
}

// callMaker makes calls in the run's goroutine.
type callMaker interface {
	newCall(part *ToolCall, key string, soFar *SoFar, before []Artifact) *toolCall
}

// nestedCalls are the calls that one attempt of a call makes of other tools.
type nestedCalls struct {
	calls   *toolCalls
	call    *toolCall // that makes them
	attempt *Call     // of it
	key     string
	caller  *nesting.Caller
}

// timeCall returns the context of an attempt, which ends after a time.
func (tc *toolCalls) timeCall(ctx context.Context, tool *Tool, c *toolCall) (context.Context, context.CancelFunc) {
	timeout := tool.timeout(tc.limits)
	if len(tool.ways.calls) == 0 {
		return context.WithTimeout(ctx, timeout)
	}
	n := &nestedCalls{calls: tc, call: c, attempt: c.attempt, key: c.attempt.IdempotencyKey, caller: nesting.New(ctx, timeout, tool.Name, tool.ways.calls, c.around())}
	c.attempt.nest = n
	return n.caller.Context(), n.caller.End
}

func (n *nestedCalls) callTools(ctx context.Context, calls []nested.Call) ([]nested.Answer, error) {
	own, err := n.caller.Check(calls, n.calls.limits.ArgumentBytes)
	if err != nil {
		return nil, err
	}
	at, finish, err := n.caller.Begin()
	if err != nil {
		return nil, err
	}
	defer finish()
	ctx, leave := n.caller.Within(ctx)
	defer leave()
	made, err := n.admitCalls(ctx, at, own)
	if err != nil {
		return nil, err
	}
	n.runCalls(ctx, made)
	return n.answersOf(made)
}

// admitCalls makes the calls of a list, in the run's goroutine, and asks whether they may
// run.
func (n *nestedCalls) admitCalls(ctx context.Context, at int, calls []nested.Call) ([]*toolCall, error) {
	made, err := callbatch.Ask(ctx, n.call.batch, func() ([]*toolCall, error) { return n.makeCalls(ctx, at, calls) })
	n.caller.Admit(len(calls), err)
	return made, err
}

func (n *nestedCalls) makeCalls(ctx context.Context, at int, calls []nested.Call) ([]*toolCall, error) {
	tc := n.calls
	if n.caller.Over() { // while the list waited for the run's goroutine
		return nil, callbatch.ErrCallEnded()
	}
	kept, more, err := tc.nested.Reach(n.key, at, calls)
	if CodeOf(err) == Conflict {
		return nil, wrapError(err, "tool %s", n.call.part.Name)
	}
	if err == nil && len(more) > 0 {
		if err = tc.ledger.AdmitNestedCalls(ctx, len(more)); err == nil && n.caller.Over() { // while the budgets were asked
			err = callbatch.ErrCallEnded()
		}
		if err != nil {
			tc.nested.Remove(n.key, more)
		}
	}
	if err != nil { // none of them runs
		return nil, err
	}
	if at == 0 && len(more) > 0 && tc.recorder != nil { // before any of them is written down
		begin := n.call.stepOf(n.attempt) // the call may be at another attempt by now
		begin.Began = n.attempt.Began     // which it finds when it starts again
		tc.recorder.Note(replay.Entry{In: tc.stepsIn, Call: begin})
	}
	made, soFar, before, to := make([]*toolCall, len(calls)), n.attempt.SoFar, n.attempt.Artifacts(), reportsTo(ctx, n.call.batch)
	for i := range calls {
		var room [24]byte
		ending := strconv.AppendInt(append(room[:0], '/'), int64(at+i), 10)
		part := &ToolCall{ID: n.call.part.ID + string(ending), Name: calls[i].Name, Arguments: calls[i].Arguments}
		c := tc.turn.newCall(part, n.key+string(ending), soFar, before)
		c.caller, c.at, c.kept = n, at+i, kept[i]
		c.connect(to)
		n.restoreCall(c)
		made[i] = c
	}
	if slot := &tc.slots[n.caller.Depth()]; *slot == nil {
		*slot = make(chan struct{}, tc.parallelCalls())
	}
	tc.askPersons(ctx, made)
	return made, nil
}

// restoreCall gives a call the outcome, the open question or the number of attempts that the
// journal has of it.
func (n *nestedCalls) restoreCall(c *toolCall) {
	switch kept := c.kept; {
	case kept.Done != nil:
		c.restoreOutcome(kept.Done)
		return
	case kept.Open == nil:
	case kept.Open.Answer != nil:
		c.applyAnswer(kept.Open)
	default:
		c.continueInside(kept.Open)
	}
	if c.kept.Begun > 0 && !c.settled {
		c.attempt.Began = c.kept.Began
		n.calls.repeatUnfinished(c, &replay.OpenCall{Begun: c.kept.Begun})
	}
}

// runCalls runs the calls of a list that are not settled, and returns when all have an
// outcome.
func (n *nestedCalls) runCalls(ctx context.Context, calls []*toolCall) {
	tc, waiting := n.calls, make([]*toolCall, 0, len(calls))
	for _, c := range calls {
		if !c.settled {
			waiting = append(waiting, c)
			continue
		}
		tc.concludeCall(ctx, c)
		if !c.replayed {
			c.batch.Send(finished{c})
		}
	}
	if len(waiting) == 0 {
		return
	}
	nesting.Each(ctx, tc.slots[n.caller.Depth()], len(waiting), func(i int) {
		c := waiting[i]
		c.batch.Send(c.started(tc.providerOf(c.part.Name)))
		tc.runAside(ctx, c, func() {})
	})
}

// answersOf returns the answers of calls, and keeps their effects with the caller's.
func (n *nestedCalls) answersOf(calls []*toolCall) ([]nested.Answer, error) {
	answers := make([]nested.Answer, len(calls))
	for i, c := range calls {
		done := c.kept.Done
		if !n.caller.Over() && n.calls.nested.Apply(c.kept) {
			n.call.effects.Add(done)
			if c.replayed || c.attempt.branch == nil { // an agent has counted its own, and so have calls that the call has made
				n.calls.ledger.Spend(c.output.Cost)
			}
			if c.replayed { // another process made them, and may have sent their events
				for _, a := range done.Artifacts {
					n.attempt.tellArtifact(a)
				}
			}
		}
		if answers[i] = nesting.AnswerOf(done); answers[i].Kind == nested.Interrupted {
			n.caller.Interrupt()
		}
	}
	if n.caller.Asks() {
		return answers, nested.ErrInterrupted
	}
	return answers, nil
}

// lists returns the caller of the call's nested calls, nil if it makes none.
func (c *Call) lists() *nesting.Caller {
	if c.nest == nil {
		return nil
	}
	return c.nest.caller
}

// asksNested reports whether a call that this one has made waits for an answer.
func (c *toolCall) asksNested() bool { return c.attempt.lists().Asks() }

// around returns the caller of the call, nil if the model made it.
func (c *toolCall) around() *nesting.Caller {
	if c.caller == nil {
		return nil
	}
	return c.caller.caller
}

// parentID returns the ID of the call that makes this one.
func (c *toolCall) parentID() string {
	if c.caller == nil {
		return ""
	}
	return c.caller.call.part.ID
}
