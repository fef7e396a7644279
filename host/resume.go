package host

import (
	"context"
	"encoding/json"
	"time"
)

// How a run leaves its questions, and how another goes on with the answers.

// leave stores what the run that has the answers will need.
func (r *run) leave(ctx context.Context) error {
	j := r.journalOf()
	if j == nil {
		r.host.opts.Logger.Warn("interrupted run cannot be resumed: the host has no journal", "run", r.id)
		return nil
	}
	raw, err := json.Marshal(entry{Left: r.checkpoint()})
	if err != nil {
		return Errorf(Internal, "write down the questions of run %q: %w", r.id, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.CommitTimeout)
	defer cancel()
	if r.ref.Run != "" {
		err = j.EndRun(ctx, r.ref, RunInterrupted, raw)
	} else {
		err = j.CreateRun(ctx, r.newRecord(RunInterrupted, raw))
	}
	return wrapError(err, "store the questions of run %q", r.id)
}

func (r *run) newRecord(status RunStatus, step json.RawMessage) *RunRecord {
	now := time.Now().UTC()
	return &RunRecord{RunRef: RunRef{Tenant: r.tenant, Thread: r.thread, Run: r.id, Fence: 1}, Target: r.net.name,
		Status: status, Answers: r.resumes, Created: now, Updated: now, Steps: []json.RawMessage{step}}
}

// checkResume refuses a request to go on that says something else as well.
func (r *run) checkResume() error {
	req := r.req
	if req.Resume == "" {
		if len(req.Answers) > 0 {
			return Errorf(InvalidArgument, "request has answers and names no run to resume")
		}
		return nil
	}
	if r.input != nil || len(req.Messages) > 0 || req.Instructions != "" || req.State != nil || req.Thread != "" {
		return Errorf(InvalidArgument, "request resumes run %q and says something new", req.Resume).
			WithHint("resume it with nothing but the answers, then say the rest")
	}
	if r.journalOf() == nil {
		return errNoJournal()
	}
	return nil
}

// resumed returns the run that this one goes on with, nil if it begins anew.
func (r *run) resumed(ctx context.Context) (*RunRecord, error) {
	if r.req.Resume == "" {
		return nil, nil
	}
	rec, err := r.readRun(ctx)
	if err != nil {
		return nil, err
	}
	r.thread, r.resumes = rec.Thread, rec.Run
	return rec, nil
}

func (r *run) readRun(ctx context.Context) (*RunRecord, error) {
	rec, err := r.journalOf().ReadRun(ctx, r.tenant, r.req.Resume)
	if err != nil {
		return nil, wrapError(err, "read run %q", r.req.Resume)
	}
	if rec.Target != r.net.name {
		return nil, Errorf(FailedPrecondition, "run %q is one of %q, not of %q", rec.Run, rec.Target, r.net.name)
	}
	return rec, nil
}

// reopen puts the run where the interrupted one stopped, with the answers.
func (r *run) reopen(ctx context.Context) error {
	rec, err := r.readRun(ctx) // again: another may have been faster before the thread was ours
	if err != nil {
		return err
	}
	switch rec.Status {
	case RunInterrupted:
	case RunAnswered:
		return Errorf(Conflict, "the questions of run %q are answered already, by run %q", rec.Run, rec.AnsweredBy)
	default:
		return Errorf(FailedPrecondition, "run %q asks nothing: its status is %s", rec.Run, rec.Status)
	}
	c, err := readCheckpoint(rec)
	if err != nil {
		return err
	}
	answers, err := matchAnswers(rec.Run, questionsOf(c.Calls), r.req.Answers, r.limits)
	if err != nil {
		return err
	}
	if err := r.restore(c); err != nil {
		return err
	}
	for _, call := range c.Calls {
		if call.answer = answers[call.Question.ID]; call.answer.Decision == Approve {
			if err := r.checkEdited(ctx, c.Agent, call); err != nil {
				return err
			}
		}
	}
	if err := r.openAgain(ctx, c); err != nil {
		return err
	}
	if err := r.claim(ctx, c); err != nil {
		return err
	}
	r.start()
	r.emitState()
	return nil
}

// restore takes over what the interrupted run had.
func (r *run) restore(c *checkpoint) error {
	if r.agent(c.Agent) == nil {
		return Errorf(FailedPrecondition, "run %q was interrupted in the agent %q, which %q does not have any more", r.resumes, c.Agent, r.net.name)
	}
	if name, ok := r.unknownAgent(c.Stack); ok {
		return Errorf(FailedPrecondition, "run %q still has to run the agent %q, which %q does not have any more", r.resumes, name, r.net.name)
	}
	doc, err := decodeState(c.State)
	if err != nil {
		return err
	}
	if r.state, err = newState(doc, r.limits.StateBytes, r.net.opts.StateSchema); err != nil {
		return err
	}
	r.state.watched = true
	r.input, r.placed, r.earlier = c.Input, true, c.Results
	r.iterations, r.stack = c.Iterations, c.Stack
	req := *r.req
	req.Instructions = c.Instructions
	r.req = &req
	r.spent.tokens.Store(c.Tokens)
	r.spent.toolCalls.Store(c.ToolCalls)
	r.saved = c.turn(r.resultID())
	return nil
}

// checkEdited holds the arguments that a person put in the place of the model's
// to the tool's schema. A tool that a provider brings is not known yet: its
// arguments are checked when it runs.
func (r *run) checkEdited(ctx context.Context, agent string, call *openCall) error {
	tool := r.agent(agent).set.current(ctx).byName[call.Part.Name]
	if tool == nil || len(call.answer.Arguments) == 0 {
		return nil
	}
	if _, err := tool.arguments(call.answer.Arguments, r.limits.ArgumentBytes); err != nil {
		return Errorf(InvalidArgument, "answer to question %q: %w", call.Question.ID, err)
	}
	return nil
}

// openAgain loads the conversation, which must end where the questions were
// asked.
func (r *run) openAgain(ctx context.Context, c *checkpoint) error {
	loaded := &Loaded{Messages: c.Messages}
	if loaded.Messages == nil {
		var err error
		if loaded, err = r.load(ctx, false); err != nil {
			return err
		}
	}
	var err error
	if r.past, err = r.pastMessages(loaded); err != nil {
		return err
	}
	r.past = closeCalls(r.past, false)
	if n := len(r.past); n == 0 || r.past[n-1].ID != c.Last {
		return Errorf(Conflict, "thread %q has moved on since run %q asked", r.thread, r.resumes).
			WithHint("its questions cannot be answered any more; say what is wanted as a new message")
	}
	return nil
}

// claim makes this run the one that goes on. From here on it is in the journal,
// for a person's answer is not to be lost with the process.
func (r *run) claim(ctx context.Context, c *checkpoint) error {
	raw, err := json.Marshal(entry{Begin: &beginning{From: c, Answers: r.req.Answers}})
	if err != nil {
		return Errorf(Internal, "write down the answers to run %q: %w", r.resumes, err)
	}
	rec := r.newRecord(RunOpen, raw)
	if err := r.journalOf().CreateRun(ctx, rec); err != nil {
		return wrapError(err, "take over from run %q", r.resumes)
	}
	r.ref = rec.RunRef
	return nil
}

// end tells the journal that there is nothing to go on with.
func (r *run) end(ctx context.Context) {
	if r.ref.Run == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.CommitTimeout)
	defer cancel()
	if err := r.journalOf().EndRun(ctx, r.ref, RunEnded, nil); err != nil {
		r.host.opts.Logger.Error("run has ended and stays in the journal", "run", r.id, "error", err)
	}
}

// goOn is an agent's run behind what is saved of it.
func (t *turn) goOn(ctx context.Context, saved *savedTurn) error {
	if len(saved.calls) == 0 {
		return t.rounds(ctx)
	}
	if err := t.runCalls(ctx, t.answeredCalls(saved.calls)); err != nil {
		return err
	}
	if t.interrupted {
		t.result.FinishReason = FinishInterrupted
		return nil
	}
	if stop, err := t.stopNow(ctx); stop || err != nil {
		return err
	}
	return t.rounds(ctx)
}

// answeredCalls returns the calls that waited, as their answers have it.
func (t *turn) answeredCalls(open []*openCall) []*toolCall {
	parts := make([]*ToolCall, len(open))
	for i, o := range open {
		parts[i] = &ToolCall{ID: o.Part.ID, Name: o.Part.Name, Arguments: o.Part.Arguments}
	}
	calls := t.newCalls(parts)
	for i, o := range open {
		calls[i].answered(o)
	}
	return calls
}

// answered does with a call what the answer says.
func (c *toolCall) answered(o *openCall) {
	c.call.IdempotencyKey, c.call.Attempt, c.call.Resumed = o.Key, o.Attempt+1, o.Resumed
	c.admitted = true
	a := o.answer
	switch {
	case a.Decision == Deny:
		c.settled, c.err = true, a.denied(o.Question)
		c.finish()
	case a.Decision == Reply && o.Question.Kind == AskInput:
		c.call.Arguments = o.Question.Arguments
		c.call.Resumed = append(c.call.Resumed[:len(o.Resumed):len(o.Resumed)], Resumption{o.Question.ID, a.Value})
	case a.Decision == Reply:
		c.settled, c.output = true, &ToolOutput{Content: a.Value}
	case len(a.Arguments) > 0:
		c.call.Arguments = a.Arguments
	}
}
