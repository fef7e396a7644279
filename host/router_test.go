package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

const agentList = "The agents:\n- a: is a\n"

func TestWhatAModelRouterIsTold(t *testing.T) {
	templated := func(_ context.Context, req *host.RouteRequest) (string, error) {
		var mood string
		_, err := req.State.Get("/mood", &mood)
		return "Be " + mood + ". " + host.AgentList(req.Agents), err
	}
	stop := func(context.Context, *llm.Response, *host.RouteRequest) (*host.Route, error) { return nil, nil }
	for name, c := range map[string]struct {
		opts  host.ModelRouterOptions
		want  string // the system prompt, or how it ends
		tools int
	}{
		"by default":                        {host.ModelRouterOptions{}, "without need.\n\n" + agentList, 2},
		"instructions, and who there is":    {host.ModelRouterOptions{Instructions: "Be quick."}, "Be quick.\n\n" + agentList, 2},
		"instructions alone, with OnRoute":  {host.ModelRouterOptions{Instructions: "Be quick.", OnRoute: stop}, "Be quick.", 0},
		"instructions alone, with a reader": {host.ModelRouterOptions{Instructions: "Be quick.", Reader: order()}, "Be quick.", 0},
		"by a function":                     {host.ModelRouterOptions{InstructionsFunc: templated}, "Be kind. " + agentList, 2},
	} {
		t.Run(name, func(t *testing.T) {
			model := says("nobody")
			c.opts.Model = model
			n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "is a")}, &host.NetworkOptions{Router: host.NewModelRouter("m", &c.opts), State: map[string]string{"mood": "kind"}})
			if _, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi"}); err != nil {
				t.Fatal(err)
			}
			req := model.Requests()[0]
			if got := req.Messages[0].Text(); !strings.HasSuffix(got, c.want) || len(req.Tools) != c.tools {
				t.Errorf("the model is told %q with %d tools; want %q and %d", got, len(req.Tools), c.want, c.tools)
			}
		})
	}
}

func TestInstructionsOfAModelRouterMayFail(t *testing.T) {
	broken := errors.New("broken")
	router := host.NewModelRouter("m", &host.ModelRouterOptions{Model: says("x"), InstructionsFunc: func(context.Context, *host.RouteRequest) (string, error) { return "", broken }})
	n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "is a")}, &host.NetworkOptions{Router: router})
	if _, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi"}); !errors.Is(err, broken) || err.Error() != `router "m": instructions: broken` {
		t.Errorf("Run: %v, want %v", err, broken)
	}
}

// A router may read what a routing model has said: so a plugin can do what
// OnRoute does in Go.
func TestReadersOfRoutingModels(t *testing.T) {
	reader := func(read func(req *host.RouteRequest) (*host.Route, error)) host.Router {
		return host.RouterFunc("reader", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) { return read(req) })
	}
	byName := reader(func(req *host.RouteRequest) (*host.Route, error) {
		if name := req.Last.Text(); name != "nobody" {
			return host.Next(strings.Fields(name)...), nil
		}
		return nil, nil
	})
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		reader  host.Router
		answers []string
		want    []string
		err     string
	}{
		"one, then nobody":  {byName, []string{"a", "nobody"}, []string{"a"}, ""},
		"two at once":       {byName, []string{"b a", "nobody", "nobody"}, []string{"b", "a"}, ""},
		"an invented name":  {byName, []string{"z", "b", "nobody"}, []string{"b"}, ""},
		"invented for ever": {byName, []string{"z", "y", "x"}, nil, `model router "m" named no agent of the network in 3 attempts`},
		"to another router": {reader(func(*host.RouteRequest) (*host.Route, error) { return &host.Route{Delegate: "line"}, nil }), []string{"x", "x"}, []string{"a"}, ""},
		"one brought along": {reader(func(req *host.RouteRequest) (*host.Route, error) { return host.NextAgents(agentNamed(t, "c", "")), nil }), []string{"x", "x"}, []string{"c"}, `another one of that name`},
		"an error":          {reader(func(*host.RouteRequest) (*host.Route, error) { return nil, broken }), []string{"x"}, nil, `router "m": reader "reader": broken`},
		"what the model said": {reader(func(req *host.RouteRequest) (*host.Route, error) {
			return host.Stop(req.Last.Agent + " said " + req.Last.Text()), nil
		}), []string{"x"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var replies []hosttest.Reply
			for _, text := range c.answers {
				replies = append(replies, hosttest.Say(text))
			}
			model := hosttest.NewModel(replies...)
			n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "is a"), agentNamed(t, "b", "is b")}, &host.NetworkOptions{
				Router: host.NewModelRouter("m", &host.ModelRouterOptions{Model: model, Reader: c.reader}), Routers: []host.Router{host.InOrder("line", "a")}})
			var reasons []string
			var result *host.RunResult
			var failure error
			for ev, err := range newHost(t, nil).Stream(t.Context(), n, &host.Request{Text: "hi"}) {
				failure = err
				switch d := ev.Data.(type) {
				case *runevent.RouteChosen:
					reasons = append(reasons, d.Reason)
				case *runevent.RunFinished:
					result = d.Result
				}
			}
			if (failure != nil) != (c.err != "") || failure != nil && !strings.Contains(failure.Error(), c.err) {
				t.Errorf("Run: %v, want %q", failure, c.err)
			}
			if diff := cmp.Diff(c.want, ranIn(result)); diff != "" {
				t.Errorf("who ran (-want +got):\n%s", diff)
			}
			if model.Left() > 0 {
				t.Errorf("the model was not asked %d times", model.Left())
			}
			if name == "what the model said" && !slices.Equal(reasons, []string{"m said x"}) {
				t.Errorf("the reader gives %q", reasons)
			}
		})
	}
}
