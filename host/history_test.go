package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// faultyHistory fails in one of its methods.
type faultyHistory struct {
	*hosttest.History
	fails string
	with  error
}

func (h *faultyHistory) fault(method string) error {
	if method == h.fails {
		return h.with
	}
	return nil
}

func (h *faultyHistory) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	if err := h.fault("CreateThread"); err != nil {
		return "", false, err
	}
	return h.History.CreateThread(ctx, req)
}

func (h *faultyHistory) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (string, error) {
	if err := h.fault("AppendUserMessage"); err != nil {
		return "", err
	}
	return h.History.AppendUserMessage(ctx, req)
}

func (h *faultyHistory) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	if err := h.fault("Get"); err != nil {
		return nil, err
	}
	return h.History.Get(ctx, req)
}

func (h *faultyHistory) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	if err := h.fault("AppendResults"); err != nil {
		return err
	}
	return h.History.AppendResults(ctx, req, turn)
}

func (h *faultyHistory) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	if err := h.fault("LockThread"); err != nil {
		return nil, err
	}
	return h.History.LockThread(ctx, req)
}

func TestAHistoryThatFailsEndsTheRun(t *testing.T) {
	full := host.Errorf(host.Unavailable, "the disk is full")
	for method, c := range map[string]struct {
		asked int      // questions to the model
		calls []string // of the history that worked
		says  string
	}{
		"LockThread":        {0, nil, `wait for thread "T"`},
		"CreateThread":      {0, nil, `create thread "T"`},
		"AppendUserMessage": {0, []string{`CreateThread "T"`}, "store the user's message"},
		"Get":               {0, []string{`CreateThread "T"`, `AppendUserMessage "hi"`}, "load thread"},
		"AppendResults":     {1, []string{`CreateThread "T"`, `AppendUserMessage "hi"`, "Get: 2 messages"}, "store the results"},
	} {
		t.Run(method, func(t *testing.T) {
			history := &faultyHistory{hosttest.NewHistory(), method, full}
			history.Seed("", "T", host.UserText("before"))
			model := says("done")
			agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history)})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
			if host.CodeOf(err) != host.Unavailable || !errors.Is(err, full) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v; want code %s and %q", err, host.Unavailable, c.says)
			}
			if got := len(model.Requests()); got != c.asked {
				t.Errorf("the model was asked %d times, want %d", got, c.asked)
			}
			if got := history.Calls(); !slices.Equal(got, c.calls) {
				t.Errorf("the history was called %q, want %q", got, c.calls)
			}
			if method == "AppendResults" && (result == nil || result.Text() != "done") {
				t.Errorf("the result is %+v; what was paid for must not be lost", result)
			}
		})
	}
}

// An id that a run had before is not taken for a retry: the caller hears that the
// second turn was not stored.
func TestARunIDUsedTwiceIsRefused(t *testing.T) {
	history := hosttest.NewHistory()
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"), hosttest.Say("three")), History: newHistory(t, history)})
	h := newHost(t, nil)
	for i, want := range []struct {
		run  string
		code host.Code
	}{{"r", ""}, {"r", host.AlreadyExists}, {"another", ""}} {
		result, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Run: want.run, Text: "hi"})
		if host.CodeOf(err) != want.code {
			t.Errorf("run %d with id %q: %v; want code %q", i, want.run, err, want.code)
		}
		if result == nil || result.Text() == "" {
			t.Errorf("run %d with id %q returns %+v; what was paid for must not be lost", i, want.run, result)
		}
		if want.code != "" && !strings.Contains(err.Error(), "give each run an id of its own") {
			t.Errorf("run %d: %v does not say what to do", i, err)
		}
	}
	var texts []string
	for _, m := range history.Messages("", "T") {
		texts = append(texts, m.Text())
	}
	if want := []string{"hi", "one", "hi", "hi", "three"}; !slices.Equal(texts, want) {
		t.Errorf("the thread has %q, want %q", texts, want)
	}
}

func TestNewHistoryWantsOneOfItsMethods(t *testing.T) {
	for name, adapter := range map[string]any{"nil": nil, "an empty struct": struct{}{}} {
		if _, err := host.NewHistory(adapter, nil); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("NewHistory of %s: %v, want code %s", name, err, host.InvalidArgument)
		}
	}
}

// onlyGet, onlyUser and onlyResults are adapters with one ability each.
type (
	onlyGet     struct{ *hosttest.History }
	onlyUser    struct{ h *hosttest.History }
	onlyResults struct{ h *hosttest.History }
)

func (onlyGet) CreateThread()      {} // hides the methods of these names
func (onlyGet) AppendUserMessage() {}
func (onlyGet) AppendResults()     {}
func (onlyGet) AppendRound()       {}
func (onlyGet) LockThread()        {}

func (a onlyUser) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (string, error) {
	return a.h.AppendUserMessage(ctx, req)
}

func (a onlyResults) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	return a.h.AppendResults(ctx, req, turn)
}

func TestEveryMethodOfAHistoryIsOptional(t *testing.T) {
	for name, c := range map[string]struct {
		adapter func(*hosttest.History) any
		thread  string // of the result; "*" is any id
		calls   []string
	}{
		"only Get":               {func(h *hosttest.History) any { return onlyGet{h} }, "*", nil},
		"only AppendUserMessage": {func(h *hosttest.History) any { return onlyUser{h} }, "", []string{`AppendUserMessage "hi"`}},
		"only AppendResults":     {func(h *hosttest.History) any { return onlyResults{h} }, "", []string{"AppendResults: 1 results, stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			history := hosttest.NewHistory()
			agent := newAgent(t, &host.AgentOptions{Model: says("done"), History: newHistory(t, c.adapter(history))})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			if result.Thread != c.thread && (c.thread != "*" || result.Thread == "") {
				t.Errorf("the thread is %q, want %q", result.Thread, c.thread)
			}
			if got := history.Calls(); !slices.Equal(got, c.calls) {
				t.Errorf("the history was called %q, want %q", got, c.calls)
			}
		})
	}
}

// twoMethods are adapters with two or three of the methods.
type (
	createAndGet struct{ h *oddHistory }
	createOnly   struct{ h *oddHistory }
)

func (a createAndGet) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	return a.h.CreateThread(ctx, req)
}

func (a createAndGet) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	return a.h.Get(ctx, req)
}

func (a createOnly) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	return a.h.CreateThread(ctx, req)
}

// Which thread a run is on: AgentKit's table, and what is loaded for it.
func TestWhichThreadARunIsOn(t *testing.T) {
	for name, c := range map[string]struct {
		given   string
		adapter func(*oddHistory) any
		creates string // what CreateThread returns; "" is the request's, or a fresh one
		thread  string // "*" is any
		calls   []string
	}{
		"given, made sure of":      {"T", func(h *oddHistory) any { return createAndGet{h} }, "", "T", []string{`CreateThread "T"`, "Get: 1 messages"}},
		"given, another one made":  {"T", func(h *oddHistory) any { return createAndGet{h} }, "T2", "T", []string{`CreateThread "T"`, "Get: 1 messages"}},
		"given, not made sure of":  {"T", func(h *oddHistory) any { return onlyGet{h.History} }, "", "T", []string{"Get: 1 messages"}},
		"given, kept nowhere":      {"T", func(h *oddHistory) any { return onlyUser{h.History} }, "", "T", []string{`AppendUserMessage "hi"`}},
		"not given, made":          {"", func(h *oddHistory) any { return createOnly{h} }, "", "*", []string{`CreateThread ""`}},
		"not given, made by name":  {"", func(h *oddHistory) any { return createAndGet{h} }, "T2", "T2", []string{`CreateThread ""`}},
		"not given, to be loaded":  {"", func(h *oddHistory) any { return onlyGet{h.History} }, "", "*", nil},
		"not given, only appended": {"", func(h *oddHistory) any { return onlyResults{h.History} }, "", "", []string{"AppendResults: 1 results, stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			history := &oddHistory{History: hosttest.NewHistory()}
			history.Seed("", "T", host.UserText("before"))
			if c.creates != "" {
				history.create = func(_ context.Context, req *host.HistoryRequest) (string, bool, error) {
					history.Note("CreateThread %q", req.Thread)
					return c.creates, req.Thread == "", nil
				}
			}
			agent := newAgent(t, &host.AgentOptions{Model: says("done"), History: newHistory(t, c.adapter(history))})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: c.given, Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			if result.Thread != c.thread && (c.thread != "*" || result.Thread == "") {
				t.Errorf("the run is on thread %q, want %q", result.Thread, c.thread)
			}
			if diff := cmp.Diff(c.calls, history.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHostsHistoryIsTheDefault(t *testing.T) {
	ofHost, ofAgent := hosttest.NewHistory(), hosttest.NewHistory()
	h := newHost(t, &host.Options{History: newHistory(t, ofHost)})
	for _, opts := range []*host.AgentOptions{{Model: says("a")}, {Model: says("b"), History: newHistory(t, ofAgent)}} {
		if _, err := h.Run(t.Context(), newAgent(t, opts), &host.Request{Text: "hi"}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := len(ofHost.Turns()), len(ofAgent.Turns()); a != 1 || b != 1 {
		t.Errorf("the host's history has %d turns, the agent's %d; want 1 each", a, b)
	}
}

// Two turns on one thread at once: the second waits, and sees the first.
func TestRacingTurnsWait(t *testing.T) {
	history := hosttest.NewHistory()
	inside := make(chan struct{}, 1)
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		select {
		case inside <- struct{}{}:
			defer func() { <-inside }()
		default:
			t.Error("two turns of one thread run at once")
		}
		return hosttest.Say("done")
	})
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history)})
	h := newHost(t, nil)
	const turns = 6
	var wg sync.WaitGroup
	for range turns {
		wg.Go(func() {
			if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var roles []string
	for _, m := range history.Messages("", "T") {
		roles = append(roles, string(m.Role))
	}
	if diff := cmp.Diff(slices.Repeat([]string{"user", "assistant"}, turns), roles); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
}

func TestWhatATurnHolds(t *testing.T) {
	history := hosttest.NewHistory()
	make := tool("make", func(_ context.Context, call *host.Call) (string, error) {
		return "", call.AddArtifact(host.Artifact{Name: "a", Parts: []host.Part{&host.Text{Text: "x"}}})
	})
	agent, err := host.NewAgent("a", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("make", "{}"), hosttest.Say("made")), Tools: []*host.Tool{make}})
	if err != nil {
		t.Fatal(err)
	}
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{
		Router: order("a"), History: newHistory(t, history), State: map[string]int{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Tenant: "acme", Thread: "T", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	turn := history.Turns()[0]
	if turn.Head != "1" || turn.Status != chat.FinishStop || turn.Error != nil || string(turn.State) != `{"n":1}` ||
		len(turn.Artifacts) != 1 || turn.Usage.Total() != 4 || len(turn.Results) != 1 || turn.Results[0].Agent != "a" || turn.Results[0].Rounds != 2 {
		t.Errorf("the turn is %+v", turn)
	}
	var roles []string
	for _, m := range turn.Messages() {
		roles = append(roles, string(m.Role)+" of "+m.Agent)
	}
	if diff := cmp.Diff([]string{"assistant of a", "tool of a", "assistant of a"}, roles); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestStateOfTheRunStaysOutOfThreads(t *testing.T) {
	history := hosttest.NewHistory()
	set := tool("set", func(_ context.Context, call *host.Call) (string, error) { return "", call.State.Set("/n", 2) })
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("set", "{}"), hosttest.Call("set", "{}")), Tools: []*host.Tool{set}, MaxRounds: 1})
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{
		Router: order("clerk"), History: newHistory(t, history), State: map[string]int{"n": 1}, StateOfRun: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		events, err := collect(t, newHost(t, nil), network, &host.Request{Thread: "T", Text: "hi"})
		if err != nil {
			t.Fatal(err)
		}
		if p := events[1].Data.(*runevent.StatePatched); string(p.Ops[0].Value) != `{"n":1}` {
			t.Errorf("the run begins with state %s", p.Ops[0].Value)
		}
		if got := events[len(events)-1].Data.(*runevent.RunFinished).Result.State; string(got) != `{"n":2}` {
			t.Errorf("the run ends with state %s", got)
		}
	}
	for i, turn := range history.Turns() {
		if turn.State != nil {
			t.Errorf("turn %d stores state %s", i, turn.State)
		}
	}
}

func TestStateIsOverlaidMemberByMember(t *testing.T) {
	history := hosttest.NewHistory()
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("x") })})
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{
		Router: order("clerk"), History: newHistory(t, history), State: json.RawMessage(`{"a":{"of":"network"},"b":"network","c":"network"}`)})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, nil)
	var last *host.RunResult
	for _, state := range []any{map[string]string{"b": "thread"}, map[string]any{"c": 9007199254740993}} {
		if last, err = h.Run(t.Context(), network, &host.Request{Thread: "T", Text: "hi", State: state}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := string(last.State), `{"a":{"of":"network"},"b":"thread","c":9007199254740993}`; got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
}
