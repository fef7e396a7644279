package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// turn is one agent's run inside a run: rounds of model call and tools until
// the model calls nothing.
type turn struct {
	*run
	agent        *Agent
	model        Model
	instructions string
	provided     []*Message // before history, not stored
	tools        toolSet
	result       *Result
	interrupted  bool
	called       bool  // the first model call has been made
	misfit       error // why the last answer is not the agent's output
	recorded     bool  // an answer is written down
	replaced     bool  // a hook has replaced the messages
}

// resultID names the result of the agent at work.
func (r *run) resultID() string { return fmt.Sprintf("%s/%d", r.keys, r.iterations) }

// runAgent runs an agent; saved has what there is of its run already.
func (r *run) runAgent(ctx context.Context, a *Agent, saved *savedTurn) (*Result, error) {
	r.at = a.name
	t := &turn{run: r, agent: a, model: r.model(a), tools: a.set.current(ctx),
		result: saved.result, called: saved.result != nil, recorded: saved.result != nil}
	if t.result == nil {
		t.result = &Result{ID: r.resultID(), Agent: a.name, CreatedAt: time.Now().UTC(), FinishReason: FinishStop}
	}
	ctx = context.WithValue(ctx, modelKey{}, t.model)
	r.emit(&AgentStarted{Model: t.model.Name()})
	err := r.guard("agent "+strconv.Quote(a.name), func() error {
		if err := t.prepare(ctx); err != nil {
			return err
		}
		return t.goOn(ctx, saved)
	})
	t.observe(ctx, err)
	r.emitState()
	if err != nil {
		t.result.FinishReason = statusOf(err)
	}
	t.recordEnd(err)
	r.emit(&AgentFinished{FinishReason: t.result.FinishReason, Rounds: t.result.Rounds, Usage: t.result.Usage})
	if err != nil && len(t.result.Messages) == 0 {
		return nil, err
	}
	return t.result, err
}

// prepare makes the instructions and lets the context providers speak.
func (t *turn) prepare(ctx context.Context) error {
	var err error
	t.instructions, err = t.agent.instructions(ctx, &InstructionsRequest{Scope: t.scope(), State: t.state, Input: t.input})
	if err != nil {
		return err
	}
	var tools []*Tool
	for _, p := range t.providers() {
		got, err := p.Provide(ctx, t.provideRequest())
		if err != nil {
			return wrapError(err, "provider %q", p.Name())
		}
		if got == nil {
			continue
		}
		t.addCost(got.Cost)
		if err := checkHistory(got.Messages); err != nil {
			return Errorf(Internal, "provider %q: its messages: %w", p.Name(), err)
		}
		if got.Instructions != "" {
			t.instructions = strings.TrimPrefix(t.instructions+"\n"+got.Instructions, "\n")
		}
		for _, m := range got.Messages {
			t.provided = append(t.provided, withIdentity(m, nil))
		}
		tools = append(tools, got.Tools...)
		t.emit(&ProviderRan{Provider: p.Name(), Instructions: got.Instructions != "", Messages: len(got.Messages), Tools: len(got.Tools), Cost: got.Cost})
	}
	if len(tools) > 0 {
		all, err := newToolSet(slices.Concat(t.agent.opts.Tools, tools))
		if err != nil {
			return wrapError(err, "tools of agent %q", t.agent.name)
		}
		t.tools = all.current(ctx)
	}
	if extra := t.req.Instructions; extra != "" {
		t.instructions = strings.TrimPrefix(t.instructions+"\n\n"+extra, "\n\n")
	}
	t.emitState()
	return t.agent.checkToolChoice(t.tools)
}

func (t *turn) providers() []Provider {
	return slices.Concat(t.net.opts.Providers, t.agent.opts.Providers)
}

func (t *turn) provideRequest() *ProvideRequest {
	return &ProvideRequest{Scope: t.scope(), Messages: t.messages(), State: t.state}
}

// observe tells the observers how it went. It has time of its own: a cancelled
// run is something to learn from as well.
func (t *turn) observe(ctx context.Context, failure error) {
	for _, p := range t.providers() {
		o, ok := p.(Observer)
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.limits.ToolTimeout)
		var cost *Cost
		err := t.guard("it", func() (err error) {
			cost, err = o.Observe(ctx, &ObserveRequest{ProvideRequest: *t.provideRequest(), Responses: t.result.Messages, Err: failure})
			return err
		})
		cancel()
		t.addCost(cost)
		if err != nil {
			t.emit(&ProviderRan{Provider: p.Name(), Error: AsError(err), Cost: cost})
		}
	}
}

// rounds is the agent's loop.
func (t *turn) rounds(ctx context.Context) error {
	for {
		answer, err := t.round(ctx)
		if err != nil {
			return err
		}
		if t.interrupted {
			t.result.FinishReason = FinishInterrupted
			return nil
		}
		if answer == nil { // the start hook stopped
			return nil
		}
		if len(answer.ToolCalls()) == 0 && t.result.FinishReason != FinishPaused {
			return t.hookFinish(ctx)
		}
		if stop, err := t.stopNow(ctx); stop || err != nil {
			return err
		}
	}
}

// stopNow reports whether the agent's run ends although the model has called
// tools.
func (t *turn) stopNow(ctx context.Context) (bool, error) {
	if when := t.agent.opts.StopWhen; when != nil {
		soFar := *t.result
		soFar.Messages = slices.Clone(soFar.Messages)
		stop, err := when(ctx, &soFar)
		if err != nil {
			return false, wrapError(err, "stop condition of agent %q", t.agent.name)
		}
		if stop {
			t.result.FinishReason = FinishStop
			return true, t.hookFinish(ctx)
		}
	}
	if t.result.Rounds >= t.maxRounds() {
		t.result.FinishReason = FinishMaxRounds
		return true, t.hookFinish(ctx)
	}
	return false, nil
}

func (t *turn) maxRounds() int {
	if n := t.agent.opts.MaxRounds; n > 0 {
		return min(n, t.limits.MaxRounds)
	}
	return t.limits.MaxRounds
}

// round asks the model once and runs the tools it calls. No answer and no error
// is what the start hook stopped.
func (t *turn) round(ctx context.Context) (*Message, error) {
	if err := t.checkSpent(); err != nil {
		return nil, err
	}
	if err := t.keepRound(ctx); err != nil {
		return nil, err
	}
	messages, stop, err := t.hookStart(ctx, append(t.messages(), t.result.Messages...))
	if stop || err != nil {
		return nil, err
	}
	view, err := t.view(ctx, messages)
	if err != nil {
		return nil, err
	}
	t.result.Rounds++
	req := t.modelRequest(view)
	resp, err := t.generate(ctx, t.model, req, t.result.Rounds, true)
	if err != nil {
		return nil, wrapError(err, "agent %q: model %q", t.agent.name, t.model.Name())
	}
	t.result.Usage = t.result.Usage.Add(resp.Usage)
	if err := t.hookResponse(ctx, resp); err != nil {
		return nil, err
	}
	if err := t.takeOutput(ctx, req, resp); err != nil {
		return nil, err
	}
	t.result.FinishReason = resp.FinishReason
	answer := NewMessage(Assistant, resp.Parts...)
	answer.Agent = t.agent.name
	t.result.Messages = append(t.result.Messages, answer)
	if err := t.recordAnswer(ctx, answer); err != nil {
		return nil, err
	}
	if len(resp.Raw) > 0 {
		t.result.Raw = append(t.result.Raw, resp.Raw)
	}
	t.emit(&MessageDone{Message: answer, Usage: &resp.Usage, Raw: resp.Raw})
	if calls := answer.ToolCalls(); len(calls) > 0 {
		return answer, t.runTools(ctx, calls)
	}
	if len(answer.Parts) == 0 {
		t.host.opts.Logger.Warn("model answered nothing", "model", t.model.Name(), "agent", t.agent.name, "run", t.id)
	}
	return answer, t.misfit
}

// normalCalls makes an answer's calls fit for a history: each has a name and an
// id of its own, and arguments that are JSON. A call that comes twice, with the
// same id and the same words, is one.
func normalCalls(parts []Part) []Part {
	seen := map[string]*ToolCall{}
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		c, ok := p.(*ToolCall)
		if !ok {
			if p = normalPart(p); p != nil {
				out = append(out, p)
			}
			continue
		}
		c = normalCall(c)
		switch twin := seen[c.ID]; {
		case twin == nil:
		case twin.Name == c.Name && bytes.Equal(twin.Arguments, c.Arguments):
			continue
		default: // some servers number every call of an answer alike
			renamed := *c
			renamed.ID = NewID()
			c = &renamed
		}
		seen[c.ID] = c
		out = append(out, c)
	}
	return out
}

// namelessTool stands for the name in a call that has none; a history could not
// be read back without it, and the model is told that there is no such tool.
const namelessTool = "unnamed"

// normalPart quotes data that is not JSON and drops an unknown part that is not:
// either would make the whole answer impossible to store. A tool's result is not
// a model's to give.
func normalPart(p Part) Part {
	switch p := p.(type) {
	case *ToolResult:
		return nil
	case *Data:
		if len(p.Value) > 0 && checkJSON(p.Value) != nil {
			return &Data{Value: jsonString(string(p.Value)), Extra: p.Extra}
		}
	case *Unknown:
		if checkJSON(p.JSON) != nil {
			return nil
		}
	}
	return p
}

// normalCall fills in what a call lacks. Arguments that are not JSON become a
// JSON string, which the model is told about when the tool would run. Bytes that
// are no UTF-8 become U+FFFD, as encoding/json has it.
func normalCall(c *ToolCall) *ToolCall {
	args := bytes.TrimSpace(c.Arguments)
	if c.ID != "" && c.Name != "" && checkJSON(c.Arguments) == nil {
		return c
	}
	fixed := *c
	if fixed.ID == "" {
		fixed.ID = NewID()
	}
	if fixed.Name == "" {
		fixed.Name = namelessTool
	}
	switch repaired := backquotedStrings(args); {
	case len(args) == 0:
		fixed.Arguments = json.RawMessage("{}")
	case checkJSON(args) == nil:
		fixed.Arguments = args // without what is white space to Unicode and not to JSON
	case checkJSON(repaired) == nil:
		fixed.Arguments = repaired
	default:
		fixed.Arguments = jsonString(string(args))
	}
	return &fixed
}

// backquotedStrings makes JSON strings of what stands between backquotes
// outside strings: models that write code write {"code": `x := "y"`}.
func backquotedStrings(args []byte) json.RawMessage {
	out := make([]byte, 0, len(args)+8)
	for i := 0; i < len(args); i++ {
		end := i
		switch args[i] {
		case '"':
			end = stringEnd(args, i)
			out = append(out, args[i:end+1]...)
		case '`':
			n := bytes.IndexByte(args[i+1:], '`')
			if n < 0 {
				return args
			}
			end = i + 1 + n
			out = appendString(out, string(args[i+1:end]))
		default:
			out = append(out, args[i])
		}
		i = end
	}
	return out
}

func (t *turn) modelRequest(view []*Message) *ModelRequest {
	messages := t.withInstructions(t.instructions, t.provided, view)
	if t.agent.opts.Prefill != "" && !t.called {
		messages = append(messages, AssistantText(t.agent.opts.Prefill))
	}
	req := &ModelRequest{
		Messages: messages, Output: t.agent.outputSpec(),
		Tools: t.tools.specs, ProviderTools: t.agent.opts.ProviderTools, ToolChoice: t.agent.opts.ToolChoice, Scope: t.scope(),
		Temperature: t.agent.opts.Temperature, MaxOutputTokens: t.agent.opts.MaxOutputTokens, SerialTools: t.agent.opts.SerialTools,
	}
	if t.called && req.ToolChoice.forces() {
		req.ToolChoice = ToolChoiceAuto
	}
	t.called = true
	return req
}

func (r *run) withInstructions(instructions string, provided, view []*Message) []*Message {
	out := make([]*Message, 0, 1+len(provided)+len(view))
	if instructions != "" {
		out = append(out, &Message{ID: "instructions", Role: System, Parts: []Part{&Text{Text: instructions}}})
	}
	return append(append(out, provided...), view...)
}

// view returns what the model is shown: the conversation through the processors
// of the history, the network and the agent.
func (t *turn) view(ctx context.Context, messages []*Message) ([]*Message, error) {
	var ofHistory []Processor
	if t.history != nil {
		ofHistory = t.history.processors
	}
	return t.process(ctx, t.model.Name(), messages, levels{
		{"history", ofHistory}, {"network", t.net.opts.Processors}, {"agent", t.agent.opts.Processors}})
}

type levels []struct {
	name       string
	processors []Processor
}

// process applies processors level by level, each to what the one before left.
func (r *run) process(ctx context.Context, model string, messages []*Message, levels levels) ([]*Message, error) {
	for _, level := range levels {
		for _, p := range level.processors {
			out, err := r.applyProcessor(ctx, p, level.name, model, messages)
			if err != nil {
				return nil, err
			}
			messages = out
		}
	}
	return messages, nil
}

func (r *run) applyProcessor(ctx context.Context, p Processor, level, model string, messages []*Message) ([]*Message, error) {
	view := &View{Scope: r.scope(), Model: model, Messages: messages, counter: r.host.opts.Tokens}
	if r.input != nil {
		view.Input = r.input.ID
	}
	ev := &ProcessorRan{Processor: p.Name(), Level: level, MessagesBefore: len(messages)}
	out, done, err := Process(ctx, p, view)
	if err != nil {
		_, optional := p.(optionalProcessor)
		if !optional || ctx.Err() != nil {
			ev.Error, ev.MessagesAfter, ev.TokensBefore, ev.TokensAfter = AsError(err), len(messages), -1, -1
			r.emit(ev)
			return nil, wrapError(err, "processor %q", p.Name())
		}
		out, done, ev.Skipped = messages, &Processed{}, AsError(err)
	}
	r.addCost(done.Cost)
	ev.MessagesAfter, ev.Report, ev.Cost = len(out), done.Report, done.Cost
	ev.Changed = !slices.Equal(messages, out)
	ev.TokensBefore, ev.Approximate = r.countView(ctx, model, messages)
	ev.TokensAfter = ev.TokensBefore
	if ev.Changed {
		ev.TokensAfter, _ = r.countView(ctx, model, out)
	}
	r.emit(ev)
	return out, nil
}

// countView returns a view's tokens, -1 if they cannot be counted.
func (r *run) countView(ctx context.Context, model string, messages []*Message) (n int, approximate bool) {
	counter := r.host.opts.Tokens
	if counter == nil {
		return -1, false
	}
	encoding, exact := counter.EncodingFor(model)
	for _, m := range messages {
		c, err := m.countTokens(ctx, counter, encoding)
		if err != nil {
			return -1, false
		}
		n += c
	}
	return n, !exact
}

// generate sends one request to a model and passes its deltas on.
func (r *run) generate(ctx context.Context, model Model, req *ModelRequest, round int, show bool) (*ModelResponse, error) {
	if err := r.askable(ctx, model); err != nil {
		return nil, err
	}
	r.emit(&ModelCalled{Model: model.Name(), Round: round, Messages: len(req.Messages), Tools: len(req.Tools)})
	var resp *ModelResponse
	bytes := 0
	for chunk, err := range model.Generate(ctx, req) {
		if err != nil {
			return nil, err
		}
		bytes += r.pass(&chunk, show)
		if chunk.Response != nil {
			resp = chunk.Response
		} else if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if bytes > r.limits.ResponseBytes {
			return nil, answerTooLong(r.limits)
		}
	}
	if resp == nil {
		return nil, errNoAnswer()
	}
	own, err := r.checkAnswer(req, resp)
	if err == nil {
		r.useTokens(own.Usage)
	}
	return own, err
}

// checkAnswer returns an answer of our own, complete and within the limits. The
// model's is left alone: it may be one that it gives to many.
func (r *run) checkAnswer(req *ModelRequest, resp *ModelResponse) (*ModelResponse, error) {
	calls, size := 0, 0
	for _, p := range resp.Parts {
		switch p := p.(type) {
		case nil:
			return nil, Errorf(Internal, "answer has a part that is nil")
		case *ToolCall:
			calls++
			size += len(p.Arguments)
		case *Text:
			size += len(p.Text)
		case *Reasoning:
			size += len(p.Text) + len(p.Signature)
		case *Unknown:
			size += len(p.JSON)
		}
		for _, m := range p.extra() {
			size += len(m.Value)
		}
	}
	if calls > maxToolCallsPerAnswer {
		return nil, Errorf(ResourceExhausted, "answer calls %d tools, more than %d", calls, maxToolCallsPerAnswer)
	}
	if size > r.limits.ResponseBytes {
		return nil, answerTooLong(r.limits)
	}
	own := *resp
	own.Parts = normalCalls(resp.Parts)
	if own.Usage == (Usage{}) {
		own.Usage = estimateUsage(req, resp)
	}
	if own.FinishReason == "" {
		own.FinishReason = FinishStop
	}
	return &own, nil
}

func answerTooLong(l Limits) error {
	return Errorf(ResourceExhausted, "answer is longer than the limit ResponseBytes of %d", l.ResponseBytes)
}

// pass shows a delta to the reader and returns its size.
func (r *run) pass(chunk *ModelChunk, show bool) int {
	n := len(chunk.Text) + len(chunk.Reasoning)
	if chunk.Retry != nil {
		r.emit(&ModelRetried{Attempt: chunk.Retry.Attempt, Code: chunk.Retry.Code, Reason: chunk.Retry.Reason})
	}
	if f := chunk.Fallback; f != nil {
		r.emit(&ModelFellBack{From: f.From, To: f.To, Code: f.Code, Reason: f.Reason})
	}
	if chunk.ToolCall != nil {
		n += len(chunk.ToolCall.Arguments)
	}
	if !show {
		return n
	}
	if chunk.Reasoning != "" {
		r.emit(&ReasoningDelta{Text: chunk.Reasoning})
	}
	if chunk.Text != "" {
		r.emit(&TextDelta{Text: chunk.Text})
	}
	if chunk.ToolCall != nil {
		r.emit(chunk.ToolCall)
	}
	return n
}

// bytesPerToken is a rough rule for models that do not say what they used.
const bytesPerToken = 4

func estimateUsage(req *ModelRequest, resp *ModelResponse) Usage {
	in, out := 0, 0
	for _, m := range req.Messages {
		n, _ := m.Size()
		in += n
	}
	for _, t := range req.Tools {
		in += len(t.Parameters) + len(t.Description)
	}
	for _, t := range req.ProviderTools {
		in += len(t.Declaration)
	}
	out, _ = (&Message{Parts: resp.Parts}).Size()
	return Usage{InputTokens: in / bytesPerToken, OutputTokens: out / bytesPerToken, Estimated: true}
}

// askRouter is how a model router asks: with the router's model, or the run's.
func (r *run) askRouter(ctx context.Context, m *modelRouter, req *ModelRequest, instructions string, view []*Message) (*ModelResponse, error) {
	model := m.opts.Model
	if model == nil {
		model = r.routingModel()
	}
	if model == nil {
		return nil, errNoRoutingModel(m.name)
	}
	if err := r.checkSpent(); err != nil {
		return nil, err
	}
	view, err := r.process(ctx, model.Name(), view, levels{{"router", m.opts.Processors}})
	if err != nil {
		return nil, err
	}
	req.Messages = r.withInstructions(instructions, nil, view)
	resp, err := r.generate(ctx, model, req, 1, false)
	if err != nil {
		return nil, wrapError(err, "model %q", model.Name())
	}
	r.usage = r.usage.Add(resp.Usage)
	r.askedToRoute = true
	return resp, nil
}

func errNoRoutingModel(router string) error {
	return Errorf(InvalidArgument, "model router %q has no model", router).
		WithHint("set one on the router, the network, the host or the request")
}

// routingModel returns the model that routers ask when they have none.
func (r *run) routingModel() Model {
	for _, m := range []Model{r.req.Model, r.net.opts.Model, r.host.opts.Model} {
		if m != nil {
			return m
		}
	}
	return nil
}
