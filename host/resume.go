package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/providerstate"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runlog"
)

// How a run stores its questions, and how another continues with the answers.

// storeQuestions stores the checkpoint for the run that has the answers.
func (r *run) storeQuestions(ctx context.Context) error {
	j := r.journal.store()
	if j == nil {
		r.journal.checkpoint = runevent.NewCheckpoint(replay.Kept{Tenant: r.scope.Tenant, Run: r.scope.Run, Target: r.net.name, Thread: r.scope.Thread, Left: r.checkpoint()})
		if r.service.thread != nil {
			r.service.thread.Access().KeepCheckpoint(r.journal.checkpoint.Kept())
		}
		return nil
	}
	rec, err := r.journal.newRecord(RunInterrupted, r.thread.branch, replay.Entry{Left: r.checkpoint()})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if rec.Asks = runlog.AsksOf(replay.QuestionsOf(r.journal.openCalls)); r.journal.recorder != nil {
		err = j.LeaveRun(ctx, r.journal.recorder.Ref(), rec.Steps[0], rec.Asks)
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
	if r.conv.input != nil || conversation || req.Instructions != "" || len(req.ModelParameters) > 0 || req.Client != nil || req.Thread != "" {
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
	r.events.SendState(r.state.view())
	return nil
}

// resumeInterrupted begins a run with the answers to an interrupted one. From here on it
// is in the journal, for a person's answer is not to be lost with the process.
func (r *run) resumeInterrupted(ctx context.Context, rec *RunRecord) error {
	c, err := replay.ReadCheckpoint(rec)
	if err != nil {
		return err
	}
	answers, over, err := runlog.Settle(replay.QuestionsOf(c.Calls), r.resume.answers, time.Now())
	if err != nil {
		return err
	}
	if err := r.restoreWithAnswers(ctx, c, answers, over); err != nil {
		return err
	}
	if err := r.loadInterrupted(ctx, c); err != nil {
		return err
	}
	r.journal.saved = c.Turn(r.resultID())
	branches := map[string]*replay.SavedTurn{}
	replay.AddBranches(branches, c.Calls)
	r.journal.branches = replay.NewBranches(branches)
	nested := map[string][]*replay.NestedCall{}
	replay.AddNested(nested, c.Calls)
	r.journal.nested.Restore(nested)
	if r.journal.store() == nil || r.resume.fromClient() { // the client has it, and can answer again
		return nil
	}
	return r.createRecord(ctx, &replay.Begin{From: c, Answers: answers, Expired: over, Artifacts: r.content.artifacts})
}

// resumeOpen makes this run the one whose process has ended.
func (r *run) resumeOpen(ctx context.Context, rec *RunRecord) error {
	if len(r.resume.answers) > 0 {
		return Errorf(InvalidArgument, "run %q asks nothing: it is open", rec.Run)
	}
	p, err := replay.Read(rec)
	if err != nil {
		return err
	}
	r.scope.Run, r.keyPrefix = rec.Run, rec.Run
	r.content.artifacts = p.Begin.Artifacts
	if c := p.Begin.From; c != nil {
		err = r.restoreWithAnswers(ctx, c, p.Begin.Answers, p.Begin.Expired)
	} else {
		err = r.restoreBeginning(p.Begin)
	}
	r.thread.head = p.Begin.Head
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
	if ref.Fence, err = r.journal.store().TakeRun(ctx, ref, len(rec.Steps)); err != nil {
		return wrapError(err, "take run %q over", rec.Run)
	}
	if movedOn != nil { // it has lost the race and cannot be resumed
		return errors.Join(movedOn, r.journal.store().EndRun(ctx, ref, RunEnded, nil))
	}
	r.journal.startRecording(replay.NewRecorder(r.state.view(), r.journal.store(), ref, len(rec.Steps)))
	if len(p.Undo) == 0 {
		return nil
	}
	return patchAgain(r.state, rec.Run, p.Undo) // a change like others, for the journal and readers
}

// restoreBeginning takes over the content of the original request.
func (r *run) restoreBeginning(b *replay.Begin) (err error) {
	r.conv.input, r.thread.clientOwned, r.thread.branch, r.stoppedAtStart = b.Input, b.Foreign, b.Branch, b.Stopped
	r.content.messages, r.content.providers = b.Messages, b.Providers
	if err := r.restoreContent(b.Instructions, b.Parameters, b.Client); err != nil {
		return err
	}
	r.state, err = r.initial.restored(b.State)
	return err
}

// restoreContent takes over the instructions, the model parameters and the client's terms
// of a request.
func (r *run) restoreContent(instructions string, parameters map[string]json.RawMessage, client *llm.ClientTerms) (err error) {
	r.content.instructions = instructions
	if r.content.parameters, err = llm.EncodeParameters(asParameters(parameters)); err != nil {
		return err
	}
	if r.content.client, err = compileClientTerms(r.net, client); err == nil && r.content.client.unstored() {
		r.thread.history, r.journal.storesResults = r.thread.history.withoutStore(), false
	}
	return err
}

func patchAgain(state *State, run string, ops []PatchOp) error {
	if err := state.view().PatchAgain(ops); err != nil {
		return Errorf(DataLoss, "a change of the state of run %q cannot be made again: %w", run, err)
	}
	return nil
}

// applyReplay puts the run where the steps end.
func (r *run) applyReplay(p *replay.Run) error {
	for _, ops := range p.Patches {
		if err := patchAgain(r.state, r.scope.Run, ops); err != nil {
			return err
		}
	}
	r.state.view().TakeAllChanges()
	r.conv.results, r.routes.stack, r.routes.iterations, r.ledger.Usage, r.ledger.Cost = p.Results, p.Stack, p.Iterations, p.Usage, p.Cost
	r.ledger.Artifacts = p.Artifacts
	r.journal.saved, r.journal.ended, r.journal.openCalls = p.Current, p.End, p.Waiting
	r.ledger.Total.Tokens.Store(p.Tokens)
	r.ledger.Total.ToolCalls.Store(p.ToolCalls)
	r.ledger.Total.Instructions.Add(p.Cost.Instructions)
	for i := range p.Made {
		r.ledger.Total.Artifacts.Add(1)
		r.ledger.Total.ArtifactBytes.Add(int64(len(p.Made[i].AppendJSON(nil))))
	}
	r.journal.steps.Restore(p.Named)
	r.journal.nested.Restore(p.Nested)
	r.journal.branches = replay.NewBranches(p.Branches)
	r.service.answered, r.service.id = p.Answered, p.Service
	names := slices.Clone(p.Stack)
	if p.Current != nil {
		names = append(names, p.Current.Agent)
	}
	return r.routes.checkResumed(r.scope.Run, names, "process")
}

// reopenThread takes over the conversation that a run loaded before its process
// ended, or loads it again. If the thread has moved on, the run fails now, as it
// would have failed alive, before it costs more.
func (r *run) reopenThread(ctx context.Context, p *replay.Run) error {
	head, foreign := r.thread.head, r.thread.clientOwned
	loaded, err := readLoaded(p.Begin.History)
	journaled := loaded != nil
	if err == nil && !journaled {
		r.thread.head = ""
		loaded, err = r.thread.load(ctx, false)
	}
	if err != nil {
		return err
	}
	r.thread.clientOwned = foreign
	if c := p.Begin.From; c != nil && c.Messages != nil {
		loaded = &Loaded{Messages: c.Messages, Providers: c.Providers}
	}
	r.thread.providers = providerstate.NewAll(loaded.Providers)
	stored := r.thread.withoutOwn(loaded, p)
	if r.conv.past, err = r.thread.pastMessages(loaded); err != nil {
		return err
	}
	r.conv.past = chat.CloseCalls(r.conv.past, p.Begin.From == nil)
	r.service.takeReplay(loaded, r.conv.messages(), p)
	switch c := p.Begin.From; {
	case p.End != nil: // only the results are still to be stored, and perhaps not even these
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
func (t *runThread) withoutOwn(loaded *Loaded, p *replay.Run) (last bool) {
	own := p.MessageIDs()
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
func (r *run) restoreWithAnswers(ctx context.Context, c *replay.Checkpoint, given []Answer, over *Question) error {
	if over != nil {
		r.startFailure = runlog.ErrExpired(r.journal.resumes, over)
		return r.restoreCheckpoint(c)
	}
	answers, err := runlog.Match(r.journal.resumes, replay.QuestionsOf(c.Calls), given, answerLimits(r.limits))
	if err != nil {
		return err
	}
	if err := r.routes.checkResumed(r.journal.resumes, append([]string{c.Agent}, c.Stack...), "run"); err != nil {
		return err
	}
	for _, call := range replay.Asking(c.Calls) {
		call.Answer = answers[call.Question.ID]
	}
	if err := checkAnswers(ctx, r.limits, r.routes.agentNamed(c.Agent), c.Calls); err != nil {
		return err
	}
	return r.restoreCheckpoint(c)
}

// restoreCheckpoint takes over the interrupted run's state.
func (r *run) restoreCheckpoint(c *replay.Checkpoint) (err error) {
	r.conv.input, r.conv.inputInHistory, r.thread.inputStored, r.conv.earlier = c.Input, true, true, c.Results
	r.routes.iterations, r.routes.stack = c.Iterations, c.Stack
	if err := r.restoreContent(c.Instructions, c.Parameters, c.Client); err != nil {
		return err
	}
	r.ledger.Total.Tokens.Store(c.Tokens)
	r.ledger.Total.ToolCalls.Store(c.ToolCalls)
	r.ledger.Total.Instructions.Store(c.Executed)
	r.ledger.Total.Artifacts.Store(c.Artifacts)
	r.ledger.Total.ArtifactBytes.Store(c.Stored)
	if r.resume.fromClient() {
		var loaded json.RawMessage
		if r.service.thread != nil {
			loaded = r.service.thread.State()
		}
		r.initial.encode()
		r.state, err = r.initial.state(loaded, r.scope.Thread)
		return err
	}
	r.state, err = r.initial.restored(c.State)
	return err
}

// checkAnswers checks edited arguments of approved calls against the tools of an
// agent, and of the agents that are its tools.
func checkAnswers(ctx context.Context, limits *Limits, agent *Agent, calls []*replay.OpenCall) error {
	for _, call := range calls {
		tool := agent.set.current(ctx).byName[call.Part.Name]
		err := checkAnswers(ctx, limits, agent, call.OpenNested())
		switch {
		case tool == nil || err != nil:
		case call.Inside != nil && tool.agent != nil:
			err = checkAnswers(ctx, limits, tool.agent, call.Inside.Calls)
		case call.Answer != nil && call.Answer.Decision == Approve:
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
func checkEditedArguments(ctx context.Context, limits *Limits, tool *Tool, call *replay.OpenCall) error {
	if len(call.Answer.Arguments) == 0 {
		return nil
	}
	if _, err := tool.arguments(ctx, call.Answer.Arguments, limits.ArgumentBytes); err != nil {
		return Errorf(InvalidArgument, "answer to question %q: %w", call.Question.ID, err)
	}
	return nil
}

// loadInterrupted loads the conversation, which must end where the questions were
// asked.
func (r *run) loadInterrupted(ctx context.Context, c *replay.Checkpoint) error {
	loaded := &Loaded{Messages: c.Messages, Providers: c.Providers}
	if loaded.Messages == nil {
		var err error
		if loaded, err = r.thread.load(ctx, false); err != nil {
			return err
		}
	}
	r.service.takeLoaded(loaded)
	r.thread.providers = providerstate.NewAll(loaded.Providers)
	var err error
	if r.conv.past, err = r.thread.pastMessages(loaded); err != nil {
		return err
	}
	r.conv.past = chat.CloseCalls(r.conv.past, false)
	if err := r.thread.checkLastMessage(c); err != nil || !r.resume.fromClient() {
		return err
	}
	return replay.CheckClientCalls(r.journal.resumes, r.conv.past, c)
}

// checkLastMessage fails if the conversation does not end where the questions were asked.
func (t *runThread) checkLastMessage(c *replay.Checkpoint) error {
	if n := len(t.conv.past); n == 0 || t.conv.past[n-1].ID != c.Last {
		return Errorf(Conflict, "thread %q has moved on since run %q asked", t.scope.Thread, t.resume.run).
			WithHint("its questions cannot be answered any more; say what is wanted as a new message")
	}
	return nil
}

// continueTurn continues an agent's run after its saved part.
func (t *turn) continueTurn(ctx context.Context, saved *replay.SavedTurn) error {
	switch {
	case saved.Result == nil:
		return t.rounds(ctx)
	case len(saved.Calls) == 0: // the last answer calls nothing
		if saved.Misfit != nil {
			return saved.Misfit
		}
		return t.hookFinish(ctx)
	}
	t.calls.off = saved.Result.FinishReason == chat.FinishMaxRounds // it has called tools all the same
	if err := t.runCalls(ctx, t.savedCalls(saved.Calls)); err != nil {
		return err
	}
	if t.interrupted {
		t.result.FinishReason = chat.FinishInterrupted
		return nil
	}
	if stop, err := t.stopNow(ctx); stop || err != nil {
		return err
	}
	return t.rounds(ctx)
}

// savedCalls returns calls that another run or process began, as their answers
// and outcomes have it.
func (t *turn) savedCalls(open []*replay.OpenCall) []*toolCall {
	parts := make([]*ToolCall, len(open))
	for i, o := range open {
		parts[i] = &ToolCall{ID: o.Part.ID, Name: o.Part.Name, Arguments: o.Part.Arguments}
	}
	calls := t.newCalls(parts)
	for i, o := range open {
		c := calls[i]
		c.attempt.Began = o.Began
		if o.Answer != nil {
			key := c.attempt.IdempotencyKey
			c.applyAnswer(o)
			if t.run.resume.fromClient() { // only the answer can be trusted
				c.admitted, c.key = false, o.Key
				c.attempt.IdempotencyKey, c.attempt.Arguments = key, c.part.Arguments
			}
		}
		switch {
		case o.Done != nil:
			c.restoreOutcome(o.Done)
		case o.Inside != nil:
			c.continueInside(o)
		case o.Answer == nil && o.Nested != nil:
			c.continueInside(o)
			if o.Begun > 0 {
				t.calls.repeatUnfinished(c, o)
			}
		case !c.settled && t.run.journal.continuesRun():
			t.calls.repeatUnfinished(c, o)
		}
	}
	return calls
}

// repeatUnfinished decides about a call that may have begun when the process ended.
func (tc *toolCalls) repeatUnfinished(c *toolCall, o *replay.OpenCall) {
	tool := tc.tools.byName[c.part.Name]
	repeatable := tool != nil && tool.repeatable()
	if repeatable || o.Begun > 0 {
		c.attempt.Attempt = max(c.attempt.Attempt, o.Begun) + 1
	}
	if repeatable || o.Begun == 0 {
		return
	}
	c.settled, c.output = true, &ToolOutput{}
	c.question = tc.newQuestion(c, AskUnknown, "The process ended while this tool ran: it is not known whether it took effect.", nil)
}

// restoreOutcome gives a call the outcome that was written down.
func (c *toolCall) restoreOutcome(d *replay.CallDone) {
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

// continueInside continues a call of an agent where the agent asked, and starts one again
// that has made calls which asked.
func (c *toolCall) continueInside(o *replay.OpenCall) {
	c.attempt.IdempotencyKey, c.attempt.Attempt, c.attempt.Resumed, c.attempt.Began, c.admitted = o.Key, o.Attempt, o.Resumed, o.Began, true
	if len(o.Arguments) > 0 {
		c.attempt.Arguments = o.Arguments
	}
}

// applyAnswer applies an answer to its call.
func (c *toolCall) applyAnswer(o *replay.OpenCall) {
	c.attempt.IdempotencyKey, c.attempt.Attempt, c.attempt.Resumed, c.attempt.Began = o.Key, o.Attempt+1, o.Resumed, o.Began
	c.admitted = true
	a := o.Answer
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
