package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// ranIn returns who ran, in order.
func ranIn(r *host.RunResult) []string {
	var names []string
	for _, res := range r.Results {
		names = append(names, res.Agent)
	}
	return names
}

// routes returns a router that gives these routes, one after the other.
func routes(list ...*host.Route) host.Router {
	return host.RouterFunc("routes", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount >= len(list) {
			return nil, nil
		}
		return list[req.CallCount], nil
	})
}

// answering returns a model that gives the same answer each time.
func answering(text string) host.Model {
	return hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say(text) })
}

func newNetwork(t testing.TB, agents []*host.Agent, opts *host.NetworkOptions) *host.Network {
	t.Helper()
	n, err := host.NewNetwork("n", agents, opts)
	if err != nil {
		t.Fatalf("NewNetwork: %v", err)
	}
	return n
}

func TestARouterMayBringAgentsAlong(t *testing.T) {
	a, stranger := agentNamed(t, "a", ""), agentNamed(t, "stranger", "")
	for name, c := range map[string]struct {
		routes []*host.Route
		want   []string
	}{
		"alone":                  {[]*host.Route{host.NextAgents(stranger)}, []string{"stranger"}},
		"after names":            {[]*host.Route{{Next: []string{"a"}, Agents: []*host.Agent{stranger}}}, []string{"a", "stranger"}},
		"and name them later":    {[]*host.Route{host.NextAgents(stranger), host.Next("stranger", "a")}, []string{"stranger", "stranger", "a"}},
		"that the network knows": {[]*host.Route{host.NextAgents(a, a)}, []string{"a", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: routes(c.routes...)})
			r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi", Model: answering("x")})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, ranIn(r)); diff != "" {
				t.Errorf("who ran (-want +got):\n%s", diff)
			}
			if infos := n.Agents(); len(infos) != 1 {
				t.Errorf("the network has the agents %+v, want a alone: what a run brings along is the run's", infos)
			}
		})
	}
}

func TestAgentsThatARouterMayNotBring(t *testing.T) {
	own := newAgent(t, &host.AgentOptions{Model: says("x"), History: newHistory(t, hosttest.NewHistory())})
	without, err := host.NewAgent("without", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		agent *host.Agent
		says  string
	}{
		"nil":                      {nil, `router "routes": it returns an agent that is nil`},
		"another of a known name":  {agentNamed(t, "a", ""), `router "routes": it returns an agent named "a", and network "n" has another one of that name`},
		"one with its own history": {own, `router "routes": agent "clerk" of network "n" has a history of its own`},
		"one without a model":      {without, `router "routes": agent "without" has no model`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: routes(host.Next("a"), host.NextAgents(c.agent))})
			r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi"})
			if host.CodeOf(err) != host.InvalidArgument || !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("Run: %v; want code %s and %q", err, host.InvalidArgument, c.says)
			}
			if !slices.Equal(ranIn(r), []string{"a"}) {
				t.Errorf("%q ran, want a", ranIn(r))
			}
		})
	}
}

// An agent on call is known by name and offered to nobody.
func TestAgentsOnCall(t *testing.T) {
	specialist := agentNamed(t, "specialist", "")
	call := tool("ring", func(_ context.Context, call *host.Call) (string, error) {
		call.Schedule("specialist")
		return "on the way", nil
	})
	clerk := newAgent(t, &host.AgentOptions{Description: "answers", Model: hosttest.NewModel(hosttest.Call("ring", "{}"), hosttest.Say("wait")), Tools: []*host.Tool{call}})
	router := hosttest.NewModel(hosttest.Call("select_agent", `{"name":"specialist"}`), hosttest.Call("select_agent", `{"name":"clerk"}`), hosttest.Call("done", "{}"), hosttest.Call("done", "{}"))
	n := newNetwork(t, []*host.Agent{clerk}, &host.NetworkOptions{Model: router, OnCall: []*host.Agent{specialist}})
	r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ranIn(r), []string{"clerk", "specialist"}) {
		t.Errorf("%q ran, want clerk and specialist", ranIn(r))
	}
	for i, req := range router.Requests() {
		if strings.Contains(req.Messages[0].Text(), "specialist") {
			t.Errorf("question %d tells the model of an agent on call: %s", i, req.Messages[0].Text())
		}
	}
	complaint := router.Requests()[1].Messages
	if got := complaint[len(complaint)-1].ToolResults()[0].ContentText(); got != `There is no agent "specialist"; choose one of: clerk.` {
		t.Errorf("a model that names it is told %q", got)
	}
}

func TestInOrder(t *testing.T) {
	agents := []*host.Agent{agentNamed(t, "a", ""), agentNamed(t, "b", "")}
	n := newNetwork(t, agents, &host.NetworkOptions{Router: host.InOrder("line", "b", "a")})
	r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi"})
	if err != nil || !slices.Equal(ranIn(r), []string{"b", "a"}) || r.FinishReason != chat.FinishStop {
		t.Errorf("%q ran and the run ended with %q, %v; want b, a and stop", ranIn(r), r.FinishReason, err)
	}
}

func TestCheckFindsAMissingModel(t *testing.T) {
	without := func(name string) *host.Agent {
		a, err := host.NewAgent(name, &host.AgentOptions{Description: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	deep, err := host.NewAgentTool(without("deep"), nil)
	if err != nil {
		t.Fatal(err)
	}
	within := newAgent(t, &host.AgentOptions{Model: says("x"), Tools: []*host.Tool{deep}})
	a, order := agentNamed(t, "a", "is a"), host.InOrder("line", "a")
	for name, c := range map[string]struct {
		target host.Target
		opts   *host.Options
		says   string // empty: nothing is wrong
	}{
		"an agent":                     {without("lone"), nil, `agent "lone" has no model`},
		"an agent, and the host's":     {without("lone"), &host.Options{Model: says("x")}, ""},
		"an agent's tool":              {within, nil, `agent "deep" has no model`},
		"a network's agent":            {newNetwork(t, []*host.Agent{a, without("b")}, &host.NetworkOptions{Router: order}), nil, `agent "b" has no model`},
		"an agent on call":             {newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: order, OnCall: []*host.Agent{without("c")}}), nil, `agent "c" has no model`},
		"the network's":                {newNetwork(t, []*host.Agent{without("b")}, &host.NetworkOptions{Model: says("x")}), nil, ""},
		"a model router":               {newNetwork(t, []*host.Agent{a}, nil), nil, `model router "default" has no model`},
		"a model to delegate to":       {newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: order, Routers: []host.Router{host.NewModelRouter("m", nil)}}), nil, `model router "m" has no model`},
		"a model router with its own":  {newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: host.NewModelRouter("m", &host.ModelRouterOptions{Model: says("x")})}), nil, ""},
		"agents and a router in order": {newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: order}), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := newHost(t, c.opts).Check(c.target)
			if c.says == "" && err == nil {
				return
			}
			if c.says == "" || host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Check: %v; want %q", err, c.says)
			}
		})
	}
}

// What a router brings along belongs to its run: another run has another agent
// under the same name.
func TestRunsBringTheirOwnAgents(t *testing.T) {
	router := host.RouterFunc("own", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount == 2 {
			return nil, nil
		}
		if req.CallCount == 1 {
			return host.Next("own"), nil
		}
		own, err := host.NewAgent("own", &host.AgentOptions{Model: answering(req.Scope.Tenant)})
		return host.NextAgents(own), err
	})
	n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: router})
	h := newHost(t, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			tenant := fmt.Sprint("tenant", i)
			r, err := h.Run(t.Context(), n, &host.Request{Tenant: tenant, Text: "hi"})
			if err != nil {
				t.Error(err)
				return
			}
			for _, res := range r.Results {
				if res.Text() != tenant {
					t.Errorf("%s is answered by %s's agent", tenant, res.Text())
				}
			}
			if len(r.Results) != 2 {
				t.Errorf("%d agents ran, want 2", len(r.Results))
			}
		})
	}
	wg.Wait()
}
