package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// eventQueue is how many events running tools may be ahead of the reader.
const eventQueue = 64

// toolCall is one call of a batch on its way.
type toolCall struct {
	part     *ToolCall
	attempt  *Call           // of the last attempt
	tell     func(EventData) // sends an event of the host's
	output   *ToolOutput
	err      error
	duration time.Duration

	settled  bool      // has an output without running
	admitted bool      // nobody must be asked about it
	checked  bool      // its arguments
	question *Question // waits for the answer
	message  *Message  // joins the conversation
	open     *openCall // waits for an answer
	replayed bool      // it ran in another process
	key      string    // by which clients know it, if that is not its idempotency key
}

// clientKey names the call in events.
func (c *toolCall) clientKey() string { return cmp.Or(c.key, c.attempt.IdempotencyKey) }

// runTools runs the calls of one answer in parallel and adds their results in
// the order of the calls. Only what must end the run is an error.
func (t *turn) runTools(ctx context.Context, parts []*ToolCall) error {
	if err := t.run.ledger.admitToolCalls(ctx, len(parts)); err != nil {
		return err
	}
	return t.runCalls(ctx, t.newCalls(parts))
}

// runCalls runs the calls that nobody must be asked about.
func (t *turn) runCalls(ctx context.Context, calls []*toolCall) error {
	t.calls.askPersons(ctx, calls)
	for _, c := range calls {
		if c.settled {
			t.calls.concludeCall(ctx, c)
		}
	}
	t.calls.runBatch(ctx, calls)
	if err := t.run.journal.recorder.err(); err != nil {
		return err
	}
	for _, c := range calls {
		t.addResult(c)
	}
	t.addJoined()
	t.run.events.sendState(t.run.state)
	if ctx.Err() != nil {
		return ContextError(ctx)
	}
	if len(t.run.routes.stack) > maxScheduledAgents {
		return Errorf(ResourceExhausted, "tools schedule more than %d agents", maxScheduledAgents)
	}
	return nil
}

func (t *turn) newCalls(parts []*ToolCall) []*toolCall {
	calls, soFar := make([]*toolCall, len(parts)), t.soFar()
	for i, part := range parts {
		calls[i] = &toolCall{part: part, attempt: &Call{
			ID: part.ID, Tool: part.Name, Attempt: 1,
			IdempotencyKey: fmt.Sprintf("%s/%d/%d/%d", t.run.keys, t.run.routes.iterations, t.result.Rounds, i),
			Arguments:      part.Arguments, Scope: t.run.scope, State: t.run.state, SoFar: soFar, limits: t.run.limits, steps: t.run.journal.steps, spent: t.run.ledger.spent, before: t.run.ledger.madeBefore(), earlier: &t.run.services.earlier,
		}}
		if tool := t.calls.toolNamed(part.Name); tool != nil && tool.agent != nil {
			calls[i].attempt.branch = t.branch()
		}
	}
	return calls
}

// parallelCalls is how many calls of the agent's tools may run at once.
func (tc *toolCalls) parallelCalls() int {
	if tc.agent.opts.SerialTools {
		return 1
	}
	return tc.limits.ParallelTools
}

// runBatch runs calls at most parallelCalls at a time, begun in their order, and
// passes on what they emit. It returns when all have an answer.
func (tc *toolCalls) runBatch(ctx context.Context, calls []*toolCall) {
	b := &batch{events: make(chan any, eventQueue), done: make(chan struct{}, len(calls)), over: make(chan struct{})}
	defer close(b.over) // also when the reader panics: no call waits for it then
	waiting, running := slices.DeleteFunc(slices.Clone(calls), func(c *toolCall) bool { return c.settled }), 0
	parallel := tc.parallelCalls()
	for len(waiting) > 0 || running > 0 {
		for len(waiting) > 0 && running < parallel {
			tc.startCall(ctx, b, waiting[0])
			waiting, running = waiting[1:], running+1
		}
		select {
		case ev := <-b.events:
			tc.deliver(b, ev)
		case <-b.done:
			running--
			for len(b.events) > 0 { // its own last ones come before the next call's first
				tc.deliver(b, <-b.events)
			}
		}
	}
}

// deliver sends what a call has said, after what it had changed and made by then.
func (tc *toolCalls) deliver(b *batch, said any) {
	switch said := said.(type) {
	case changed:
		tc.sendChanges(said.revision)
	case made:
		tc.sendArtifacts(said.call)
	case finished:
		tc.sendChanges(math.MaxInt64)
		tc.sendArtifacts(said.call.attempt)
		if said.call.open == nil {
			tc.events.emit(said.call.finished())
		}
	case EventData:
		tc.events.emit(said)
	}
	if len(b.events) == 0 {
		for _, what := range b.takeMissed() {
			tc.deliver(b, what)
		}
	}
}

// What calls say in a batch beside events of their own. That something changed or
// was made is said without waiting: what it was is kept elsewhere, within bounds, so
// that no call and no reader's pace holds up a change.
type (
	changed  struct{ revision int64 } // of the state
	made     struct{ call *Call }     // an artifact
	finished struct{ call *toolCall }
)

// tellChanges sends the changes of the state up to a revision, an event each. Those
// in an agent used as a tool are for the run around it to send.
func (tc *toolCalls) sendChanges(revision int64) {
	if tc.events.caller != nil {
		tc.events.caller.tellChange(revision)
		return
	}
	for _, ops := range tc.state.pending.take(revision) {
		tc.events.emit(&StatePatched{Ops: ops})
	}
}

// tellArtifacts sends the artifacts of a call that have not been sent.
func (tc *toolCalls) sendArtifacts(c *Call) {
	for _, a := range c.takeUntold() {
		tc.events.emit(&ArtifactMade{Artifact: &a})
		if tc.events.caller != nil {
			tc.events.caller.tellArtifact(a)
		}
	}
}

// batch is what the calls of one answer share while they run.
type batch struct {
	events chan any // an [EventData], or one of the types at [turn.deliver]
	done   chan struct{}
	over   chan struct{} // closed when nobody reads events any more

	mu     sync.Mutex
	missed []any // what there was no room to mention: the last change, and a call once
}

// mention says that something changed or was made, if there is room; otherwise it is
// told when the events that wait have been read.
func (b *batch) mention(what any) {
	select {
	case b.events <- what:
		return
	default:
	}
	b.miss(what)
	select {
	case b.events <- what: // the events were read meanwhile, perhaps before it was missed
	default:
	}
}

func (b *batch) miss(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := what.(changed); ok {
		b.missed = slices.DeleteFunc(b.missed, func(m any) bool { _, ok := m.(changed); return ok })
		what = changed{math.MaxInt64}
	}
	if !slices.Contains(b.missed, what) {
		b.missed = append(b.missed, what)
	}
}

func (b *batch) takeMissed() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	missed := b.missed
	b.missed = nil
	return missed
}

// emit is how a tool sends an event.
func (b *batch) emit(ctx context.Context, ev EventData) error {
	select {
	case <-b.over: // first, for there may be room in the queue for ever
		return errCallEnded()
	default:
	}
	select {
	case b.events <- ev:
		return nil
	case <-ctx.Done():
		return ContextError(ctx)
	case <-b.over:
		return errCallEnded()
	}
}

func errCallEnded() error { return Errorf(FailedPrecondition, "the call has ended") }

// tell is how the host sends an event: it is sent after a cancel too.
func (b *batch) tell(ev EventData) { b.say(ev) }

func (b *batch) say(what any) {
	select {
	case b.events <- what:
	case <-b.over:
	}
}

func (tc *toolCalls) startCall(ctx context.Context, b *batch, c *toolCall) {
	c.attempt.emit, c.attempt.mention = func(ev EventData) error { return b.emit(ctx, ev) }, b.mention
	c.tell = b.tell
	tc.events.emit(&ToolStarted{ID: c.part.ID, Key: c.clientKey(), Name: c.part.Name, Arguments: c.part.Arguments, Provider: tc.providerOf(c.part.Name)})
	go func() {
		defer func() {
			if c.output == nil { // a hook left by runtime.Goexit
				c.err = Disclose(Errorf(Internal, "The tool %s failed.", c.part.Name))
				c.finish(tc.events.scope.Run)
				tc.concludeCall(ctx, c)
			}
			b.done <- struct{}{}
		}()
		started := time.Now()
		c.output, c.err = tc.callTool(ctx, c)
		tc.logWithheld(c.part.Name, c.err)
		c.duration = time.Since(started)
		c.finish(tc.events.scope.Run)
		tc.concludeCall(ctx, c)
		c.attempt.release()
		b.say(finished{c})
	}()
}

// callsNone reports whether the model was told to call nothing.
func (tc *toolCalls) callsNone() bool {
	return tc.off || tc.agent.opts.ToolChoice == ToolChoiceNone
}

// tool returns the tool of that name, nil if there is none that may be called: a
// model that was told to call nothing may do so all the same.
func (tc *toolCalls) toolNamed(name string) *Tool {
	if tc.callsNone() {
		return nil
	}
	return tc.tools.byName[name]
}

// callTool finds the tool, checks the arguments, runs the handler and takes
// what it answers.
func (tc *toolCalls) callTool(ctx context.Context, c *toolCall) (*ToolOutput, error) {
	tool := tc.toolNamed(c.part.Name)
	switch {
	case tool == nil && tc.callsNone():
		return nil, Errorf(FailedPrecondition, "No tool may be called here.")
	case tool == nil:
		return nil, Errorf(NotFound, "There is no tool %q; %s.", c.part.Name, toolNames(tc.tools.specs))
	}
	c.attempt.State = tc.state.view(c.attempt.tellChange)
	defer func() { c.attempt.endSteps(); c.attempt.State.endView() }()
	out, err := tc.runCall(ctx, tool, c)
	if err != nil {
		c.attempt.State.takeBack()
	}
	return out, err
}

// runCall is a call of a tool that there is.
func (tc *toolCalls) runCall(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	if !c.checked {
		var err error
		if c.attempt.Arguments, err = tool.arguments(ctx, c.attempt.Arguments, tc.limits.ArgumentBytes); err != nil {
			return nil, err
		}
	}
	out, err := tc.hookToolStart(ctx, tool, c)
	if err != nil {
		return out, err
	}
	if out == nil {
		if err := tc.recordCallBegun(ctx, tool, c); err != nil {
			return nil, err
		}
		started := time.Now()
		out, err = tc.runAttempts(ctx, tool, c)
		out, err = tc.hookToolEnd(ctx, c, time.Since(started), out, err)
	}
	if err == nil { // a part that is nil, say, must not end the process
		err = tc.guardCall(tool.Name, func() error { return tc.applyOutput(c, out) })
	}
	return out, err
}

// The waits between the attempts of a call.
const (
	firstToolWait   = 200 * time.Millisecond
	longestToolWait = 5 * time.Second
)

// runTool runs the handler, again where the tool says so.
func (tc *toolCalls) runAttempts(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	for wait := firstToolWait; ; wait = min(2*wait, longestToolWait) {
		c.attempt.hold(c.attempt.Attempt <= tool.Retries)
		out, timedOut, err := tc.runAttempt(ctx, tool, c.attempt)
		if err == nil || c.attempt.Attempt > tool.Retries || !tool.mayPass(err, timedOut) {
			return out, err
		}
		tc.logWithheld(tool.Name, err)
		c.tell(&ToolRetried{ID: c.part.ID, Name: tool.Name, Attempt: c.attempt.Attempt, Code: CodeOf(err), Reason: toolSentence(err, tc.events.scope.Run)})
		c.attempt.State.takeBack()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return out, err
		}
		c.attempt.endSteps()
		c.attempt.State.endView()
		c.attempt = c.attempt.again()
		c.attempt.State = tc.state.view(c.attempt.tellChange)
	}
}

// mayPass reports whether a failure is one that another attempt may not have.
func (t *Tool) mayPass(err error, timedOut bool) bool {
	if timedOut {
		return t.ReadOnly || t.Idempotent // the last attempt may still be at it
	}
	e := AsError(err)
	return e.Retryable || e.Code == Unavailable
}

// tryTool runs the handler once, within its time.
func (tc *toolCalls) runAttempt(ctx context.Context, tool *Tool, call *Call) (_ *ToolOutput, timedOut bool, _ error) {
	timeout := tc.limits.ToolTimeout
	if tool.agent != nil {
		timeout = tc.limits.RunTimeout
	}
	if tool.Timeout > 0 {
		timeout = min(timeout, tool.Timeout)
	}
	toolCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := tc.awaitHandler(toolCtx, tool, call)
	switch {
	case err == nil || !endedBy(toolCtx, err):
		return out, false, err
	case ctx.Err() != nil:
		return out, false, Errorf(Canceled, "The tool %s was stopped.", tool.Name)
	}
	return out, true, Errorf(DeadlineExceeded, "The tool %s took longer than %s.", tool.Name, timeout)
}

// endedBy reports whether err is likely to be the end of ctx: it is not when the
// tool says something else.
func endedBy(ctx context.Context, err error) bool {
	if ctx.Err() == nil && !overdue(ctx) {
		return false
	}
	code := CodeOf(err)
	return code == Canceled || code == DeadlineExceeded || code == Internal
}

// overdue reports whether ctx's deadline has passed. A tool that looks at the
// clock can know it before the context does.
func overdue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// toolGrace is how long a handler may take to return after its context has
// ended.
const toolGrace = 2 * time.Second

// await runs the handler. One that does not return after its context has ended
// is left behind: it would hold the run, and the thread, for ever.
func (tc *toolCalls) awaitHandler(ctx context.Context, tool *Tool, call *Call) (*ToolOutput, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	answer := make(chan toolAnswer, 1)
	go tc.runHandler(ctx, tool, call, answer)
	select {
	case a := <-answer:
		return a.out, a.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(toolGrace)
	defer grace.Stop()
	select {
	case a := <-answer:
		return a.out, a.err
	case <-grace.C:
		tc.events.logger.Error("tool goes on after its context has ended", "tool", tool.Name, "run", tc.events.scope.Run)
		return nil, ctx.Err()
	}
}

type toolAnswer struct {
	out *ToolOutput
	err error
}

// handle runs the handler in a goroutine of its own, where a panic would end
// the process, and a runtime.Goexit (a test's FailNow) would never answer.
func (tc *toolCalls) runHandler(ctx context.Context, tool *Tool, call *Call, answer chan<- toolAnswer) {
	var a toolAnswer
	defer func() {
		if a.out == nil { // it panicked, or ended its goroutine
			a.err = Disclose(Errorf(Internal, "The tool %s failed.", tool.Name))
		}
		if p := recover(); p != nil {
			tc.events.logger.Error("tool panicked", "tool", tool.Name, "run", tc.events.scope.Run, "panic", p, "stack", string(debug.Stack()))
		}
		answer <- a
	}()
	out, err := tool.handler(ctx, call)
	a = toolAnswer{out.own(), err}
}

// own returns a copy that the host may fill in: a handler or hook may give the
// same output to many calls.
func (o *ToolOutput) own() *ToolOutput {
	if o == nil {
		return &ToolOutput{}
	}
	own := *o
	return &own
}

func toolNames(specs []ToolSpec) string {
	if len(specs) == 0 {
		return "there are none"
	}
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return "the tools are: " + strings.Join(names, ", ")
}

// accept checks an answer and then applies what it does to the state and the
// run: all of it or none.
func (tc *toolCalls) applyOutput(c *toolCall, out *ToolOutput) error {
	if n := len(out.Content); n > tc.limits.ResultBytes {
		return Errorf(ResourceExhausted, "The result of %s is %d bytes, more than the %d that are allowed.", c.part.Name, n, tc.limits.ResultBytes)
	}
	if len(out.Content) == 0 {
		out.Content = jsondoc.Quote(c.part.Name + " successfully executed")
	} else if jsondoc.Check(out.Content) != nil {
		return Errorf(Internal, "The result of %s is not JSON.", c.part.Name)
	}
	if out.Interrupt != nil && tc.events.depth > 0 && tc.clientAnswers {
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
	if err := c.attempt.State.patchSeen(out.State); err != nil {
		return err
	}
	for _, a := range out.Artifacts {
		c.attempt.putArtifact(a)
	}
	return nil
}

func (tc *toolCalls) checkSchedule(c *toolCall, out *ToolOutput) error {
	names := slices.Concat(c.attempt.scheduled(), out.Schedule)
	if len(names) > maxScheduledAgents {
		return Errorf(ResourceExhausted, "The tool %s schedules more than %d agents.", c.part.Name, maxScheduledAgents)
	}
	if name, ok := tc.routes.unknownAgent(names); ok {
		return Errorf(InvalidArgument, "The tool %s schedules the agent %q, which does not exist.", c.part.Name, name)
	}
	return nil
}

// finish makes sure that there is an output: a failure becomes a sentence for
// the model.
func (c *toolCall) finish(run string) {
	if c.err == nil {
		return
	}
	failed := &ToolOutput{Content: jsondoc.Quote(toolSentence(c.err, run))}
	if c.output != nil {
		failed.Cost, failed.Usage = c.output.Cost, c.output.Usage
	}
	c.output = failed
}

func (c *toolCall) finished() *ToolFinished {
	return &ToolFinished{
		ID: c.part.ID, Key: c.clientKey(), Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil,
		DurationUS: c.duration.Microseconds(), Cost: c.output.Cost,
	}
}

// addResult joins one call's result to the conversation and the run.
func (t *turn) addResult(c *toolCall) {
	if c.attempt.branch == nil {
		t.run.ledger.addCost(c.output.Cost)
	} else {
		t.run.ledger.cost.Add(c.output.Cost) // the agent has counted it as it went
	}
	if c.output.Usage != nil {
		t.result.Usage = t.result.Usage.Add(*c.output.Usage)
	}
	if c.err == nil {
		t.run.routes.stack = slices.Concat(t.run.routes.stack, c.attempt.scheduled(), c.output.Schedule)
	}
	for _, a := range c.attempt.made() {
		t.run.ledger.artifacts = putArtifact(t.run.ledger.artifacts, a)
	}
	c.attempt.release()
	t.calls.sendArtifacts(c.attempt)
	if c.open != nil {
		t.interrupt(c)
		return
	}
	if c.settled && !c.replayed {
		t.run.events.emit(c.finished())
	}
	if t.agent.opts.JoinResults {
		t.joined = joinResults(t.joined, c.message)
		return
	}
	t.result.Messages = append(t.result.Messages, c.message)
	t.run.events.emit(&MessageDone{Message: c.message})
}

// addJoined joins the results of a batch to the conversation, where they are one
// message.
func (t *turn) addJoined() {
	if t.joined == nil {
		return
	}
	t.result.Messages = append(t.result.Messages, t.joined)
	t.run.events.emit(&MessageDone{Message: t.joined})
	t.joined = nil
}

// joinResults returns a message of the results of two: one with the id and the time
// of the first.
func joinResults(first, next *Message) *Message {
	if first == nil {
		return next
	}
	m := first.Clone()
	m.Parts = append(m.Parts, next.Parts...)
	return m
}

// conclude makes of a call's output what it leaves, and writes that down.
func (tc *toolCalls) concludeCall(ctx context.Context, c *toolCall) {
	if ask := c.output.Interrupt; ask != nil {
		c.question = tc.newQuestion(c, AskInput, ask.Reason, ask.Data)
	}
	if c.question != nil && c.message == nil && c.open == nil {
		if err := tc.setTerms(ctx, c); err != nil {
			c.question, c.settled, c.err = nil, true, err
			c.attempt.State.takeBack()
			c.finish(tc.events.scope.Run)
		}
	}
	switch {
	case c.message != nil || c.open != nil: // it ran in another process
	case c.output.inside != nil:
		c.open = &openCall{Part: &callPart{c.part.ID, c.part.Name, c.part.Arguments}, Key: c.attempt.IdempotencyKey, Attempt: c.attempt.Attempt, Inside: c.output.inside}
	case c.question != nil:
		attempt := c.attempt.Attempt
		if c.question.Kind == AskApproval || c.question.Kind == AskResult {
			attempt = 0
		}
		c.open = &openCall{Question: c.question, Part: &callPart{c.part.ID, c.part.Name, c.part.Arguments},
			Key: c.clientKey(), Attempt: attempt, Resumed: c.attempt.Resumed}
	default:
		c.message = NewMessage(ToolRole, &ToolResult{ID: c.part.ID, Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil})
		c.message.Agent = tc.agent.name
	}
	tc.recordCallDone(ctx, c)
}

// interrupt leaves the call open and ends the run: a person is asked.
func (t *turn) interrupt(c *toolCall) {
	t.interrupted = true
	t.run.journal.openCalls = append(t.run.journal.openCalls, c.open)
	for _, q := range questionsOf([]*openCall{c.open}) {
		t.run.events.emit(&Interrupted{Question: q, Key: c.clientKey()})
	}
}
