package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// counter is a provider that counts its calls in its state, and says what it had.
type counter struct {
	name    string
	sees    []string // what it had before each call
	fails   bool     // to observe
	observe func(*host.ObserveRequest)
}

func (c *counter) Name() string { return c.name }

func (c *counter) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	return nil, c.count(req.Own, "before")
}

func (c *counter) Observe(_ context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	if c.observe != nil {
		c.observe(req)
	}
	err := c.count(req.Own, "after")
	if c.fails {
		err = errors.New("cannot learn")
	}
	return nil, err
}

func (c *counter) count(own *host.ProviderState, when string) error {
	var n map[string]int
	if _, err := own.Get(&n); err != nil {
		return err
	}
	raw, _ := own.JSON()
	c.sees = append(c.sees, string(raw))
	if n == nil {
		n = map[string]int{}
	}
	n[when]++
	return own.Set(n)
}

func TestProvidersKeepAStateInTheThread(t *testing.T) {
	history := hosttest.NewHistory()
	a, b, nets := &counter{name: "a"}, &counter{name: "b", fails: true}, &counter{name: "a"}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") }),
		Providers: []host.Provider{a, b}})
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), Providers: []host.Provider{nets}, History: newHistory(t, history)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Thread: "T", Text: "hi"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Thread: "other", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"", `{"before":1}`, `{"after":1,"before":1}`, `{"after":1,"before":2}`, "", `{"before":1}`}
	for name, c := range map[string]*counter{"the agent's": a, "the one that fails to observe": b, "the network's": nets} {
		if diff := cmp.Diff(want, c.sees); diff != "" {
			t.Errorf("%s saw (-want +got):\n%s", name, diff)
		}
	}
	loaded, err := history.Get(t.Context(), &host.HistoryRequest{Thread: "T"})
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]string{}
	for key, raw := range loaded.Providers {
		kept[key] = string(raw)
	}
	both := `{"after":2,"before":2}`
	if diff := cmp.Diff(map[string]string{"a": both, "clerk/a": both, "clerk/b": both}, kept); diff != "" {
		t.Errorf("the thread has (-want +got):\n%s", diff)
	}
}

func TestAFailedRunLeavesProvidersAsTheyWere(t *testing.T) {
	history := hosttest.NewHistory()
	c := &counter{name: "c"}
	model := hosttest.NewModel(hosttest.Say("ok"), hosttest.Fail(errors.New("down")), hosttest.Say("ok"))
	agent := newAgent(t, &host.AgentOptions{Model: model, Providers: []host.Provider{c}, History: newHistory(t, history)})
	for i := range 3 {
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); (err != nil) != (i == 1) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	once := `{"after":1,"before":1}`
	want := []string{"", `{"before":1}`, once, `{"after":1,"before":2}`, once, `{"after":1,"before":2}`}
	if diff := cmp.Diff(want, c.sees); diff != "" {
		t.Errorf("the provider saw (-want +got):\n%s", diff)
	}
}

func TestProvidersOfAnInterruptedRunGoOn(t *testing.T) {
	for name, history := range map[string]bool{"with a thread": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			c := &counter{name: "c"}
			ask, err := host.NewRawTool(llm.ToolSpec{Name: "ask"}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
				if len(call.Resumed) == 0 {
					return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Which?"}}, nil
				}
				return &host.ToolOutput{}, nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			opts := &host.AgentOptions{Providers: []host.Provider{c}, Model: hosttest.NewModel(hosttest.Call("ask", `{}`), hosttest.Say("ok")),
				Tools: []*host.Tool{ask}}
			if history {
				opts.History = newHistory(t, hosttest.NewHistory())
			}
			h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
			agent := newAgent(t, opts)
			r, err := h.Run(t.Context(), agent, &host.Request{Text: "hi"})
			if err != nil || len(r.Questions) != 1 {
				t.Fatalf("%v, %v", r, err)
			}
			answer := host.Answer{Question: r.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`1`)}
			if _, err := h.Run(t.Context(), agent, &host.Request{Resume: r.Run, Answers: []host.Answer{answer}}); err != nil {
				t.Fatal(err)
			}
			want := []string{"", `{"before":1}`, `{"after":1,"before":1}`, `{"after":1,"before":2}`}
			if diff := cmp.Diff(want, c.sees); diff != "" {
				t.Errorf("the provider saw (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStateOfAProviderInAnAgentThread(t *testing.T) {
	c := &counter{name: "c"}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("ok"), hosttest.Say("ok")), Providers: []host.Provider{c}})
	thread, err := agent.NewThread(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{AgentThread: thread, Text: "hi"}); err != nil {
			t.Fatal(err)
		}
		raw, err := thread.Serialize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if thread, err = agent.RestoreThread(t.Context(), raw, nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"", `{"before":1}`, `{"after":1,"before":1}`, `{"after":1,"before":2}`}; !slices.Equal(c.sees, want) {
		t.Errorf("the provider saw %q, want %q", c.sees, want)
	}
}

func TestProviderState(t *testing.T) {
	s := host.NewProviderState(json.RawMessage(`{"a":1}`))
	var v struct{ A int }
	if found, err := s.Get(&v); !found || err != nil || v.A != 1 {
		t.Errorf("Get = %v, %v, %+v", found, err, v)
	}
	if _, err := s.Get(new([]int)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Get into another shape: %v", err)
	}
	for name, c := range map[string]struct {
		v    any
		code host.Code
	}{
		"what has no JSON": {func() {}, host.InvalidArgument},
		"what is no JSON":  {json.RawMessage(`{`), host.InvalidArgument},
		"too much":         {strings.Repeat("x", host.MaxProviderStateBytes), host.ResourceExhausted},
	} {
		if err := s.Set(c.v); host.CodeOf(err) != c.code || err == nil {
			t.Errorf("Set %s: %v, want %s", name, err, c.code)
		}
	}
	raw, at := s.JSON()
	if string(raw) != `{"a":1}` || at != 1 {
		t.Errorf("after failures it is %s at %d", raw, at)
	}
	now, err := s.SetAt(at, 2)
	if err != nil || now <= at {
		t.Errorf("SetAt = %d, %v", now, err)
	}
	if _, err := s.SetAt(at, 3); host.CodeOf(err) != host.Conflict {
		t.Errorf("SetAt of an old revision: %v", err)
	}
	if err := s.Set(nil); err != nil {
		t.Fatal(err)
	}
	if raw, at := s.JSON(); raw != nil || at != 0 {
		t.Errorf("null leaves %s at %d", raw, at)
	}
	if again, err := s.SetAt(0, 4); err != nil || again <= now {
		t.Errorf("SetAt of nothing = %d, %v; a revision is not used again", again, err)
	}
	if found, err := host.NewProviderState(nil).Get(&v); found || err != nil {
		t.Errorf("Get of nothing: %v, %v", found, err)
	}
}

func TestWhereProvidersMessagesGo(t *testing.T) {
	history := hosttest.NewHistory()
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Call("t1", `{}`), hosttest.Say("two"), hosttest.Say("three"))
	tool := func(name string) *host.Tool {
		return host.NewTool(name, "", func(context.Context, *host.Call, struct{}) (string, error) { return "done", nil }, nil)
	}
	provider := func(n string, store bool) host.Provider {
		return &memory{name: "P" + n, provided: &host.Provided{Instructions: "I" + n, Messages: []*host.Message{host.UserText("c" + n)}, Store: store, Tools: []*host.Tool{tool("t" + n)}}}
	}
	agent := func(providers ...host.Provider) *host.Agent {
		return newAgent(t, &host.AgentOptions{Model: model, Instructions: "base", Tools: []*host.Tool{tool("t0")}, Providers: providers, History: newHistory(t, history)})
	}
	h := newHost(t, nil)
	turn := func(a *host.Agent, text string) []host.Event {
		events, err := collect(t, h, a, &host.Request{Thread: "T", Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	turn(agent(), "U1")
	events := turn(agent(provider("1", false), provider("2", true)), "U2")
	turn(agent(), "U3")
	said := func(messages []*host.Message) (out []string) {
		for _, m := range messages {
			line := string(m.Role[:1]) + ":" + m.Text()
			if p, ok := m.Metadata[host.MetadataProvider]; ok {
				line += " of " + string(p)
			}
			out = append(out, line)
		}
		return out
	}
	sent := model.Requests()
	for i, want := range [][]string{
		1: {"s:base\nI1\nI2", "u:U1", "a:one", `u:c1 of "P1"`, "u:U2", `u:c2 of "P2"`},
		2: {"s:base\nI1\nI2", "u:U1", "a:one", `u:c1 of "P1"`, "u:U2", `u:c2 of "P2"`, "a:", "t:"},
		3: {"s:base", "u:U1", "a:one", "u:U2", `u:c2 of "P2"`, "a:", "t:", "a:two", "u:U3"},
	} {
		if want == nil {
			continue
		}
		if diff := cmp.Diff(want, said(sent[i].Messages)); diff != "" {
			t.Errorf("model call %d is sent (-want +got):\n%s", i, diff)
		}
	}
	var tools []string
	for _, s := range sent[1].Tools {
		tools = append(tools, s.Name)
	}
	if fmt.Sprint(tools) != "[t0 t1 t2]" {
		t.Errorf("tools: %v", tools)
	}
	for _, ev := range events {
		if d, ok := ev.Data.(*runevent.ToolStarted); ok && d.Provider != "P1" {
			t.Errorf("the call of %s is by %q's tool", d.Name, d.Provider)
		}
	}
	if got := said(history.Messages("", "T")); fmt.Sprint(got) != `[u:U1 a:one u:U2 u:c2 of "P2" a: t: a:two u:U3 a:three]` {
		t.Errorf("stored: %q", got)
	}
}

func TestStoredMessagesOfAFailedRun(t *testing.T) {
	history := hosttest.NewHistory()
	p := &memory{name: "P", provided: &host.Provided{Messages: []*host.Message{host.UserText("c")}, Store: true}}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Fail(errors.New("down"))), Providers: []host.Provider{p}, History: newHistory(t, history)})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); err == nil {
		t.Fatal("the run does not fail")
	}
	if got := history.Messages("", "T"); len(got) != 1 {
		t.Errorf("%d messages are stored, want the input", len(got))
	}
	if want := `1 messages, 0 responses, error "internal" of clerk`; p.observed[0] != want {
		t.Errorf("observed %q, want %q", p.observed, want)
	}
}

func TestTwoProvidersOfOneName(t *testing.T) {
	p, q := &memory{name: "p"}, &memory{name: "p"}
	if _, err := host.NewAgent("clerk", &host.AgentOptions{Providers: []host.Provider{p, q}}); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), `"p"`) {
		t.Errorf("NewAgent: %v", err)
	}
	agent := newAgent(t, &host.AgentOptions{Model: says("x"), Providers: []host.Provider{p}})
	if _, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), Providers: []host.Provider{p, q}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("NewNetwork: %v", err)
	}
	named := &memory{name: "clerk/p"}
	if _, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), Providers: []host.Provider{named}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("NewNetwork with a name that is an agent's provider's key: %v", err)
	}
	if _, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), Providers: []host.Provider{q}}); err != nil {
		t.Errorf("the same name in the network and an agent of it: %v", err)
	}
}

func TestDamagedProviderStates(t *testing.T) {
	for name, raw := range map[string]string{"no JSON": `{`, "too large": `"` + strings.Repeat("x", host.MaxProviderStateBytes) + `"`} {
		c := &counter{name: "c"}
		bad := &oddHistory{History: hosttest.NewHistory(), create: func(context.Context, *host.HistoryRequest) (string, bool, error) { return "T", false, nil },
			get: func(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
				return &host.Loaded{Providers: map[string]json.RawMessage{"clerk/c": json.RawMessage(raw)}}, nil
			}}
		agent := newAgent(t, &host.AgentOptions{Model: says("x"), Providers: []host.Provider{c}, History: newHistory(t, bad)})
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); host.CodeOf(err) != host.DataLoss {
			t.Errorf("%s: %v", name, err)
		}
	}
}
