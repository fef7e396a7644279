package host

import (
	"context"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/replay"
)

// A durable run writes down each step when it is done: an answer of a model, the
// outcome of a tool call, a router's decision. The work between two steps
// (instructions, providers, processors, hooks, observers) is done again when the
// run is resumed, and must bear that.

// createRecord begins to write a run's steps down.
func (r *run) createRecord(ctx context.Context, begin *replay.Begin) error {
	begin.V, begin.Key, begin.Head, begin.History = replay.Version, r.req.Key, r.thread.head, r.thread.journaledHistory()
	rec, err := r.journal.newRecord(RunOpen, r.thread.branch, replay.Entry{Begin: begin})
	if err != nil {
		return err
	}
	if begin.From != nil && r.resume.checkpoint == nil {
		rec.Answers = r.journal.resumes
	}
	j := r.journal.store()
	if err := j.CreateRun(ctx, rec); err != nil {
		return wrapError(err, "begin the journal of run %q", r.scope.Run)
	}
	r.journal.startRecording(replay.NewRecorder(r.state.view(), j, rec.Ref, 1))
	return nil
}

// beginJournal begins the journal of a durable run.
func (r *run) beginJournal(ctx context.Context) error {
	if !r.durable() {
		return nil
	}
	return r.createRecord(ctx, &replay.Begin{Input: r.conv.input, Messages: r.content.messages, Providers: r.content.providers, Artifacts: r.content.artifacts, Instructions: r.content.instructions, Parameters: r.content.parameters, Client: r.content.client.terms,
		State: r.state.JSON(), Foreign: r.thread.clientOwned, Branch: r.thread.branch, Stopped: r.stoppedAtStart})
}

func (r *run) durable() bool { return r.req.Durable || r.net.opts.Durable }

// runAgents is the run between its thread's beginning and end.
func (r *run) runAgents(ctx context.Context) (reason FinishReason, err error) {
	if e := r.journal.ended; e != nil {
		if e.Error != nil {
			return e.Finish, e.Error
		}
		return e.Finish, nil
	}
	switch {
	case r.startFailure != nil:
		err = r.startFailure
	case r.stoppedAtStart:
		reason = chat.FinishStop
	default:
		reason, err = r.loop(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = fault.ContextError(ctx)
	}
	if err == nil {
		err = r.hookNetworkFinish(ctx, reason)
	}
	r.scope.Agent = ""
	if err != nil {
		err = withContextCode(ctx, err)
		reason = statusOf(err)
	}
	return reason, err
}

// recordAnswer writes a model's answer down.
func (t *turn) recordAnswer(ctx context.Context, answer *Message) error {
	if t.run.journal.recorder == nil {
		return nil
	}
	step := &replay.AnswerStep{
		Agent: t.agent.name, First: !t.recorded, CreatedAt: t.result.CreatedAt, Round: t.result.Rounds, Message: answer,
		Finish: t.result.FinishReason, Usage: t.result.Usage, Output: t.result.Output, Misfit: fault.AsError(t.misfit),
		Cost: t.run.ledger.Cost, Tokens: t.run.ledger.Total.Tokens.Load(),
	}
	if t.run.events.Depth == 0 {
		step.Stack, step.Service = t.run.routes.stack, t.run.service.id
	}
	t.recorded = true
	return t.run.journal.recorder.Commit(ctx, replay.Entry{In: t.calls.stepsIn, Answer: step})
}

// recordCallBegun writes down that a call begins which must not happen twice. No
// call begins in a run that cannot record it.
func (tc *toolCalls) recordCallBegun(ctx context.Context, tool *Tool, c *toolCall) error {
	if tc.recorder == nil || tool.repeatable() {
		return tc.recorder.Err()
	}
	return tc.recorder.Commit(ctx, replay.Entry{In: tc.stepsIn, Call: c.step(nil, false)})
}

// step returns the step of a call: its beginning, or its outcome. calls says that it has
// made calls of its own.
func (c *toolCall) step(done *replay.CallDone, calls bool) *replay.CallStep {
	step := c.stepOf(c.attempt)
	step.Done = done
	if calls {
		step.Key = c.attempt.IdempotencyKey
	}
	return step
}

// stepOf returns the step of an attempt of a call.
func (c *toolCall) stepOf(attempt *Call) *replay.CallStep {
	step := &replay.CallStep{ID: c.part.ID, Attempt: attempt.Attempt}
	if c.caller != nil {
		step.Of, step.At, step.Name, step.Arguments = c.caller.key, c.at, c.kept.Name, c.kept.Arguments
	}
	return step
}

// repeatable reports whether a call may be made again when its outcome is unknown.
// That of an agent is: its own steps are written down.
func (t *Tool) repeatable() bool { return t.ReadOnly || t.Idempotent || t.ways.alone || t.agent != nil }

// outcome returns what a call leaves: its message or question, and its effects with those
// of the calls that it has made. A call that waits for these starts again, so that only
// theirs count.
func (c *toolCall) outcome() *replay.CallDone {
	done := &replay.CallDone{Message: c.message, Open: c.open, Artifacts: c.attempt.made(), Cost: c.output.Cost, Usage: c.output.Usage}
	if c.err == nil {
		done.Schedule = append(c.attempt.scheduled(), c.output.Schedule...)
	}
	c.effects.AddTo(done, c.err == nil, c.asksNested())
	return done
}

// recordCallDone writes a call's outcome down.
func (tc *toolCalls) recordCallDone(ctx context.Context, c *toolCall) {
	if c.replayed {
		return
	}
	if tc.recorder == nil && c.caller == nil {
		if c.message != nil {
			tc.nested.Drop(c.attempt.IdempotencyKey)
		}
		return
	}
	done := c.outcome()
	if c.caller != nil {
		done.Code = CodeOf(c.err)
		tc.nested.End(c.kept, done)
	} else {
		done.Joined = tc.agent.opts.JoinResults
	}
	called := tc.nested.Has(c.attempt.IdempotencyKey)
	if called && c.message != nil {
		tc.nested.Drop(c.attempt.IdempotencyKey)
	}
	if tc.recorder == nil {
		return
	}
	step := c.step(done, called)
	_ = tc.recorder.Commit(ctx, replay.Entry{In: tc.stepsIn, Call: step, Ended: c.attempt.State.view()}) // the recorder keeps the failure
}

// recordEnd notes the end of an agent's run.
func (t *turn) recordEnd(failure error) {
	if t.run.journal.recorder == nil || t.run.events.Depth > 0 || failure != nil {
		return
	}
	step := &replay.AgentStep{Finish: t.result.FinishReason}
	if t.replaced {
		step.Messages = t.result.Messages
	}
	t.run.journal.recorder.Note(replay.Entry{Agent: step})
}
