package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modelcall"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// turn is one agent's run inside a run: rounds of model call and tools until
// the model calls nothing.
type turn struct {
	run              *run
	agent            *Agent
	model            Model
	prompt           prompt
	client           *clientTerms
	modelParams      Parameters
	calls            toolCalls
	providers        turnProviders
	providerMessages int // how many messages of the result are providers'
	result           *Result
	interrupted      bool
	called           bool     // the first model call has been made
	misfit           error    // why the last answer is not the agent's output
	recorded         bool     // an answer is written down
	replaced         bool     // a hook has replaced the messages
	joined           *Message // the results of a batch so far, where they are one message
}

// resultID names the result of the agent at work.
func (r *run) resultID() string { return fmt.Sprintf("%s/%d", r.keyPrefix, r.routes.iterations) }

// runTurn is the run of an agent.
func (r *run) runTurn(ctx context.Context, a *Agent, saved *replay.SavedTurn) (*Result, error) {
	stepsIn := "" // the run's own
	if r.events.Depth > 0 {
		stepsIn = r.keyPrefix
	}
	t := &turn{run: r, agent: a, client: r.content.clientTermsAt(r.events.Depth), model: r.models.forAgent(a),
		providers: turnProviders{run: r, list: ownedProviders(r.net, a)}, result: saved.Result, called: saved.Result != nil, recorded: saved.Result != nil,
		calls: toolCalls{agent: a, tools: a.set.current(ctx), host: r.host, net: r.net, state: r.state, limits: r.limits, events: &r.events,
			routes: &r.routes, ledger: &r.ledger, recorder: r.journal.recorder, nested: r.journal.nested, stepsIn: stepsIn, clientAnswers: r.journal.clientAnswers, unstored: r.content.client.unstored()}}
	t.calls.turn = t
	if t.result == nil {
		t.result = &Result{ID: r.resultID(), Agent: a.name, CreatedAt: time.Now().UTC(), FinishReason: chat.FinishStop}
	}
	ctx = context.WithValue(ctx, modelKey{}, t.model)
	r.events.Emit(&runevent.AgentStarted{Model: t.model.Name(), Result: r.resultID()})
	err := r.events.Guard(ctx, "agent "+strconv.Quote(a.name), func() error {
		if err := t.prepare(ctx, saved); err != nil {
			return err
		}
		return t.continueTurn(ctx, saved)
	})
	t.providers.observe(ctx, t.responses(), err)
	r.events.SendState(r.state.view())
	if err != nil {
		t.result.FinishReason = statusOf(err)
	}
	t.recordEnd(err)
	r.events.Emit(&runevent.AgentFinished{FinishReason: t.result.FinishReason, Rounds: t.result.Rounds, Limit: t.result.Limit, Usage: t.result.Usage})
	if err != nil && len(t.result.Messages) <= t.providerMessages {
		r.ledger.Usage = r.ledger.Usage.Add(t.result.Usage) // there is no result to count it in
		return nil, err
	}
	return t.result, err
}

// prepare makes the instructions and lets the context providers speak.
func (t *turn) prepare(ctx context.Context, saved *replay.SavedTurn) error {
	var err error
	t.prompt.instructions, err = t.agent.instructions(ctx, &InstructionsRequest{Scope: t.run.scope, State: t.run.state, Input: t.run.conv.input, SoFar: t.soFar()})
	if err != nil {
		return err
	}
	if t.modelParams, err = t.parameters(); err != nil {
		return err
	}
	added, err := t.providers.provideAll(ctx, t.prompt.instructions)
	if err != nil {
		return err
	}
	t.prompt.instructions = added.instructions
	if saved.Result == nil || t.run.journal.continuesRun() { // otherwise they are stored already
		t.result.Messages = append(added.stored, t.result.Messages...)
		t.providerMessages = len(added.stored)
	}
	if len(t.client.tools)+len(added.tools) > 0 {
		all, err := newToolSet(slices.Concat(t.agent.opts.Tools, t.client.tools, added.tools))
		if err != nil {
			return wrapError(err, "tools of agent %q", t.agent.name)
		}
		t.calls.tools = all.current(ctx)
	}
	if extra := t.run.content.instructions; extra != "" {
		t.prompt.instructions = strings.TrimPrefix(t.prompt.instructions+"\n\n"+extra, "\n\n")
	}
	t.run.events.SendState(t.run.state.view())
	return t.agent.checkToolChoice(t.calls.tools)
}

// responses are the agent's answers and its tools' results.
func (t *turn) responses() []*Message {
	if t.replaced { // a hook has made others of them
		return t.result.Messages
	}
	return t.result.Messages[min(t.providerMessages, len(t.result.Messages)):]
}

// rounds is the agent's loop.
func (t *turn) rounds(ctx context.Context) error {
	for {
		answer, err := t.round(ctx)
		if err != nil {
			return err
		}
		if t.interrupted {
			t.result.FinishReason = chat.FinishInterrupted
			return nil
		}
		if answer == nil { // the start hook stopped
			return nil
		}
		if len(answer.ToolCalls()) == 0 && t.result.FinishReason != chat.FinishPaused {
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
			t.result.FinishReason = chat.FinishStop
			return true, t.hookFinish(ctx)
		}
	}
	if limit := t.reachedLimit(); limit != nil {
		if !limit.ofAgent {
			t.result.Limit = limit.name
		}
		return true, t.endRounds(ctx, limit)
	}
	return false, nil
}

// roundsLimit is a limit at which an agent's rounds end.
type roundsLimit struct {
	name    string
	of      int
	notice  string // to the model
	ofAgent bool   // the agent's, and not the host's
}

// reachedLimit returns the limit that the agent's run has reached, or nil.
func (t *turn) reachedLimit() *roundsLimit {
	of, own := t.run.limits.MaxRounds, false
	if n := t.agent.opts.MaxRounds; n > 0 && n <= of {
		of, own = n, true
	}
	if t.result.Rounds >= of {
		return &roundsLimit{name: "MaxRounds", of: of, notice: "You have used your tools as often as you may.", ofAgent: own}
	}
	if of := t.run.limits.MaxConsecutiveToolFailures; t.result.FailedAnswers() >= of {
		return &roundsLimit{name: "MaxConsecutiveToolFailures", of: of, notice: "Your tools have failed too often in a row.", ofAgent: false}
	}
	return nil
}

// endRounds ends the agent's run at a limit, in the way that its author chose.
func (t *turn) endRounds(ctx context.Context, limit *roundsLimit) error {
	way := t.agent.opts.OnMaxRounds
	if way == "" {
		if way = AnswerAtMaxRounds; limit.ofAgent {
			way = StopAtMaxRounds
		}
	}
	if way == FailAtMaxRounds {
		e := Errorf(ResourceExhausted, "agent %q has come to the limit %s of %d", t.agent.name, limit.name, limit.of)
		e.Limit = limit.name
		return e
	}
	t.result.FinishReason = chat.FinishMaxRounds
	if way == AnswerAtMaxRounds && !t.calls.off {
		if done, err := t.answerWithoutTools(ctx, limit); done || err != nil {
			return err
		}
	}
	return t.hookFinish(ctx)
}

// answerWithoutTools asks the model a last time, without tools. done says that the
// start hook stopped it.
func (t *turn) answerWithoutTools(ctx context.Context, limit *roundsLimit) (done bool, err error) {
	t.calls.off = true
	t.prompt.closing = "\n\n" + limit.notice + " Answer now with what you have, and say what is missing."
	answer, err := t.round(ctx)
	t.result.FinishReason = chat.FinishMaxRounds
	return answer == nil, err
}

// round asks the model once and runs the tools it calls. No answer and no error
// means that the start hook stopped the call.
func (t *turn) round(ctx context.Context) (*Message, error) {
	if err := t.run.ledger.CheckLeft(); err != nil {
		return nil, err
	}
	if err := t.storeRound(ctx); err != nil {
		return nil, err
	}
	messages, stop, err := t.hookStart(ctx, t.run.service.unsent(append(t.run.conv.messages(), t.result.Messages...)))
	if stop || err != nil {
		return nil, err
	}
	view, err := t.view(ctx, messages)
	if err != nil {
		return nil, err
	}
	t.result.Rounds++
	req := t.modelRequest(ctx, view)
	resp, err := t.run.asks.Generate(ctx, t.model, req, t.result.Rounds, true)
	if err != nil {
		return nil, wrapError(err, "agent %q: model %q", t.agent.name, t.model.Name())
	}
	t.result.Usage = t.result.Usage.Add(resp.Usage)
	if err := t.noteConversation(ctx, resp); err != nil {
		return nil, err
	}
	if err := t.hookResponse(ctx, resp); err != nil {
		return nil, err
	}
	if err := t.takeOutput(ctx, req, resp); err != nil {
		return nil, err
	}
	if t.result.FinishReason = resp.FinishReason; t.calls.off {
		t.result.FinishReason = chat.FinishMaxRounds
	}
	answer := NewMessage(Assistant, resp.Parts...)
	answer.Agent = t.agent.name
	t.result.Messages = append(t.result.Messages, answer)
	if t.run.events.Depth == 0 {
		t.run.service.noteStored(answer)
	}
	if err := t.recordAnswer(ctx, answer); err != nil {
		return nil, err
	}
	if len(resp.Raw) > 0 {
		t.result.Raw = append(t.result.Raw, resp.Raw)
	}
	t.run.events.Emit(&runevent.MessageDone{Message: answer, Usage: &resp.Usage, Raw: resp.Raw})
	if calls := answer.ToolCalls(); len(calls) > 0 {
		if err := t.run.ledger.AdmitToolCalls(ctx, len(calls)); err != nil {
			return answer, err
		}
		return answer, t.runCalls(ctx, t.newCalls(calls))
	}
	if len(answer.Parts) == 0 {
		t.run.events.Log(ctx, slog.LevelWarn, "model answered nothing", "model", t.model.Name(), "agent", t.agent.name)
	}
	return answer, t.misfit
}

func (t *turn) modelRequest(ctx context.Context, view []*Message) *llm.Request {
	messages := withSystem(t.prompt.system(), t.withProvided(view))
	if t.run.service.id == "" { // or the calls are where the conversation is kept
		messages = t.run.asks.WithoutOrphans(ctx, messages)
	}
	if t.agent.opts.Prefill != "" && !t.called {
		messages = append(messages, AssistantText(t.agent.opts.Prefill))
	}
	offered := t.calls.tools.specs
	if hidden := t.calls.tools.hidden; len(hidden) > 0 { // a search finds them
		offered = llm.WithFound(offered, hidden, t.run.conv.messages(), t.result.Messages)
	}
	req := &llm.Request{
		Messages: messages, Output: t.agent.outputSpec(),
		Tools: offered, ProviderTools: t.agent.opts.ProviderTools, ToolChoice: t.agent.opts.ToolChoice, Scope: t.run.scope,
		Temperature: t.agent.opts.Temperature, MaxOutputTokens: t.agent.opts.MaxOutputTokens, SerialTools: t.agent.opts.SerialTools,
		Conversation: t.run.service.id, Parameters: t.modelParams,
	}
	t.client.applyTo(req, !t.called && t.run.routes.iterations == 0)
	if t.called && req.ToolChoice.Forces() {
		req.ToolChoice = ToolChoiceAuto
	}
	if t.called = true; t.calls.off {
		req.ToolChoice, req.ProviderTools = ToolChoiceNone, nil
	}
	return req
}

// providerOf returns the context provider that has added a tool, "" if none has.
func (tc *toolCalls) providerOf(tool string) string {
	if t := tc.tools.byName[tool]; t != nil {
		return t.provider
	}
	return ""
}

// withProvided puts the providers' messages before this turn's: behind the part
// that stays the same from turn to turn. A model's service that keeps the
// conversation has it from the first call on.
func (t *turn) withProvided(view []*Message) []*Message {
	if len(t.providers.messages) == 0 || t.run.service.id != "" && t.called {
		return view
	}
	turn := map[string]bool{}
	if t.run.conv.input != nil {
		turn[t.run.conv.input.ID] = true
	}
	for _, r := range append(slices.Clone(t.run.conv.results), t.result) {
		for _, m := range r.Messages {
			turn[m.ID] = true
		}
	}
	at := slices.IndexFunc(view, func(m *Message) bool { return turn[m.ID] })
	if at < 0 {
		at = len(view)
	}
	return slices.Insert(slices.Clone(view), at, t.providers.messages...)
}

// view returns the model's view: the conversation through the processors of the
// history, the network and the agent.
func (t *turn) view(ctx context.Context, messages []*Message) ([]*Message, error) {
	if t.run.service.id != "" {
		return t.viewOfUnsent(ctx, messages)
	}
	return t.processed(ctx, messages)
}

func (t *turn) processed(ctx context.Context, messages []*Message) ([]*Message, error) {
	var ofHistory []Processor
	if t.run.thread.history != nil {
		ofHistory = t.run.thread.history.processors
	}
	source := modelcall.Source{Model: t.model.Name(), Input: t.run.conv.input, Messages: messages, Own: t.responses()}
	return t.run.asks.Process(ctx, source, []modelcall.Level{
		{Name: "history", Processors: ofHistory}, {Name: "network", Processors: t.run.net.opts.Processors}, {Name: "agent", Processors: t.agent.opts.Processors}})
}
