package host

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// A durable run writes down each step when it is done: an answer of a model, the
// outcome of a tool call, a router's decision. The work between two steps
// (instructions, providers, processors, hooks, observers) is done again when the
// run is resumed, and must bear that.

// entry is one step of a run in the journal: State and In beside one of the rest.
type entry struct {
	In    string    `json:"in,omitempty"`    // the key of the call whose agent takes the step
	State []PatchOp `json:"state,omitempty"` // the changes of the state since the last step

	Begin  *beginning  `json:"begin,omitempty"` // the first
	Route  *routeStep  `json:"route,omitempty"`
	Answer *answerStep `json:"answer,omitempty"`
	Call   *callStep   `json:"call,omitempty"`
	Agent  *agentStep  `json:"agent,omitempty"`
	Step   *namedStep  `json:"step,omitempty"`
	End    *endStep    `json:"end,omitempty"`  // before the results are stored
	Left   *checkpoint `json:"left,omitempty"` // the only one of an interrupted run
}

type (
	// beginning is the beginning of a run: a request, or the checkpoint of an
	// interrupted run, with the answers.
	beginning struct {
		V            int                        `json:"v"`
		Input        *Message                   `json:"input,omitempty"`
		Messages     []*Message                 `json:"messages,omitempty"`  // the client's
		Providers    map[string]json.RawMessage `json:"providers,omitempty"` // likewise
		Artifacts    []Artifact                 `json:"artifacts,omitempty"` // likewise
		Instructions string                     `json:"instructions,omitempty"`
		Parameters   map[string]json.RawMessage `json:"model_parameters,omitempty"`
		State        json.RawMessage            `json:"state,omitempty"`
		Foreign      bool                       `json:"foreign,omitempty"` // the state is the client's
		Head         string                     `json:"head,omitempty"`
		History      *loadedStep                `json:"history,omitempty"` // nil if it is to be loaded again
		Branch       string                     `json:"branch,omitempty"`
		From         *checkpoint                `json:"from,omitempty"`
		Answers      []Answer                   `json:"answers,omitempty"`
		Expired      *Question                  `json:"expired,omitempty"` // the question that ends the run
		Stopped      bool                       `json:"stopped,omitempty"` // by the Start hook of the network
	}

	// loadedStep is the history adapter's answer, so that a resumed run does not ask
	// it again.
	loadedStep struct {
		Messages  json.RawMessage            `json:"messages"`
		Providers map[string]json.RawMessage `json:"providers,omitempty"`
	}

	// routeStep is a router's decision. Usage and cost are the run's so far.
	routeStep struct {
		Next   []string `json:"next"`
		Usage  Usage    `json:"usage"`
		Cost   Cost     `json:"cost"`
		Tokens int64    `json:"tokens"`
	}

	// answerStep is a model's answer. Usage is the agent's so far.
	answerStep struct {
		Agent     string          `json:"agent"`
		First     bool            `json:"first,omitempty"`
		CreatedAt time.Time       `json:"created_at"`
		Round     int             `json:"round"`
		Message   *Message        `json:"message"`
		Finish    FinishReason    `json:"finish_reason"`
		Usage     Usage           `json:"usage"`
		Output    json.RawMessage `json:"output,omitempty"`
		Misfit    *Error          `json:"misfit,omitempty"`
		Stack     []string        `json:"stack,omitempty"`   // the agents that wait behind this one
		Service   string          `json:"service,omitempty"` // the conversation that the model's service keeps
		Cost      Cost            `json:"cost"`
		Tokens    int64           `json:"tokens"`
	}

	// callStep is a tool call that begins, or its outcome.
	callStep struct {
		ID      string    `json:"id"`
		Attempt int       `json:"attempt,omitempty"`
		Done    *callDone `json:"done,omitempty"`
	}

	// callDone is the outcome of a call: a message or a question.
	callDone struct {
		Message   *Message   `json:"message,omitempty"`
		Open      *openCall  `json:"open,omitempty"`
		Artifacts []Artifact `json:"artifacts,omitempty"`
		Schedule  []string   `json:"schedule,omitempty"`
		Cost      *Cost      `json:"cost,omitempty"`
		Usage     *Usage     `json:"usage,omitempty"`
		Joined    bool       `json:"joined,omitempty"` // Message is one with those of the answer's other calls
	}

	// agentStep is the end of an agent's run.
	agentStep struct {
		Finish   FinishReason `json:"finish_reason"`
		Messages []*Message   `json:"messages,omitempty"` // if a hook has replaced them
	}

	// namedStep is a [Step] that begins, fails or is done.
	namedStep struct {
		Name   string          `json:"name"`
		Failed bool            `json:"failed,omitempty"`
		Done   bool            `json:"done,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
	}

	// endStep is how a run ends.
	endStep struct {
		Finish FinishReason `json:"finish_reason"`
		Error  *Error       `json:"error,omitempty"`
	}
)

// recorder writes the steps of a run to the journal. A nil recorder is a run that
// is not durable: it writes nothing.
type recorder struct {
	journal Journal
	state   *State
	storing sync.Mutex // held while steps are stored, so that they stay in order

	mu      sync.Mutex
	ref     RunRef
	next    int // how many steps are stored
	waiting []json.RawMessage
	failed  error
}

func newRecorder(state *State, j Journal, ref RunRef, steps int) *recorder {
	return &recorder{journal: j, state: state, ref: ref, next: steps}
}

// noteStep has a step stored with the next commit: it is only needed if another
// step follows.
func (w *recorder) noteStep(e entry) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.State = w.state.view().TakeUnsaved()
	raw, err := json.Marshal(e)
	if err != nil {
		w.keepFailure(Errorf(Internal, "write down a step of run %q: %w", w.ref.Run, err))
		return
	}
	w.waiting = append(w.waiting, raw)
}

// keepFailure keeps the first failure: no step may follow one that was not written
// down.
func (w *recorder) keepFailure(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

func (w *recorder) err() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// commitStep stores a step and those before it. Its context is not canceled with
// the run's: a finished step is written down after a cancel too. Steps of several
// calls at once are stored together.
func (w *recorder) commitStep(ctx context.Context, e entry) error {
	if w == nil {
		return nil
	}
	w.noteStep(e)
	w.storing.Lock()
	defer w.storing.Unlock()
	w.mu.Lock()
	steps, at, ref, err := w.waiting, w.next, w.ref, w.failed
	w.waiting = nil
	w.mu.Unlock()
	if err != nil || len(steps) == 0 {
		return err
	}
	err = w.journal.AppendSteps(context.WithoutCancel(ctx), ref, at, steps)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		failed := Errorf(CodeOf(err), "write down what run %q has done: %w", ref.Run, err)
		w.keepFailure(failed.WithHint("what was written down before is kept: resume the run when the journal works, unless another host has it"))
		return w.failed
	}
	w.next += len(steps)
	return nil
}

// createRecord begins to write a run's steps down.
func (r *run) createRecord(ctx context.Context, begin *beginning) error {
	begin.V, begin.Head, begin.History = checkpointVersion, r.thread.head, r.thread.journaledHistory()
	rec, err := r.journal.newRecord(RunOpen, entry{Begin: begin})
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
	r.journal.startRecording(newRecorder(r.state, j, rec.Ref, 1))
	return nil
}

// beginJournal begins the journal of a durable run.
func (r *run) beginJournal(ctx context.Context) error {
	if !r.durable() {
		return nil
	}
	return r.createRecord(ctx, &beginning{Input: r.conv.input, Messages: r.content.messages, Providers: r.content.providers, Artifacts: r.content.artifacts, Instructions: r.content.instructions, Parameters: r.content.parameters,
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
		reason = FinishStop
	default:
		reason, err = r.loop(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = ContextError(ctx)
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
	step := &answerStep{
		Agent: t.agent.name, First: !t.recorded, CreatedAt: t.result.CreatedAt, Round: t.result.Rounds, Message: answer,
		Finish: t.result.FinishReason, Usage: t.result.Usage, Output: t.result.Output, Misfit: AsError(t.misfit),
		Cost: t.run.ledger.cost, Tokens: t.run.ledger.spent.tokens.Load(),
	}
	if t.run.events.depth == 0 {
		step.Stack, step.Service = t.run.routes.stack, t.run.service.id
	}
	t.recorded = true
	return t.run.journal.recorder.commitStep(ctx, entry{In: t.calls.stepsIn, Answer: step})
}

// recordCallBegun writes down that a call begins which must not happen twice. No
// call begins in a run that cannot record it.
func (tc *toolCalls) recordCallBegun(ctx context.Context, tool *Tool, c *toolCall) error {
	if tc.recorder == nil || tool.repeatable() {
		return tc.recorder.err()
	}
	return tc.recorder.commitStep(ctx, entry{In: tc.stepsIn, Call: &callStep{ID: c.part.ID, Attempt: c.attempt.Attempt}})
}

// repeatable reports whether a call may be made again when its outcome is unknown.
// That of an agent is: its own steps are written down.
func (t *Tool) repeatable() bool { return t.ReadOnly || t.Idempotent || t.agent != nil }

// recordCallDone writes a call's outcome down.
func (tc *toolCalls) recordCallDone(ctx context.Context, c *toolCall) {
	if tc.recorder == nil || c.replayed {
		return
	}
	done := &callDone{Message: c.message, Open: c.open, Artifacts: c.attempt.made(), Cost: c.output.Cost, Usage: c.output.Usage, Joined: tc.agent.opts.JoinResults}
	if c.err == nil {
		done.Schedule = append(c.attempt.scheduled(), c.output.Schedule...)
	}
	step := &callStep{ID: c.part.ID, Attempt: c.attempt.Attempt, Done: done}
	_ = tc.recorder.commitStep(ctx, entry{In: tc.stepsIn, Call: step}) // the recorder keeps the failure
}

// recordEnd notes the end of an agent's run.
func (t *turn) recordEnd(failure error) {
	if t.run.journal.recorder == nil || t.run.events.depth > 0 || failure != nil {
		return
	}
	step := &agentStep{Finish: t.result.FinishReason}
	if t.replaced {
		step.Messages = t.result.Messages
	}
	t.run.journal.recorder.noteStep(entry{Agent: step})
}
