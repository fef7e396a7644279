package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

func agentNamed(t testing.TB, name, description string) *host.Agent {
	t.Helper()
	a, err := host.NewAgent(name, &host.AgentOptions{Description: description, Model: says(name)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAgentsRefused(t *testing.T) {
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "", nil })
	dynamic := func(context.Context, *host.InstructionsRequest) (string, error) { return "", nil }
	for name, c := range map[string]struct {
		agent string
		opts  host.AgentOptions
		says  string
	}{
		"no name":                   {" ", host.AgentOptions{}, "without a name"},
		"negative rounds":           {"a", host.AgentOptions{MaxRounds: -1}, "max_rounds is -1"},
		"two kinds of instructions": {"a", host.AgentOptions{Instructions: "x", InstructionsFunc: dynamic}, "InstructionsFunc"},
		"two tools of one name":     {"a", host.AgentOptions{Tools: []*host.Tool{work, work}}, `"work"`},
		"a nil tool":                {"a", host.AgentOptions{Tools: []*host.Tool{nil}}, "tool 0"},
		"a tool made by hand":       {"a", host.AgentOptions{Tools: []*host.Tool{{}}}, "NewTool"},
		"any tool of none":          {"a", host.AgentOptions{ToolChoice: host.ToolChoiceAny}, "without a tool"},
		"a choice of another tool":  {"a", host.AgentOptions{ToolChoice: "play", Tools: []*host.Tool{work}}, `"play"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := host.NewAgent(c.agent, &c.opts); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("NewAgent: %v; want code %s and %q", err, host.InvalidArgument, c.says)
			}
		})
	}
}

func TestNetworksRefused(t *testing.T) {
	a, described := agentNamed(t, "a", ""), agentNamed(t, "d", "does things")
	own := newAgent(t, &host.AgentOptions{History: newHistory(t, hosttest.NewHistory())})
	byModel := host.NewModelRouter("by-model", nil)
	for name, c := range map[string]struct {
		network string
		agents  []*host.Agent
		opts    *host.NetworkOptions
		says    string
	}{
		"no name":                          {"", []*host.Agent{a}, &host.NetworkOptions{Router: order()}, "without a name"},
		"no agent":                         {"n", nil, &host.NetworkOptions{Router: order()}, "no agent"},
		"a nil agent":                      {"n", []*host.Agent{nil}, &host.NetworkOptions{Router: order()}, "nil agent"},
		"two agents of one name":           {"n", []*host.Agent{a, a}, &host.NetworkOptions{Router: order()}, "two agents"},
		"negative iterations":              {"n", []*host.Agent{a}, &host.NetworkOptions{Router: order(), MaxIterations: -1}, "max_iterations is -1"},
		"an agent with a history":          {"n", []*host.Agent{own}, &host.NetworkOptions{Router: order()}, "history of its own"},
		"no description, no router":        {"n", []*host.Agent{described, a}, nil, `agent "a"`},
		"no description, model router":     {"n", []*host.Agent{a}, &host.NetworkOptions{Router: byModel}, "no description"},
		"no description, may be delegated": {"n", []*host.Agent{a}, &host.NetworkOptions{Router: order(), Routers: []host.Router{byModel}}, "no description"},
		"two routers of one name":          {"n", []*host.Agent{described}, &host.NetworkOptions{Router: order(), Routers: []host.Router{byModel, byModel}}, "two routers"},
		"a nil router":                     {"n", []*host.Agent{described}, &host.NetworkOptions{Router: order(), Routers: []host.Router{nil}}, "router 0"},
		"a model router with two prompts": {"n", []*host.Agent{described}, &host.NetworkOptions{Router: host.NewModelRouter("m", &host.ModelRouterOptions{Instructions: "x",
			InstructionsFunc: func(context.Context, *host.RouteRequest) (string, error) { return "", nil }})}, `model router "m" has both Instructions`},
		"a model router that is read twice": {"n", []*host.Agent{described}, &host.NetworkOptions{Router: order(), Routers: []host.Router{host.NewModelRouter("m", &host.ModelRouterOptions{Reader: order(),
			OnRoute: func(context.Context, *llm.Response, *host.RouteRequest) (*host.Route, error) { return nil, nil }})}}, `both OnRoute and Reader`},
		"an agent on call of a name taken": {"n", []*host.Agent{a}, &host.NetworkOptions{Router: order(), OnCall: []*host.Agent{agentNamed(t, "a", "")}}, "two agents"},
		"a nil agent on call":              {"n", []*host.Agent{a}, &host.NetworkOptions{Router: order(), OnCall: []*host.Agent{nil}}, "nil agent"},
		"a router that names a stranger":   {"n", []*host.Agent{a}, &host.NetworkOptions{Router: host.InOrder("line", "a", "z")}, `router "line" names the agent "z"`},
		"a delegate that names one":        {"n", []*host.Agent{a}, &host.NetworkOptions{Router: order(), Routers: []host.Router{host.InOrder("line", "z")}}, `router "line" names the agent "z"`},
		"a state that is none":             {"n", []*host.Agent{a}, &host.NetworkOptions{Router: order(), State: 7}, "default state"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := host.NewNetwork(c.network, c.agents, c.opts); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("NewNetwork: %v; want code %s and %q", err, host.InvalidArgument, c.says)
			}
		})
	}
}

func TestAModelRouterWithoutAModelIsFoundFirst(t *testing.T) {
	history := hosttest.NewHistory()
	network, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", "x")}, &host.NetworkOptions{History: newHistory(t, history)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi"}); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "has no model") {
		t.Errorf("Run: %v; want code %s", err, host.InvalidArgument)
	}
	undescribed, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: order("a"), History: newHistory(t, history)})
	if err != nil {
		t.Fatal(err)
	}
	byModel := host.NewModelRouter("m", &host.ModelRouterOptions{Model: says("x")})
	if _, err := newHost(t, nil).Run(t.Context(), undescribed, &host.Request{Text: "hi", Router: byModel}); err == nil || !strings.Contains(err.Error(), "no description") {
		t.Errorf("Run with a model router of its own: %v; want a word on descriptions", err)
	}
	if calls := history.Calls(); len(calls) != 0 {
		t.Errorf("the history was called before: %q", calls)
	}
}

// delegating returns a router that delegates.
func delegating(name, to string) host.Router {
	return host.RouterFunc(name, func(context.Context, *host.RouteRequest) (*host.Route, error) {
		return &host.Route{Delegate: to, Cost: &host.Cost{Instructions: 1}}, nil
	})
}

func TestDelegation(t *testing.T) {
	once := host.RouterFunc("once", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount > 0 {
			return nil, nil
		}
		return host.Next("a"), nil
	})
	for name, c := range map[string]struct {
		router  host.Router
		routers []host.Router
		runs    int
		code    host.Code
		says    string
	}{
		"to a router of the network": {delegating("first", "once"), []host.Router{once}, 1, "", ""},
		"through others":             {delegating("first", "second"), []host.Router{delegating("second", "once"), once}, 1, "", ""},
		"to what is called default":  {delegating("first", "default"), []host.Router{host.InOrder("default", "a")}, 1, "", ""},
		"to a stranger, through one": {delegating("first", "second"), []host.Router{delegating("second", "third")}, 0, host.InvalidArgument, `"second" delegates to "third"`},
		"to nobody":                  {delegating("first", "third"), []host.Router{once}, 0, host.InvalidArgument, `delegates to "third"`},
		"in a circle":                {delegating("first", "second"), []host.Router{delegating("second", "third"), delegating("third", "second")}, 0, host.FailedPrecondition, "more than 4"},
		"to a model without words":   {delegating("first", "default"), nil, 0, host.InvalidArgument, "no description"},
	} {
		t.Run(name, func(t *testing.T) {
			network, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: c.router, Routers: c.routers})
			if err != nil {
				t.Fatal(err)
			}
			result, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi"})
			if host.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v; want code %q and %q", err, c.code, c.says)
			}
			if len(result.Results) != c.runs {
				t.Errorf("%d agents ran, want %d", len(result.Results), c.runs)
			}
			if err == nil && result.Cost.Instructions == 0 {
				t.Error("what the first router cost is lost")
			}
		})
	}
}

func TestOnRouteMayNameWhomItWants(t *testing.T) {
	answers := []string{"stranger", "a", ""}
	var view []string
	spy := host.ProcessorFunc("spy", func(_ context.Context, m []*host.Message) ([]*host.Message, error) {
		view = append(view, fmt.Sprint(len(m)))
		return m, nil
	})
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"), hosttest.Say("three"))
	router := host.NewModelRouter("custom", &host.ModelRouterOptions{
		Model: model, Instructions: "Name somebody.", Processors: []host.Processor{spy},
		OnRoute: func(_ context.Context, resp *llm.Response, req *host.RouteRequest) (*host.Route, error) {
			next := answers[0]
			answers = answers[1:]
			if next == "" {
				return nil, nil
			}
			return host.Next(next), nil
		}})
	network, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", "is a")}, &host.NetworkOptions{Router: router})
	if err != nil {
		t.Fatal(err)
	}
	result, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi"})
	if err != nil || len(result.Results) != 1 {
		t.Fatalf("Run: %+v, %v", result, err)
	}
	requests := model.Requests()
	if len(requests) != 3 || len(requests[0].Tools) != 0 || requests[0].Messages[0].Text() != "Name somebody." {
		t.Fatalf("%d requests, the first is %+v", len(requests), requests[0])
	}
	complaint := requests[1].Messages[len(requests[1].Messages)-1]
	if complaint.Role != host.User || complaint.Text() != `There is no agent "stranger"; choose one of: a.` {
		t.Errorf("the model is told %s", encode(complaint))
	}
	if diff := cmp.Diff([]string{"1", "3", "2"}, view); diff != "" {
		t.Errorf("messages the processor saw (-want +got):\n%s", diff)
	}
}

func TestOnRouteMayFail(t *testing.T) {
	broken := errors.New("broken")
	router := host.NewModelRouter("custom", &host.ModelRouterOptions{Model: says("x"), OnRoute: func(context.Context, *llm.Response, *host.RouteRequest) (*host.Route, error) {
		return nil, broken
	}})
	network, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", "is a")}, &host.NetworkOptions{Router: router})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi"}); !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %v", err, broken)
	}
}

func TestAModelRouterOutsideARunSaysSo(t *testing.T) {
	if _, err := host.NewModelRouter("m", nil).Route(t.Context(), &host.RouteRequest{}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Route: %v, want code %s", err, host.FailedPrecondition)
	}
}

func TestWhatARouterSees(t *testing.T) {
	var seen []string
	router := host.RouterFunc("spy", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		last := ""
		if req.Last != nil {
			last = req.Last.Agent
		}
		seen = append(seen, fmt.Sprintf("%d runs, last %q, waiting %v, %d messages, %d results, input %q, %d agents, model %s",
			req.CallCount, last, req.Stack, len(req.Messages), len(req.Results), req.Input.Text(), len(req.Agents), req.View().Model))
		return []*host.Route{host.Next("a", "b"), host.Stop(""), nil}[req.CallCount], nil
	})
	asleep, err := host.NewAgent("asleep", &host.AgentOptions{Model: says("x"), Enabled: func(context.Context, *host.InstructionsRequest) (bool, error) { return false, nil }})
	if err != nil {
		t.Fatal(err)
	}
	network, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", ""), agentNamed(t, "b", ""), asleep}, &host.NetworkOptions{Router: router, Model: &fixedModel{name: "big"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi", Messages: []*host.Message{host.UserText("before")}}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`0 runs, last "", waiting [], 2 messages, 0 results, input "hi", 2 agents, model big`,
		`1 runs, last "a", waiting [b], 3 messages, 1 results, input "hi", 2 agents, model big`,
		`2 runs, last "b", waiting [], 4 messages, 2 results, input "hi", 2 agents, model big`,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the router sees (-want +got):\n%s", diff)
	}
}

func TestEnabledMayFail(t *testing.T) {
	broken := errors.New("cannot tell")
	agent, err := host.NewAgent("a", &host.AgentOptions{Model: says("x"), Enabled: func(context.Context, *host.InstructionsRequest) (bool, error) { return false, broken }})
	if err != nil {
		t.Fatal(err)
	}
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("a")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "x"}); !errors.Is(err, broken) || !strings.Contains(err.Error(), `agent "a"`) {
		t.Errorf("Run: %v, want %v of agent a", err, broken)
	}
	if result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "x"}); err != nil || result.Text() != "x" {
		t.Errorf("on its own the agent answers %+v, %v", result, err)
	}
}

// An agent that has done its part may say so by not being enabled any more.
func TestAgentsMayAllBeDone(t *testing.T) {
	done := tool("finish", func(_ context.Context, call *host.Call) (string, error) { return "", call.State.Set("/done", true) })
	for name, c := range map[string]struct {
		router host.Router
		asked  []hosttest.Reply
	}{
		"in code":    {order("a"), nil},
		"by a model": {nil, []hosttest.Reply{hosttest.Call("select_agent", `{"name":"a"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			model := hosttest.NewModel(append(c.asked, hosttest.Call("finish", "{}"))...)
			a, err := host.NewAgent("a", &host.AgentOptions{Description: "Finishes.", Tools: []*host.Tool{done}, MaxRounds: 1,
				Enabled: func(_ context.Context, req *host.InstructionsRequest) (bool, error) {
					was, err := req.State.Get("/done", new(bool))
					return !was, err
				}})
			if err != nil {
				t.Fatal(err)
			}
			n := newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: c.router, Model: model})
			r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "go"})
			if err != nil || r.FinishReason != chat.FinishStop || len(r.Results) != 1 {
				t.Errorf("Run: %+v, %v; want one agent's run and the end", r, err)
			}
		})
	}
}

func TestARouterThatFloodsTheStack(t *testing.T) {
	many := host.RouterFunc("many", func(context.Context, *host.RouteRequest) (*host.Route, error) {
		return host.Next(strings.Split(strings.Repeat("a", 65), "")...), nil
	})
	network, err := host.NewNetwork("n", []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: many})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "x"}); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("Run: %v, want code %s", err, host.ResourceExhausted)
	}
}

func TestTemplateInstructions(t *testing.T) {
	const state = `{"name":"Ada","n":9007199254740993,"deep":{"list":["x","<y>"]},"tpl":"{{.state.name}}"}`
	for text, want := range map[string]string{
		"no template":                    "no template",
		"Hello {{.state.name}}!":         "Hello Ada!",
		"{{ .state.n }}":                 "9007199254740993",
		"{{.state.deep}}":                `{"list":["x","<y>"]}`,
		"{{.state.deep.list.1}}":         "<y>",
		"[{{.state.none}}]":              "[]",
		"[{{.state.name.more}}]":         "[]",
		"{{.state.tpl}}":                 "{{.state.name}}",
		"{{{.state.name}}}":              "{Ada}",
		"{{.state.name}}{{.state.name}}": "AdaAda",
		"{ {{.state.name}} }":            "{ Ada }",
	} {
		fn, err := host.TemplateInstructions(text)
		if err != nil {
			t.Errorf("TemplateInstructions(%q): %v", text, err)
			continue
		}
		got, err := fn(t.Context(), &host.InstructionsRequest{State: newState(t, state)})
		if err != nil || got != want {
			t.Errorf("%q becomes %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"{{.input}}", "{{.state.name | upper}}", "{{if .state.a}}x{{end}}", "{{.state.a-b}}", "{{", "{{ state.x }}", "{{.statement}}"} {
		if _, err := host.TemplateInstructions(text); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("TemplateInstructions(%q): %v, want code %s", text, err, host.InvalidArgument)
		}
	}
}

func TestInstructionsMayFail(t *testing.T) {
	agent := newAgent(t, &host.AgentOptions{Model: says("x"), InstructionsFunc: func(context.Context, *host.InstructionsRequest) (string, error) {
		return "", host.Errorf(host.NotFound, "no such customer")
	}})
	_, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "x"})
	if host.CodeOf(err) != host.NotFound || err.Error() != `instructions of agent "clerk": no such customer` {
		t.Errorf("Run: %v, want code %s", err, host.NotFound)
	}
}

func TestTargetsTellAboutThemselves(t *testing.T) {
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "", nil })
	a := newAgent(t, &host.AgentOptions{Description: "works", Tools: []*host.Tool{work}})
	n, err := host.NewNetwork("n", []*host.Agent{a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []host.AgentInfo{{Name: "clerk", Description: "works", Tools: []string{"work"}}}
	if diff := cmp.Diff(want, n.Agents()); diff != "" || n.Name() != "n" || a.Name() != "clerk" || a.Description() != "works" {
		t.Errorf("network %q with agents (-want +got):\n%s", n.Name(), diff)
	}
}
