package host_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// The table in the comment of ThreadCreator, row by row, for an agent on its own
// and for a network of one: neither may be kept differently from the other.
func TestWhenAHistoryIsCalled(t *testing.T) {
	seeds := []*host.Message{host.UserText("before"), host.AssistantText("I remember")}
	for name, c := range map[string]struct {
		req   host.Request
		fails bool
		calls []string
	}{
		"no thread": {host.Request{Text: "hi"}, false, []string{
			`CreateThread ""`, `AppendUserMessage "hi"`, "AppendResults: 1 results, stop"}},
		"a thread that is new": {host.Request{Thread: "new", Text: "hi"}, false, []string{
			`LockThread "new"`, `CreateThread "new"`, `AppendUserMessage "hi"`, "AppendResults: 1 results, stop", `unlock "new"`}},
		"a thread that is known": {host.Request{Thread: "T", Text: "hi"}, false, []string{
			`LockThread "T"`, `CreateThread "T"`, `AppendUserMessage "hi"`, "Get: 3 messages", "AppendResults: 1 results, stop", `unlock "T"`}},
		"nothing said": {host.Request{Thread: "T"}, false, []string{
			`LockThread "T"`, `CreateThread "T"`, "Get: 2 messages", "AppendResults: 1 results, stop", `unlock "T"`}},
		"nothing said in a new thread": {host.Request{Thread: "new"}, true, []string{
			`LockThread "new"`, `CreateThread "new"`, `unlock "new"`}},
		"the client's messages": {host.Request{Thread: "T", Messages: seeds, Text: "hi"}, false, []string{
			`LockThread "T"`, `CreateThread "T"`, `AppendUserMessage "hi"`, "AppendResults: 1 results, stop", `unlock "T"`}},
		"the client's messages, nothing said": {host.Request{Thread: "T", Messages: seeds}, false, []string{
			`LockThread "T"`, `CreateThread "T"`, "AppendResults: 1 results, stop", `unlock "T"`}},
		"an empty list of messages": {host.Request{Thread: "T", Messages: []*host.Message{}, Text: "hi"}, false, []string{
			`LockThread "T"`, `CreateThread "T"`, `AppendUserMessage "hi"`, "Get: 3 messages", "AppendResults: 1 results, stop", `unlock "T"`}},
		"a model that fails": {host.Request{Thread: "T", Text: "hi", Model: hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "down")))}, true, []string{
			`LockThread "T"`, `CreateThread "T"`, `AppendUserMessage "hi"`, "Get: 3 messages", "AppendResults: 0 results, failed", `unlock "T"`}},
		"state that cannot be used": {host.Request{Thread: "T", Text: "hi", State: 1}, true, []string{
			`LockThread "T"`, `CreateThread "T"`, `AppendUserMessage "hi"`, "Get: 3 messages", `unlock "T"`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, alone := range []bool{true, false} {
				history := &lockNotes{History: hosttest.NewHistory()}
				history.Seed("acme", "T", seeds...)
				req := c.req
				req.Tenant = "acme"
				_, err := newHost(t, nil).Run(t.Context(), targetOf(t, alone, history), &req)
				if (err != nil) != c.fails {
					t.Errorf("Run: %v", err)
				}
				if diff := cmp.Diff(c.calls, history.Calls()); diff != "" {
					t.Errorf("alone %t: calls (-want +got):\n%s", alone, diff)
				}
			}
		})
	}
}

// lockNotes tells of locks among the calls.
type lockNotes struct{ *hosttest.History }

func (h *lockNotes) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	h.Note("LockThread %q", req.Thread)
	unlock, err := h.History.LockThread(ctx, req)
	return func() { unlock(); h.Note("unlock %q", req.Thread) }, err
}

// targetOf returns an agent named clerk that says done, or a network of that
// name and agent.
func targetOf(t *testing.T, alone bool, adapter any) host.Target {
	t.Helper()
	opts := &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("done") })}
	if alone {
		opts.History = newHistory(t, adapter)
		return newAgent(t, opts)
	}
	network, err := host.NewNetwork("clerk", []*host.Agent{newAgent(t, opts)}, &host.NetworkOptions{Router: order("clerk"), History: newHistory(t, adapter)})
	if err != nil {
		t.Fatal(err)
	}
	return network
}

func TestAnAgentAloneIsKeptLikeANetworkOfOne(t *testing.T) {
	var kept []string
	for _, alone := range []bool{true, false} {
		history := hosttest.NewHistory()
		target := targetOf(t, alone, history)
		for _, text := range []string{"one", "two"} {
			if _, err := newHost(t, nil).Run(t.Context(), target, &host.Request{Thread: "T", Text: text, State: map[string]int{"n": 1}}); err != nil {
				t.Fatal(err)
			}
		}
		var b strings.Builder
		for _, m := range history.Messages("", "T") {
			b.WriteString(string(m.Role) + " " + m.Agent + ": " + m.Text() + "\n")
		}
		for _, turn := range history.Turns() {
			b.WriteString(string(turn.Status) + " " + turn.Head + " " + string(turn.State) + " " + turn.Results[0].Agent + "\n")
		}
		kept = append(kept, b.String())
	}
	if kept[0] != kept[1] || !strings.Contains(kept[0], "assistant clerk: done") {
		t.Errorf("an agent leaves\n%s\na network of one\n%s", kept[0], kept[1])
	}
}

// The first load of a session is the server's, the rest the client's.
func TestFirstTheServersThenTheClientsConversation(t *testing.T) {
	history := hosttest.NewHistory()
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"), hosttest.Say("three"))
	set := tool("set", func(_ context.Context, call *host.Call) (string, error) { return "", call.State.Set("/n", 2) })
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history), Tools: []*host.Tool{set}})
	h := newHost(t, nil)
	run := func(req *host.Request) *host.RunResult {
		t.Helper()
		req.Thread = "T"
		result, err := h.Run(t.Context(), agent, req)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	run(&host.Request{Text: "1", State: map[string]string{"of": "thread"}})
	second := run(&host.Request{Text: "2"})
	client := slices.Clone(history.Messages("", "T"))
	third := run(&host.Request{Text: "3", Messages: client})

	if string(second.State) != `{"of":"thread"}` || string(third.State) != `{}` {
		t.Errorf("the state is %s when loaded, %s when the client sends what it has", second.State, third.State)
	}
	var texts []string
	for _, m := range model.Requests()[2].Messages {
		texts = append(texts, m.Text())
	}
	if diff := cmp.Diff([]string{"1", "one", "2", "two", "3"}, texts); diff != "" {
		t.Errorf("the third request (-want +got):\n%s", diff)
	}
	texts = nil
	for _, m := range history.Messages("", "T") {
		texts = append(texts, m.Text())
	}
	if diff := cmp.Diff([]string{"1", "one", "2", "two", "3", "three"}, texts); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
	stored, err := history.Get(t.Context(), &host.HistoryRequest{Thread: "T"})
	if err != nil || string(stored.State) != `{"of":"thread"}` {
		t.Errorf("the thread's state became %s, %v: the client's request knew nothing of it", stored.State, err)
	}
	run4 := &host.Request{Text: "4", Messages: client, State: map[string]string{"of": "client"}}
	model.Queue(hosttest.Say("four"))
	run(run4)
	if stored, _ := history.Get(t.Context(), &host.HistoryRequest{Thread: "T"}); string(stored.State) != `{"of":"client"}` {
		t.Errorf("the thread's state is %s, want the one that the client sent", stored.State)
	}
}

// A message that is sent again, because its answer was lost or cut short, is
// stored once and keeps its place.
func TestAMessageSentAgainKeepsItsPlace(t *testing.T) {
	history := hosttest.NewHistory()
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	model := hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Fail(host.Errorf(host.Unavailable, "down")), hosttest.Say("found"))
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{look}, History: newHistory(t, history)})
	input := host.UserText("look")
	for _, fails := range []bool{true, false} {
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Input: input}); (err != nil) != fails {
			t.Fatalf("Run: %v", err)
		}
	}
	var roles []host.Role
	for _, m := range model.Requests()[2].Messages {
		roles = append(roles, m.Role)
	}
	want := []host.Role{host.User, host.Assistant, host.ToolRole}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("the request of the second run (-want +got):\n%s", diff)
	}
	roles = nil
	for _, m := range history.Messages("", "T") {
		roles = append(roles, m.Role)
	}
	if diff := cmp.Diff(append(want, host.Assistant), roles); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
}

// A message that is sent again after its answer is answered once more, behind it,
// where the adapter is no [host.TurnReader]: what is stored stays.
func TestAMessageSentAgainAfterItsAnswer(t *testing.T) {
	history := hosttest.NewHistory()
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"))
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, struct {
		host.UserMessageAppender
		host.HistoryLoader
		host.ResultAppender
	}{history, history, history})})
	input := host.UserText("count")
	for range 2 {
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Input: input}); err != nil {
			t.Fatal(err)
		}
	}
	texts := func(messages []*host.Message) (out []string) {
		for _, m := range messages {
			out = append(out, m.Text())
		}
		return out
	}
	if diff := cmp.Diff([]string{"count", "one"}, texts(model.Requests()[1].Messages)); diff != "" {
		t.Errorf("the second request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"count", "one", "two"}, texts(history.Messages("", "T"))); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
}

// Where turns race on a store that does not make them wait, each still answers
// its own message.
func TestAMessageThatOthersCameBehindGoesToTheEnd(t *testing.T) {
	history := &oddHistory{History: hosttest.NewHistory()}
	history.Seed("", "T", host.UserText("before"))
	history.get = func(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
		history.Seed("", "T", host.UserText("of another"), host.AssistantText("to the other"))
		return history.History.Get(ctx, req)
	}
	model := says("done")
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history)})
	_, _ = newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "mine"}) // a conflict at its end
	var texts []string
	for _, m := range model.Requests()[0].Messages {
		texts = append(texts, m.Text())
	}
	if diff := cmp.Diff([]string{"before", "of another", "to the other", "mine"}, texts); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
}

// An adapter's method runs in the run: a step in it runs once.
func TestStepsWorkInAnAdapter(t *testing.T) {
	steps, calls := 0, 0
	step := func(ctx context.Context) error {
		calls++
		_, err := host.Step(ctx, "connect", func(context.Context) (int, error) { steps++; return steps, nil }, nil)
		return err
	}
	history := &oddHistory{History: hosttest.NewHistory()}
	history.create = func(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
		return req.Thread, false, step(ctx)
	}
	history.store = func(ctx context.Context, _ *host.HistoryRequest, _ *host.Turn) error { return step(ctx) }
	agent := newAgent(t, &host.AgentOptions{Model: says("done"), History: newHistory(t, history)})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); err != nil || calls != 2 || steps != 1 {
		t.Errorf("Run: %v; the step ran %d times in %d calls, want once in 2", err, steps, calls)
	}
}

// keeper is an adapter that keeps what it is given and gives out what it keeps,
// as a cache does.
type keeper struct {
	*hosttest.History
	loaded *host.Loaded
	req    *host.HistoryRequest
	turn   *host.Turn
}

func (k *keeper) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	return k.loaded, nil
}

func (k *keeper) AppendUserMessage(_ context.Context, req *host.HistoryRequest) (string, error) {
	k.req = req
	return "", nil
}

func (k *keeper) AppendResults(_ context.Context, _ *host.HistoryRequest, turn *host.Turn) error {
	k.turn = turn
	return nil
}

// Whatever happens in a run, what an adapter has returned stays as it was, and
// what it was given stays as it was given.
func TestWhatAnAdapterHoldsIsNotChanged(t *testing.T) {
	messages := []*host.Message{
		{Role: host.User, Parts: []host.Part{&host.Text{Text: "no id, no time"}}},
		host.NewMessage(host.Assistant, &host.ToolCall{ID: "open", Name: "look", Arguments: json.RawMessage("{}")}),
		host.UserText("before"), host.AssistantText("I remember"),
	}
	messages = append(messages, messages[2])[:len(messages)] // with room behind its end
	k := &keeper{History: hosttest.NewHistory(), loaded: &host.Loaded{Messages: messages, State: json.RawMessage(`{"list":[1]}`), Head: "h"}}
	snapshot := func() string {
		return string(chat.AppendMessagesJSON(nil, messages[:len(messages)+1])) + string(k.loaded.State)
	}
	k.Seed("", "T", messages...) // so that the thread is not new
	before := snapshot()
	processors := []host.Processor{host.ProcessorFunc("upset", func(_ context.Context, m []*host.Message) ([]*host.Message, error) {
		m[0] = host.UserText("in the place of the first")
		return append(m[:1], m[3:]...), nil // without the open call and what closes it
	})}
	look := tool("look", func(_ context.Context, call *host.Call) (string, error) {
		return "", call.State.Set("/list/0", 2)
	})
	history, err := host.NewHistory(k, &host.HistoryOptions{Processors: processors})
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("done")), Tools: []*host.Tool{look}, History: history,
		Hooks: host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
			at.Messages[3] = host.UserText("in the place of another")
			at.Messages = append(at.Messages, host.UserText("of the hook"))
			return nil
		}},
	})
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if after := snapshot(); after != before {
		t.Errorf("what the adapter returned became\n%s\nfrom\n%s", after, before)
	}
	given := string(chat.AppendMessagesJSON(nil, k.turn.Messages()))
	for _, m := range result.Results[0].Messages { // the caller's from here on
		m.Parts[0] = &host.Text{Text: "changed by the caller"}
		m.Agent = "changed"
	}
	if got := string(chat.AppendMessagesJSON(nil, k.turn.Messages())); got != given {
		t.Errorf("what the adapter was given became\n%s\nfrom\n%s", got, given)
	}
}

// scribbler writes into everything that it is given.
type scribbler struct{ *hosttest.History }

func scribble(req *host.HistoryRequest) {
	req.Tenant, req.Thread, req.Run, req.Network = "x", "x", "x", "x"
	if req.Input != nil {
		req.Input.ID, req.Input.Role = "x", host.System
		req.Input.Parts[0].(*host.Text).Text = "x"
	}
}

func (s scribbler) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	defer scribble(req)
	return s.History.CreateThread(ctx, req)
}

func (s scribbler) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (string, error) {
	head, err := s.History.AppendUserMessage(ctx, &host.HistoryRequest{Thread: req.Thread, Input: req.Input.Clone()})
	scribble(req)
	return head, err
}

func (s scribbler) AppendResults(_ context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	defer scribble(req)
	for _, r := range turn.Results {
		r.Agent = "x"
		for _, m := range r.Messages {
			m.Parts[0] = &host.Text{Text: "x"}
		}
		clear(r.Messages)
	}
	clear(turn.State)
	return nil
}

func TestAnAdapterMayChangeWhatItIsGiven(t *testing.T) {
	model := says("done")
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, scribbler{hosttest.NewHistory()})})
	input := host.UserText("hi")
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "T", Input: input, State: map[string]int{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if input.Text() != "hi" || input.Role != host.User || result.Thread != "T" || result.Text() != "done" || string(result.State) != `{"n":1}` {
		t.Errorf("the input is %s, the result %+v", encode(input), result)
	}
	if got := model.Requests()[0]; got.Scope.Tenant != "acme" || got.Scope.Thread != "T" {
		t.Errorf("the model is asked for %+v", got.Scope)
	}
}
