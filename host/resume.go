package host

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runlog"
)

// How a run stores its questions, and how another continues with the answers.

// storeQuestions stores the checkpoint for the run that has the answers.
func (r *run) storeQuestions(ctx context.Context) error {
	j := r.journal.store()
	if j == nil {
		r.journal.checkpoint = &Checkpoint{tenant: r.scope.Tenant, run: r.scope.Run, target: r.net.name, thread: r.scope.Thread, left: r.checkpoint()}
		if r.service.thread != nil {
			r.service.thread.keepCheckpoint(r.journal.checkpoint)
		}
		return nil
	}
	rec, err := r.journal.newRecord(RunInterrupted, entry{Left: r.checkpoint()})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if rec.Asks = runlog.AsksOf(questionsOf(r.journal.openCalls)); r.journal.recorder != nil {
		err = j.LeaveRun(ctx, r.journal.recorder.ref, rec.Steps[0], rec.Asks)
	} else {
		err = j.CreateRun(ctx, rec)
	}
	return wrapError(err, "store the questions of run %q", r.scope.Run)
}

// checkResume refuses a request to resume that also has new content.
func (r *run) checkResume() error {
	req := r.req
	if r.resume.run == "" {
		if len(req.Answers) > 0 {
			return Errorf(InvalidArgument, "request has answers and names no run to resume")
		}
		return nil
	}
	conversation := r.resume.checkpoint == nil && (len(req.Messages) > 0 || len(req.Providers) > 0 || req.State != nil)
	if r.conv.input != nil || conversation || req.Instructions != "" || len(req.ModelParameters) > 0 || req.Thread != "" {
		return Errorf(InvalidArgument, "request resumes run %q and says something new", r.resume.run).
			WithHint("resume it with nothing but the answers, then say the rest")
	}
	if r.journal.store() == nil && r.resume.checkpoint == nil {
		return errNoJournal()
	}
	return nil
}

// resumedRun returns the record of the run that this one resumes, or nil.
func (r *run) resumedRun(ctx context.Context) (*RunRecord, error) {
	if r.resume.run == "" {
		return nil, nil
	}
	rec, err := r.journal.readRun(ctx)
	if err != nil {
		return nil, err
	}
	if r.service.thread != nil && rec.Thread != r.scope.Thread {
		return nil, Errorf(FailedPrecondition, "run %q is one in another thread than %q", rec.Run, r.scope.Thread)
	}
	r.scope.Thread, r.journal.resumes = rec.Thread, rec.Run
	return rec, nil
}

// reopen puts the run where the one that is resumed stopped.
func (r *run) reopen(ctx context.Context) error {
	rec, err := r.journal.readRun(ctx) // again: another may have been faster before the thread was ours
	if err != nil {
		return err
	}
	switch rec.Status {
	case RunInterrupted:
		err = r.resumeInterrupted(ctx, rec)
	case RunOpen:
		err = r.resumeOpen(ctx, rec)
	case RunAnswered:
		err = errAnswered(rec)
	default:
		err = Errorf(FailedPrecondition, "run %q cannot be resumed: its status is %s", rec.Run, rec.Status)
	}
	if err != nil {
		return err
	}
	r.sendStarted()
	r.events.sendState(r.state)
	return nil
}

// resumeInterrupted begins a run with the answers to an interrupted one. From here on it
// is in the journal, for a person's answer is not to be lost with the process.
func (r *run) resumeInterrupted(ctx context.Context, rec *RunRecord) error {
	c, err := readCheckpoint(rec)
	if err != nil {
		return err
	}
	answers, over, err := runlog.Settle(questionsOf(c.Calls), r.resume.answers, time.Now())
	if err != nil {
		return err
	}
	if err := r.restoreWithAnswers(ctx, c, answers, over); err != nil {
		return err
	}
	if err := r.loadInterrupted(ctx, c); err != nil {
		return err
	}
	r.journal.saved = c.turn(r.resultID())
	r.journal.branches = &branches{byKey: map[string]*savedTurn{}}
	addBranches(r.journal.branches.byKey, c.Calls)
	if r.journal.store() == nil || r.resume.fromClient() { // the client has it, and can answer again
		return nil
	}
	return r.createRecord(ctx, &beginning{From: c, Answers: answers, Expired: over, Artifacts: r.content.artifacts})
}

// resumeOpen makes this run the one whose process has ended.
func (r *run) resumeOpen(ctx context.Context, rec *RunRecord) error {
	if len(r.resume.answers) > 0 {
		return Errorf(InvalidArgument, "run %q asks nothing: it is open", rec.Run)
	}
	p, err := newReplay(rec)
	if err != nil {
		return err
	}
	r.scope.Run, r.keyPrefix = rec.Run, rec.Run
	r.content.artifacts = p.begin.Artifacts
	if c := p.begin.From; c != nil {
		err = r.restoreWithAnswers(ctx, c, p.begin.Answers, p.begin.Expired)
	} else {
		err = r.restoreBeginning(p.begin)
	}
	r.thread.head = p.begin.Head
	if err == nil {
		err = r.applyReplay(p)
	}
	if err != nil {
		return err
	}
	movedOn := r.reopenThread(ctx, p)
	if movedOn != nil && CodeOf(movedOn) != Conflict {
		return movedOn
	}
	ref := rec.Ref
	if ref.Fence, err = r.journal.store().TakeRun(ctx, ref); err != nil {
		return wrapError(err, "take run %q over", rec.Run)
	}
	if movedOn != nil { // it has lost the race and cannot be resumed
		return errors.Join(movedOn, r.journal.store().EndRun(ctx, ref, RunEnded, nil))
	}
	r.journal.startRecording(newRecorder(r.state, r.journal.store(), ref, len(rec.Steps)))
	return nil
}

// restoreBeginning takes over the content of the original request.
func (r *run) restoreBeginning(b *beginning) error {
	r.conv.input, r.thread.clientOwned, r.thread.branch, r.stoppedAtStart = b.Input, b.Foreign, b.Branch, b.Stopped
	r.content.messages, r.content.providers = b.Messages, b.Providers
	if err := r.restoreContent(b.Instructions, b.Parameters); err != nil {
		return err
	}
	return r.restoreState(b.State)
}

// restoreContent takes over the instructions and the model parameters of a request.
func (r *run) restoreContent(instructions string, parameters map[string]json.RawMessage) (err error) {
	r.content.instructions = instructions
	r.content.parameters, err = llm.EncodeParameters(asParameters(parameters))
	return err
}

func (r *run) restoreState(raw json.RawMessage) error {
	doc, err := statedoc.Members(raw)
	if err != nil {
		return err
	}
	if r.state, err = newState(doc, r.limits.StateBytes, r.net.opts.StateSchema); err != nil {
		return err
	}
	r.state.view().Watch()
	return nil
}

// reopenThread takes over the conversation that a run loaded before its process
// ended, or loads it again. If the thread has moved on, the run fails now, as it
// would have failed alive, before it costs more.
func (r *run) reopenThread(ctx context.Context, p *replay) error {
	head, foreign := r.thread.head, r.thread.clientOwned
	loaded, err := p.begin.History.read()
	journaled := loaded != nil
	if err == nil && !journaled {
		r.thread.head = ""
		loaded, err = r.thread.load(ctx, false)
	}
	if err != nil {
		return err
	}
	r.thread.clientOwned = foreign
	if c := p.begin.From; c != nil && c.Messages != nil {
		loaded = &Loaded{Messages: c.Messages, Providers: c.Providers}
	}
	r.thread.providers = newProviderStates(loaded.Providers)
	stored := r.thread.withoutOwn(loaded, p)
	if r.conv.past, err = r.thread.pastMessages(loaded); err != nil {
		return err
	}
	r.conv.past = chat.CloseCalls(r.conv.past, p.begin.From == nil)
	r.service.takeReplay(loaded, r.conv.messages(), p)
	switch c := p.begin.From; {
	case p.end != nil: // only the results are still to be stored, and perhaps not even these
		if c == nil && !stored {
			r.thread.head = head
		}
		return nil
	case journaled:
		return r.thread.checkHead(ctx)
	case c != nil:
		return r.thread.checkLastMessage(c)
	case head != "" && r.thread.head != "" && r.thread.head != head && !stored:
		return errMovedOn(&r.scope)
	}
	return nil
}

func errMovedOn(s *Scope) error {
	return Errorf(Conflict, "thread %q has moved on since run %q stopped", s.Thread, s.Run).
		WithHint("what it had done is not in the thread; say what is wanted as a new message")
}

// withoutOwn removes the messages that the run itself has stored, round by round,
// from loaded. It reports whether the last loaded message is one of them.
func (t *runThread) withoutOwn(loaded *Loaded, p *replay) (last bool) {
	own := p.messages()
	var rest []*Message
	for _, m := range loaded.Messages {
		if last = m != nil && own[m.ID]; !last {
			rest = append(rest, m)
			continue
		}
		if t.storedIDs == nil {
			t.storedIDs = map[string]bool{}
		}
		t.storedIDs[m.ID] = true
	}
	loaded.Messages = rest
	return last
}

// restoreWithAnswers takes over the checkpoint of the interrupted run, with the
// answers. over is the expired question that ends the run, nil if it continues.
func (r *run) restoreWithAnswers(ctx context.Context, c *checkpoint, given []Answer, over *Question) error {
	if over != nil {
		r.startFailure = runlog.ErrExpired(r.journal.resumes, over)
		return r.restoreCheckpoint(c)
	}
	answers, err := runlog.Match(r.journal.resumes, questionsOf(c.Calls), given, r.limits.forAnswers())
	if err != nil {
		return err
	}
	if name, ok := r.routes.unknownAgent(append([]string{c.Agent}, c.Stack...)); ok {
		return Errorf(FailedPrecondition, "run %q has to run the agent %q, which %q does not have", r.journal.resumes, name, r.net.name).
			WithHint("agents that a router brings along are gone with its run: put them on call")
	}
	for _, call := range asking(c.Calls) {
		call.answer = answers[call.Question.ID]
	}
	if err := checkAnswers(ctx, r.limits, r.routes.agentNamed(c.Agent), c.Calls); err != nil {
		return err
	}
	return r.restoreCheckpoint(c)
}

// restoreCheckpoint takes over the interrupted run's state.
func (r *run) restoreCheckpoint(c *checkpoint) error {
	r.conv.input, r.conv.inputInHistory, r.thread.inputStored, r.conv.earlier = c.Input, true, true, c.Results
	r.routes.iterations, r.routes.stack = c.Iterations, c.Stack
	if err := r.restoreContent(c.Instructions, c.Parameters); err != nil {
		return err
	}
	r.ledger.spent.tokens.Store(c.Tokens)
	r.ledger.spent.toolCalls.Store(c.ToolCalls)
	r.ledger.spent.instructions.Store(c.Executed)
	r.ledger.spent.artifacts.Store(c.Artifacts)
	r.ledger.spent.artifactBytes.Store(c.Stored)
	if r.resume.fromClient() {
		loaded := &Loaded{}
		if r.service.thread != nil {
			loaded.State = r.service.thread.State()
		}
		return r.setState(loaded)
	}
	return r.restoreState(c.State)
}

// checkAnswers checks edited arguments of approved calls against the tools of an
// agent, and of the agents that are its tools.
func checkAnswers(ctx context.Context, limits *Limits, agent *Agent, calls []*openCall) error {
	for _, call := range calls {
		tool := agent.set.current(ctx).byName[call.Part.Name]
		var err error
		switch {
		case tool == nil:
		case call.Inside != nil && tool.agent != nil:
			err = checkAnswers(ctx, limits, tool.agent, call.Inside.Calls)
		case call.Inside == nil && call.answer.Decision == Approve:
			err = checkEditedArguments(ctx, limits, tool, call)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkEditedArguments checks the arguments that a person put in the place of the
// model's by the tool's schema. A tool that a provider brings is not known yet: its
// arguments are checked when it runs.
func checkEditedArguments(ctx context.Context, limits *Limits, tool *Tool, call *openCall) error {
	if len(call.answer.Arguments) == 0 {
		return nil
	}
	if _, err := tool.arguments(ctx, call.answer.Arguments, limits.ArgumentBytes); err != nil {
		return Errorf(InvalidArgument, "answer to question %q: %w", call.Question.ID, err)
	}
	return nil
}

// loadInterrupted loads the conversation, which must end where the questions were
// asked.
func (r *run) loadInterrupted(ctx context.Context, c *checkpoint) error {
	loaded := &Loaded{Messages: c.Messages, Providers: c.Providers}
	if loaded.Messages == nil {
		var err error
		if loaded, err = r.thread.load(ctx, false); err != nil {
			return err
		}
	}
	r.service.takeLoaded(loaded)
	r.thread.providers = newProviderStates(loaded.Providers)
	var err error
	if r.conv.past, err = r.thread.pastMessages(loaded); err != nil {
		return err
	}
	r.conv.past = chat.CloseCalls(r.conv.past, false)
	if err := r.thread.checkLastMessage(c); err != nil || !r.resume.fromClient() {
		return err
	}
	return checkClientCalls(r.journal.resumes, r.conv.past, c)
}

// checkLastMessage fails if the conversation does not end where the questions were asked.
func (t *runThread) checkLastMessage(c *checkpoint) error {
	if n := len(t.conv.past); n == 0 || t.conv.past[n-1].ID != c.Last {
		return Errorf(Conflict, "thread %q has moved on since run %q asked", t.scope.Thread, t.resume.run).
			WithHint("its questions cannot be answered any more; say what is wanted as a new message")
	}
	return nil
}

// continueTurn continues an agent's run after its saved part.
func (t *turn) continueTurn(ctx context.Context, saved *savedTurn) error {
	switch {
	case saved.result == nil:
		return t.rounds(ctx)
	case len(saved.calls) == 0: // the last answer calls nothing
		if saved.misfit != nil {
			return saved.misfit
		}
		return t.hookFinish(ctx)
	}
	t.calls.off = saved.result.FinishReason == FinishMaxRounds // it has called tools all the same
	if err := t.runCalls(ctx, t.savedCalls(saved.calls)); err != nil {
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

// savedCalls returns calls that another run or process began, as their answers
// and outcomes have it.
func (t *turn) savedCalls(open []*openCall) []*toolCall {
	parts := make([]*ToolCall, len(open))
	for i, o := range open {
		parts[i] = &ToolCall{ID: o.Part.ID, Name: o.Part.Name, Arguments: o.Part.Arguments}
	}
	calls := t.newCalls(parts)
	for i, o := range open {
		c := calls[i]
		if o.answer != nil {
			key := c.attempt.IdempotencyKey
			c.applyAnswer(o)
			if t.run.resume.fromClient() { // only the answer can be trusted
				c.admitted, c.key = false, o.Key
				c.attempt.IdempotencyKey, c.attempt.Arguments = key, c.part.Arguments
			}
		}
		switch {
		case o.done != nil:
			c.restoreOutcome(o.done)
		case o.Inside != nil:
			c.continueInside(o)
		case !c.settled && t.run.journal.continuesRun():
			t.calls.repeatUnfinished(c, o)
		}
	}
	return calls
}

// repeatUnfinished decides about a call that may have begun when the process ended.
func (tc *toolCalls) repeatUnfinished(c *toolCall, o *openCall) {
	tool := tc.tools.byName[c.part.Name]
	repeatable := tool != nil && tool.repeatable()
	if repeatable || o.begun > 0 {
		c.attempt.Attempt = max(c.attempt.Attempt, o.begun) + 1
	}
	if repeatable || o.begun == 0 {
		return
	}
	c.settled, c.output = true, &ToolOutput{}
	c.question = tc.newQuestion(c, AskUnknown, "The process ended while this tool ran: it is not known whether it took effect.", nil)
}

// restoreOutcome gives a call the outcome that was written down.
func (c *toolCall) restoreOutcome(d *callDone) {
	c.settled, c.replayed, c.err = true, true, nil
	c.message, c.open = d.Message, d.Open
	if d.Open != nil {
		c.question = d.Open.Question
	}
	for _, a := range d.Artifacts {
		c.attempt.putArtifact(a)
	}
	c.output = &ToolOutput{Schedule: d.Schedule, Cost: d.Cost, Usage: d.Usage}
}

// continueInside continues a call of an agent where the agent asked.
func (c *toolCall) continueInside(o *openCall) {
	c.attempt.IdempotencyKey, c.attempt.Attempt, c.admitted = o.Key, o.Attempt, true
}

// applyAnswer applies an answer to its call.
func (c *toolCall) applyAnswer(o *openCall) {
	c.attempt.IdempotencyKey, c.attempt.Attempt, c.attempt.Resumed = o.Key, o.Attempt+1, o.Resumed
	c.admitted = true
	a := o.answer
	switch {
	case a.Decision == Deny:
		c.settled, c.err = true, a.Denied(o.Question)
		c.ensureOutput(c.attempt.Scope.Run)
	case a.Decision == Approve && o.Question.Kind == AskUnknown:
		c.attempt.Arguments = o.Question.Arguments
	case a.Decision == Reply && o.Question.Kind == AskInput:
		c.attempt.Arguments = o.Question.Arguments
		c.attempt.Resumed = append(c.attempt.Resumed[:len(o.Resumed):len(o.Resumed)], Resumption{Question: o.Question.ID, Answer: a.Value})
	case a.Decision == Reply:
		c.settled, c.output = true, &ToolOutput{Content: a.Value}
	case len(a.Arguments) > 0:
		c.attempt.Arguments = a.Arguments
	}
}
