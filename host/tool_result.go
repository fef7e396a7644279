package host

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/toolfault"
	"github.com/agenthost/agenthost/host/runevent"
)

// own returns a copy that the host may fill in: a handler or hook may give the
// same output to many calls.
func (o *ToolOutput) own() *ToolOutput {
	if o == nil {
		return &ToolOutput{}
	}
	own := *o
	return &own
}

// applyOutput checks an answer and then applies its effects to the state and the
// run: all or none.
func (tc *toolCalls) applyOutput(c *toolCall, out *ToolOutput) error {
	n, err := chat.MediaBytes(out.Media)
	if err != nil {
		return wrapError(err, "the result of %s", c.part.Name)
	}
	if n += len(out.Content); n > tc.limits.ResultBytes {
		return Errorf(ResourceExhausted, "The result of %s is %d bytes, more than the %d that are allowed.", c.part.Name, n, tc.limits.ResultBytes)
	}
	if len(out.Content) == 0 {
		out.Content = jsondoc.Quote(c.part.Name + " successfully executed")
	} else if jsondoc.Check(out.Content) != nil {
		return Errorf(Internal, "The result of %s is not JSON.", c.part.Name)
	}
	if out.Interrupt != nil && tc.clientAnswers && (tc.events.Depth > 0 || c.caller != nil || c.attempt.lists().HasCalled()) {
		return Errorf(FailedPrecondition, "The tool %s cannot ask a person here.", c.part.Name)
	}
	if ask := out.Interrupt; ask != nil && len(ask.Data) > 0 && jsondoc.Check(ask.Data) != nil {
		return Errorf(Internal, "What %s asks a person is not JSON.", c.part.Name)
	}
	if err := tc.checkSchedule(c, out); err != nil {
		return err
	}
	for i := range out.Artifacts {
		if err := c.attempt.checkArtifact(&out.Artifacts[i]); err != nil {
			return err
		}
	}
	if err := c.attempt.State.view().PatchSeen(out.State); err != nil {
		return err
	}
	for _, a := range out.Artifacts {
		c.attempt.putArtifact(a)
	}
	return nil
}

func (tc *toolCalls) checkSchedule(c *toolCall, out *ToolOutput) error {
	names := slices.Concat(c.attempt.scheduled(), out.Schedule)
	if len(names) > replay.MaxScheduledAgents {
		return Errorf(ResourceExhausted, "The tool %s schedules more than %d agents.", c.part.Name, replay.MaxScheduledAgents)
	}
	if name, ok := tc.routes.unknownAgent(names); ok {
		return Errorf(InvalidArgument, "The tool %s schedules the agent %q, which does not exist.", c.part.Name, name)
	}
	return nil
}

// ensureOutput makes an output of a failure: a sentence for the model.
func (c *toolCall) ensureOutput(run string) {
	if c.err == nil {
		return
	}
	failed := &ToolOutput{Content: jsondoc.Quote(toolfault.Sentence(c.err, run))}
	if c.output != nil {
		failed.Cost, failed.Usage = c.output.Cost, c.output.Usage
	}
	c.output = failed
}

func (c *toolCall) finished() *runevent.ToolFinished {
	return &runevent.ToolFinished{
		ID: c.part.ID, Key: c.clientKey(), Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil, Unknown: c.unknown,
		DurationUS: c.duration.Microseconds(), Cost: c.output.Cost, Parent: c.parentID(),
	}
}

// addResult joins one call's result to the conversation and the run.
func (t *turn) addResult(c *toolCall) {
	done := c.outcome()
	t.run.ledger.Cost.Add(done.Cost)
	if c.attempt.branch == nil { // an agent, and calls that the call has made, have counted theirs
		t.run.ledger.Spend(c.output.Cost)
	}
	if done.Usage != nil {
		t.result.Usage = t.result.Usage.Add(*done.Usage)
	}
	t.run.routes.stack = slices.Concat(t.run.routes.stack, done.Schedule)
	for _, a := range done.Artifacts {
		t.run.ledger.Artifacts = chat.PutArtifact(t.run.ledger.Artifacts, a)
	}
	c.attempt.release()
	t.run.events.SendArtifacts(c.attempt.takeUntold())
	if c.open != nil {
		t.interrupt(c)
		return
	}
	if c.settled && !c.replayed {
		t.run.events.Emit(c.finished())
	}
	if t.agent.opts.JoinResults {
		t.joined = chat.JoinResults(t.joined, c.message)
		return
	}
	t.result.Messages = append(t.result.Messages, c.message)
	t.run.events.Emit(&runevent.MessageDone{Message: c.message})
}

// addJoined joins the results of a batch to the conversation, where they are one
// message.
func (t *turn) addJoined() {
	if t.joined == nil {
		return
	}
	t.result.Messages = append(t.result.Messages, t.joined)
	t.run.events.Emit(&runevent.MessageDone{Message: t.joined})
	t.joined = nil
}

// concludeCall makes a message or a question of a call's output, and records it.
func (tc *toolCalls) concludeCall(ctx context.Context, c *toolCall) {
	if ask := c.output.Interrupt; ask != nil {
		c.question = tc.newQuestion(c, AskInput, ask.Reason, ask.Data)
	}
	if c.question != nil && c.message == nil && c.open == nil {
		if err := tc.setTerms(ctx, c); err != nil {
			c.question, c.settled, c.err = nil, true, err
			c.attempt.State.view().TakeBack()
			c.ensureOutput(tc.events.Scope.Run)
		}
	}
	switch {
	case c.message != nil || c.open != nil: // it ran in another process
	case c.asksNested():
		c.open = &replay.OpenCall{Part: c.storedPart(), Key: c.attempt.IdempotencyKey, Attempt: c.attempt.Attempt, Resumed: c.attempt.Resumed, Arguments: c.attempt.Arguments, Began: c.attempt.Began}
	case c.output.inside != nil:
		c.open = &replay.OpenCall{Part: c.storedPart(), Key: c.attempt.IdempotencyKey, Attempt: c.attempt.Attempt, Inside: c.output.inside}
	case c.question != nil:
		attempt := c.attempt.Attempt
		if c.question.Kind == AskApproval || c.question.Kind == AskResult {
			attempt = 0
		}
		c.open = &replay.OpenCall{Question: c.question, Part: c.storedPart(), Key: c.clientKey(), Attempt: attempt, Resumed: c.attempt.Resumed, Began: c.attempt.Began}
	default:
		c.message = NewMessage(ToolRole, &ToolResult{ID: c.part.ID, Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil, Media: c.output.Media})
		c.message.Agent = tc.agent.name
	}
	if c.open != nil && !c.replayed {
		c.open.Nested = tc.nested.Kept(c.attempt.IdempotencyKey, c.part.ID, c.effects.Add)
	}
	tc.recordCallDone(ctx, c)
}

// storedPart returns the model's part as the journal has it.
func (c *toolCall) storedPart() *replay.CallPart {
	return &replay.CallPart{ID: c.part.ID, Name: c.part.Name, Arguments: c.part.Arguments}
}

// interrupt keeps the call open and ends the run with its questions.
func (t *turn) interrupt(c *toolCall) {
	t.interrupted = true
	t.run.journal.openCalls = append(t.run.journal.openCalls, c.open)
	for _, q := range replay.QuestionsOf([]*replay.OpenCall{c.open}) {
		t.run.events.Emit(&runevent.Interrupted{Question: q, Key: c.clientKey()})
	}
}
