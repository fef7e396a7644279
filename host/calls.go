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
	part   *ToolCall
	call   *Call           // of the last attempt
	tell   func(EventData) // sends an event of the host's
	output *ToolOutput
	err    error
	took   time.Duration

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
func (c *toolCall) clientKey() string { return cmp.Or(c.key, c.call.IdempotencyKey) }

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
	t.admit(ctx, calls)
	for _, c := range calls {
		if c.settled {
			t.conclude(ctx, c)
		}
	}
	t.runBatch(ctx, calls)
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
		calls[i] = &toolCall{part: part, call: &Call{
			ID: part.ID, Tool: part.Name, Attempt: 1,
			IdempotencyKey: fmt.Sprintf("%s/%d/%d/%d", t.run.keys, t.run.routes.iterations, t.result.Rounds, i),
			Arguments:      part.Arguments, Scope: t.run.scope, State: t.run.state, SoFar: soFar, limits: t.run.limits, steps: t.run.journal.steps, spent: t.run.ledger.spent, before: t.run.ledger.madeBefore(), earlier: &t.run.services.earlier,
		}}
		if tool := t.tool(part.Name); tool != nil && tool.agent != nil {
			calls[i].call.branch = t.branch()
		}
	}
	return calls
}

// parallelCalls is how many calls of the agent's tools may run at once.
func (t *turn) parallelCalls() int {
	if t.agent.opts.SerialTools {
		return 1
	}
	return t.run.limits.ParallelTools
}

// runBatch runs calls at most parallelCalls at a time, begun in their order, and
// passes on what they emit. It returns when all have an answer.
func (t *turn) runBatch(ctx context.Context, calls []*toolCall) {
	b := &batch{events: make(chan any, eventQueue), done: make(chan struct{}, len(calls)), over: make(chan struct{})}
	defer close(b.over) // also when the reader panics: no call waits for it then
	waiting, running := slices.DeleteFunc(slices.Clone(calls), func(c *toolCall) bool { return c.settled }), 0
	parallel := t.parallelCalls()
	for len(waiting) > 0 || running > 0 {
		for len(waiting) > 0 && running < parallel {
			t.startCall(ctx, b, waiting[0])
			waiting, running = waiting[1:], running+1
		}
		select {
		case ev := <-b.events:
			t.deliver(b, ev)
		case <-b.done:
			running--
			for len(b.events) > 0 { // its own last ones come before the next call's first
				t.deliver(b, <-b.events)
			}
		}
	}
}

// deliver sends what a call has said, after what it had changed and made by then.
func (t *turn) deliver(b *batch, said any) {
	switch said := said.(type) {
	case changed:
		t.tellChanges(said.revision)
	case made:
		t.tellArtifacts(said.call)
	case finished:
		t.tellChanges(math.MaxInt64)
		t.tellArtifacts(said.call.call)
		if said.call.open == nil {
			t.run.events.emit(said.call.finished())
		}
	case EventData:
		t.run.events.emit(said)
	}
	if len(b.events) == 0 {
		for _, what := range b.takeMissed() {
			t.deliver(b, what)
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
func (t *turn) tellChanges(revision int64) {
	if t.run.events.caller != nil {
		t.run.events.caller.tellChange(revision)
		return
	}
	for _, ops := range t.run.state.pending.take(revision) {
		t.run.events.emit(&StatePatched{Ops: ops})
	}
}

// tellArtifacts sends the artifacts of a call that have not been sent.
func (t *turn) tellArtifacts(c *Call) {
	for _, a := range c.takeUntold() {
		t.run.events.emit(&ArtifactMade{Artifact: &a})
		if t.run.events.caller != nil {
			t.run.events.caller.tellArtifact(a)
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

func (t *turn) startCall(ctx context.Context, b *batch, c *toolCall) {
	c.call.emit, c.call.mention = func(ev EventData) error { return b.emit(ctx, ev) }, b.mention
	c.tell = b.tell
	t.run.events.emit(&ToolStarted{ID: c.part.ID, Key: c.clientKey(), Name: c.part.Name, Arguments: c.part.Arguments, Provider: t.providerOf(c.part.Name)})
	go func() {
		defer func() {
			if c.output == nil { // a hook left by runtime.Goexit
				c.err = Disclose(Errorf(Internal, "The tool %s failed.", c.part.Name))
				c.finish(t.run.scope.Run)
				t.conclude(ctx, c)
			}
			b.done <- struct{}{}
		}()
		started := time.Now()
		c.output, c.err = t.callTool(ctx, c)
		t.logWithheld(c.part.Name, c.err)
		c.took = time.Since(started)
		c.finish(t.run.scope.Run)
		t.conclude(ctx, c)
		c.call.release()
		b.say(finished{c})
	}()
}

// callsNone reports whether the model was told to call nothing.
func (t *turn) callsNone() bool { return t.toolsOff || t.agent.opts.ToolChoice == ToolChoiceNone }

// tool returns the tool of that name, nil if there is none that may be called: a
// model that was told to call nothing may do so all the same.
func (t *turn) tool(name string) *Tool {
	if t.callsNone() {
		return nil
	}
	return t.tools.byName[name]
}

// callTool finds the tool, checks the arguments, runs the handler and takes
// what it answers.
func (t *turn) callTool(ctx context.Context, c *toolCall) (*ToolOutput, error) {
	tool := t.tool(c.part.Name)
	switch {
	case tool == nil && t.callsNone():
		return nil, Errorf(FailedPrecondition, "No tool may be called here.")
	case tool == nil:
		return nil, Errorf(NotFound, "There is no tool %q; %s.", c.part.Name, toolNames(t.tools.specs))
	}
	c.call.State = t.run.state.view(c.call.tellChange)
	defer func() { c.call.endSteps(); c.call.State.endView() }()
	out, err := t.runCall(ctx, tool, c)
	if err != nil {
		c.call.State.takeBack()
	}
	return out, err
}

// runCall is a call of a tool that there is.
func (t *turn) runCall(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	if !c.checked {
		var err error
		if c.call.Arguments, err = tool.arguments(ctx, c.call.Arguments, t.run.limits.ArgumentBytes); err != nil {
			return nil, err
		}
	}
	out, err := t.hookToolStart(ctx, tool, c)
	if err != nil {
		return out, err
	}
	if out == nil {
		if err := t.recordBegun(ctx, tool, c); err != nil {
			return nil, err
		}
		started := time.Now()
		out, err = t.runTool(ctx, tool, c)
		out, err = t.hookToolEnd(ctx, c, time.Since(started), out, err)
	}
	if err == nil { // a part that is nil, say, must not end the process
		err = t.guarded(tool.Name, func() error { return t.accept(c, out) })
	}
	return out, err
}

// The waits between the attempts of a call.
const (
	firstToolWait   = 200 * time.Millisecond
	longestToolWait = 5 * time.Second
)

// runTool runs the handler, again where the tool says so.
func (t *turn) runTool(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	for wait := firstToolWait; ; wait = min(2*wait, longestToolWait) {
		c.call.hold(c.call.Attempt <= tool.Retries)
		out, timedOut, err := t.tryTool(ctx, tool, c.call)
		if err == nil || c.call.Attempt > tool.Retries || !tool.mayPass(err, timedOut) {
			return out, err
		}
		t.logWithheld(tool.Name, err)
		c.tell(&ToolRetried{ID: c.part.ID, Name: tool.Name, Attempt: c.call.Attempt, Code: CodeOf(err), Reason: toolSentence(err, t.run.scope.Run)})
		c.call.State.takeBack()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return out, err
		}
		c.call.endSteps()
		c.call.State.endView()
		c.call = c.call.again()
		c.call.State = t.run.state.view(c.call.tellChange)
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
func (t *turn) tryTool(ctx context.Context, tool *Tool, call *Call) (_ *ToolOutput, timedOut bool, _ error) {
	timeout := t.run.limits.ToolTimeout
	if tool.agent != nil {
		timeout = t.run.limits.RunTimeout
	}
	if tool.Timeout > 0 {
		timeout = min(timeout, tool.Timeout)
	}
	toolCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := t.await(toolCtx, tool, call)
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
func (t *turn) await(ctx context.Context, tool *Tool, call *Call) (*ToolOutput, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	answer := make(chan toolAnswer, 1)
	go t.handle(ctx, tool, call, answer)
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
		t.run.host.opts.Logger.Error("tool goes on after its context has ended", "tool", tool.Name, "run", t.run.scope.Run)
		return nil, ctx.Err()
	}
}

type toolAnswer struct {
	out *ToolOutput
	err error
}

// handle runs the handler in a goroutine of its own, where a panic would end
// the process, and a runtime.Goexit (a test's FailNow) would never answer.
func (t *turn) handle(ctx context.Context, tool *Tool, call *Call, answer chan<- toolAnswer) {
	var a toolAnswer
	defer func() {
		if a.out == nil { // it panicked, or ended its goroutine
			a.err = Disclose(Errorf(Internal, "The tool %s failed.", tool.Name))
		}
		if p := recover(); p != nil {
			t.run.host.opts.Logger.Error("tool panicked", "tool", tool.Name, "run", t.run.scope.Run, "panic", p, "stack", string(debug.Stack()))
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
func (t *turn) accept(c *toolCall, out *ToolOutput) error {
	if n := len(out.Content); n > t.run.limits.ResultBytes {
		return Errorf(ResourceExhausted, "The result of %s is %d bytes, more than the %d that are allowed.", c.part.Name, n, t.run.limits.ResultBytes)
	}
	if len(out.Content) == 0 {
		out.Content = jsondoc.Quote(c.part.Name + " successfully executed")
	} else if jsondoc.Check(out.Content) != nil {
		return Errorf(Internal, "The result of %s is not JSON.", c.part.Name)
	}
	if out.Interrupt != nil && t.run.events.depth > 0 && t.run.asksClient() {
		return Errorf(FailedPrecondition, "The tool %s cannot ask a person here.", c.part.Name)
	}
	if ask := out.Interrupt; ask != nil && len(ask.Data) > 0 && jsondoc.Check(ask.Data) != nil {
		return Errorf(Internal, "What %s asks a person is not JSON.", c.part.Name)
	}
	if err := t.checkSchedule(c, out); err != nil {
		return err
	}
	for i := range out.Artifacts {
		if err := c.call.checkArtifact(&out.Artifacts[i]); err != nil {
			return err
		}
	}
	if err := c.call.State.patchSeen(out.State); err != nil {
		return err
	}
	for _, a := range out.Artifacts {
		c.call.putArtifact(a)
	}
	return nil
}

func (t *turn) checkSchedule(c *toolCall, out *ToolOutput) error {
	names := slices.Concat(c.call.scheduled(), out.Schedule)
	if len(names) > maxScheduledAgents {
		return Errorf(ResourceExhausted, "The tool %s schedules more than %d agents.", c.part.Name, maxScheduledAgents)
	}
	if name, ok := t.run.routes.unknownAgent(names); ok {
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
		DurationUS: c.took.Microseconds(), Cost: c.output.Cost,
	}
}

// addResult joins one call's result to the conversation and the run.
func (t *turn) addResult(c *toolCall) {
	if c.call.branch == nil {
		t.run.ledger.addCost(c.output.Cost)
	} else {
		t.run.ledger.cost.Add(c.output.Cost) // the agent has counted it as it went
	}
	if c.output.Usage != nil {
		t.result.Usage = t.result.Usage.Add(*c.output.Usage)
	}
	if c.err == nil {
		t.run.routes.stack = slices.Concat(t.run.routes.stack, c.call.scheduled(), c.output.Schedule)
	}
	for _, a := range c.call.made() {
		t.run.ledger.artifacts = putArtifact(t.run.ledger.artifacts, a)
	}
	c.call.release()
	t.tellArtifacts(c.call)
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
func (t *turn) conclude(ctx context.Context, c *toolCall) {
	if ask := c.output.Interrupt; ask != nil {
		c.question = t.question(c, AskInput, ask.Reason, ask.Data)
	}
	if c.question != nil && c.message == nil && c.open == nil {
		if err := t.setTerms(ctx, c); err != nil {
			c.question, c.settled, c.err = nil, true, err
			c.call.State.takeBack()
			c.finish(t.run.scope.Run)
		}
	}
	switch {
	case c.message != nil || c.open != nil: // it ran in another process
	case c.output.inside != nil:
		c.open = &openCall{Part: &callPart{c.part.ID, c.part.Name, c.part.Arguments}, Key: c.call.IdempotencyKey, Attempt: c.call.Attempt, Inside: c.output.inside}
	case c.question != nil:
		attempt := c.call.Attempt
		if c.question.Kind == AskApproval || c.question.Kind == AskResult {
			attempt = 0
		}
		c.open = &openCall{Question: c.question, Part: &callPart{c.part.ID, c.part.Name, c.part.Arguments},
			Key: c.clientKey(), Attempt: attempt, Resumed: c.call.Resumed}
	default:
		c.message = NewMessage(ToolRole, &ToolResult{ID: c.part.ID, Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil})
		c.message.Agent = t.agent.name
	}
	t.recordDone(ctx, c)
}

// interrupt leaves the call open and ends the run: a person is asked.
func (t *turn) interrupt(c *toolCall) {
	t.interrupted = true
	t.run.journal.openCalls = append(t.run.journal.openCalls, c.open)
	for _, q := range questionsOf([]*openCall{c.open}) {
		t.run.events.emit(&Interrupted{Question: q, Key: c.clientKey()})
	}
}
