package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// soFarLine returns what code sees of a run, as one line.
func soFarLine(s *host.SoFar) string {
	names := func(list []*host.Result) (out []string) {
		for _, r := range list {
			out = append(out, r.Agent+"="+r.Text())
		}
		return out
	}
	var agents []string
	for _, a := range s.Agents() {
		agents = append(agents, a.Name)
	}
	last := ""
	if r := s.Last(); r != nil {
		last = r.Agent
	}
	return fmt.Sprintf("%s; results %v, last %q, %d calls; agents %v; state %s", said(s.Messages()), names(s.Results()), last, s.CallCount(), agents, s.State())
}

// seen keeps what was seen where.
type seen struct {
	t     *testing.T
	lines map[string][]string
}

func (s *seen) at(where string, so *host.SoFar) {
	s.lines[where] = append(s.lines[where], soFarLine(so))
}

// What code of a network sees of the run, wherever it is called: in instructions,
// in each hook, in a tool, in Enabled.
func TestCodeSeesTheRunSoFar(t *testing.T) {
	s := &seen{t, map[string][]string{}}
	look := host.NewTool("look", "Looks.", func(_ context.Context, c *host.Call, _ struct{}) (string, error) {
		s.at("tool", c.SoFar)
		return "found", c.State.Set("/found", true)
	}, nil)
	first := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("look", `{}`), hosttest.Say("one")), Tools: []*host.Tool{look}})
	second, err := host.NewAgent("second", &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call("look", `{}`), hosttest.Say("two")), Tools: []*host.Tool{look},
		InstructionsFunc: func(_ context.Context, req *host.InstructionsRequest) (string, error) {
			s.at("instructions", req.SoFar)
			return "", nil
		},
		Enabled: func(_ context.Context, req *host.InstructionsRequest) (bool, error) {
			s.at("enabled", req.SoFar)
			return true, nil
		},
		Hooks: host.Hooks{
			Start:     func(_ context.Context, at *host.StartHook) error { s.at("start", at.SoFar); return nil },
			Response:  func(_ context.Context, at *host.ResponseHook) error { s.at("response", at.SoFar); return nil },
			ToolStart: func(_ context.Context, at *host.ToolStartHook) error { s.at("tool start", at.SoFar); return nil },
			ToolEnd:   func(_ context.Context, at *host.ToolEndHook) error { s.at("tool end", at.SoFar); return nil },
			Finish:    func(_ context.Context, at *host.FinishHook) error { s.at("finish", at.SoFar); return nil },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	net, err := host.NewNetwork("net", []*host.Agent{first, second}, &host.NetworkOptions{Router: host.InOrder("order", first.Name(), "second")})
	if err != nil {
		t.Fatal(err)
	}
	result, err := newHost(t, nil).Run(t.Context(), net, &host.Request{Messages: []*host.Message{host.UserText("before"), host.AssistantText("yes")}, Text: "hi", State: map[string]any{"n": 1}})
	if err != nil || result.Text() != "two" {
		t.Fatalf("%v, %v", result, err)
	}
	name := first.Name()
	tail := func(results string, last string, calls int, state string) string {
		return fmt.Sprintf("; results [%s], last %q, %d calls; agents [%s second]; state %s", results, last, calls, name, state)
	}
	begun := `u:before | a:yes | u:hi`
	one := begun + ` | a:look{} | t:"found" | a:one`
	after := tail(name+"=one", name, 1, `{"found":true,"n":1}`)
	for where, want := range map[string][]string{
		"tool":         {begun + ` | a:look{}` + tail("", "", 0, `{"n":1}`), one + ` | a:look{}` + after},
		"instructions": {one + after},
		"enabled":      {begun + tail("", "", 0, `{"n":1}`), one + after, one + ` | a:look{} | t:"found" | a:two` + tail(name+"=one second=two", "second", 2, `{"found":true,"n":1}`)},
		"start":        {one + after, one + ` | a:look{} | t:"found"` + after},
		"response":     {one + after, one + ` | a:look{} | t:"found"` + after},
		"tool start":   {one + ` | a:look{}` + after},
		"tool end":     {one + ` | a:look{}` + after},
		"finish":       {one + ` | a:look{} | t:"found" | a:two` + after},
	} {
		if !slices.Equal(s.lines[where], want) {
			t.Errorf("%s sees\n%s\nwant\n%s", where, strings.Join(s.lines[where], "\n"), strings.Join(want, "\n"))
		}
	}
}

// seeingHistory is a history that looks at the run in each of its calls.
type seeingHistory struct {
	*hosttest.History
	s *seen
}

func (h seeingHistory) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	h.s.at("CreateThread", req.SoFar)
	return h.History.CreateThread(ctx, req)
}

func (h seeingHistory) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	h.s.at("Get", req.SoFar)
	return h.History.Get(ctx, req)
}

func (h seeingHistory) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	h.s.at("AppendResults", req.SoFar)
	return h.History.AppendResults(ctx, req, turn)
}

func TestHistoryRequestsSeeTheRunSoFar(t *testing.T) {
	s := &seen{t, map[string][]string{}}
	history, err := host.NewHistory(seeingHistory{hosttest.NewHistory(), s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("yes") }), History: history})
	for _, state := range []any{map[string]any{"a": 1}, map[string]any{"b": json.RawMessage("9007199254740993")}} {
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi", State: state}); err != nil {
			t.Fatal(err)
		}
	}
	name := agent.Name()
	before := func(state string) string {
		return `u:hi; results [], last "", 0 calls; agents [` + name + `]; state ` + state
	}
	after := func(messages, state string) string {
		return messages + `; results [` + name + `=yes], last "` + name + `", 1 calls; agents [` + name + `]; state ` + state
	}
	for where, want := range map[string][]string{
		"CreateThread":  {before(`{"a":1}`), before(`{"b":9007199254740993}`)},
		"Get":           {before(`{"b":9007199254740993}`)},
		"AppendResults": {after("u:hi | a:yes", `{"a":1}`), after("u:hi | a:yes | u:hi | a:yes", `{"a":1,"b":9007199254740993}`)},
	} {
		if !slices.Equal(s.lines[where], want) {
			t.Errorf("%s sees\n%s\nwant\n%s", where, strings.Join(s.lines[where], "\n"), strings.Join(want, "\n"))
		}
	}
}

// Whatever code does with what it sees, the run has what it had.
func TestWhatCodeSeesOfARunIsItsOwn(t *testing.T) {
	spoil := func(s *host.SoFar) {
		for _, r := range append(s.Results(), s.Last()) {
			if r == nil {
				continue
			}
			r.Agent, r.FinishReason = "spoiled", chat.FinishFailed
			for i := range r.Messages {
				r.Messages[i] = nil
			}
		}
		for i, m := range s.Messages() {
			_ = m
			s.Messages()[i] = nil
		}
		clear(s.Agents())
		clear(s.State())
	}
	kept := make(chan *host.SoFar, 1)
	look := host.NewTool("look", "Looks.", func(_ context.Context, c *host.Call, _ struct{}) (string, error) {
		spoil(c.SoFar)
		kept <- c.SoFar
		return "found", nil
	}, nil)
	first := newAgent(t, &host.AgentOptions{Model: says("one")})
	second, err := host.NewAgent("second", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("look", `{}`), hosttest.Say("two")), Tools: []*host.Tool{look},
		Hooks: host.Hooks{Finish: func(_ context.Context, at *host.FinishHook) error { spoil(at.SoFar); return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	net, err := host.NewNetwork("net", []*host.Agent{first, second}, &host.NetworkOptions{Router: host.InOrder("order", first.Name(), "second"), State: map[string]int{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := newHost(t, nil).Run(t.Context(), net, &host.Request{Text: "hi"})
	if err != nil || len(result.Results) != 2 || result.Results[0].Agent != first.Name() || result.Results[0].Text() != "one" || result.Text() != "two" || string(result.State) != `{"n":1}` {
		t.Errorf("%+v, %v", result, err)
	}
	if got := said((<-kept).Messages()); got != "u:hi | a:one | a:look{}" {
		t.Errorf("after the run a call's is %s, want it as it was when the call began", got)
	}
	var none *host.SoFar
	if none.Messages() != nil || none.Results() != nil || none.Last() != nil || none.Agents() != nil || none.State() != nil || none.CallCount() != 0 {
		t.Error("a nil SoFar has something")
	}
}
