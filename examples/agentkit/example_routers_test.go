package agentkit

import (
	"context"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

func classifierAndWriter(classifier, writer host.Model) []*host.Agent {
	return []*host.Agent{
		must(host.NewAgent("classifier", &host.AgentOptions{Description: "Says what kind of message it is.", Model: classifier})),
		must(host.NewAgent("writer", &host.AgentOptions{Description: "Writes the answer.", Model: writer})),
	}
}

func whoRan(r *host.RunResult) string {
	var names []string
	for _, res := range r.Results {
		names = append(names, res.Agent)
	}
	return strings.Join(names, ", ")
}

// A router in code is asked before the first agent and after each, with the number
// of agents that have run and the result of the last one. It names agents; nobody
// ends the run.
func Example_codeRouter() {
	router := host.RouterFunc("by-kind", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		switch {
		case req.CallCount == 0:
			return host.Next("classifier"), nil
		case req.CallCount == 1 && strings.Contains(req.Last.Text(), "question"):
			return host.Next("writer"), nil
		}
		return host.Stop("nothing to answer"), nil
	})
	agents := classifierAndWriter(says("a question", "a greeting"), says("42."))
	network := must(host.NewNetwork("post", agents, &host.NetworkOptions{Router: router}))
	fmt.Println(whoRan(run(network, host.Request{Text: "What is the answer?"})))
	fmt.Println(whoRan(run(network, host.Request{Text: "Good morning!"})))
	// Output:
	// classifier, writer
	// classifier
}

// What a router sees: the input, who still waits, how many have run, the last
// result of this run (never of an earlier one), the state, the conversation. It
// may name several agents at once.
func Example_routerArguments() {
	router := host.RouterFunc("both", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		last := "nobody"
		if req.Last != nil {
			last = req.Last.Agent
		}
		fmt.Printf("%d have run, the last is %s, waiting: %v, messages: %d\n", req.CallCount, last, req.Stack, len(req.Messages))
		if req.CallCount > 0 {
			return nil, nil
		}
		return host.Next("classifier", "writer"), nil
	})
	run(must(host.NewNetwork("post", classifierAndWriter(says("a question"), says("42.")), &host.NetworkOptions{Router: router})),
		host.Request{Text: "What is the answer?"})
	// Output:
	// 0 have run, the last is nobody, waiting: [], messages: 1
	// 1 have run, the last is classifier, waiting: [writer], messages: 2
	// 2 have run, the last is writer, waiting: [], messages: 3
}

// A routing agent is a model router with instructions, a model and processors of
// its own. OnRoute reads its answer; a name that the network does not have is
// reported back to the model. A plugin can be the reader instead.
func Example_routingAgent() {
	router := host.NewModelRouter("dispatcher", &host.ModelRouterOptions{
		Instructions: "Answer with the name of who should act next, or with NOBODY.",
		Model:        says("The writer!", "poet", "NOBODY"),
		OnRoute: func(_ context.Context, resp *llm.Response, req *host.RouteRequest) (*host.Route, error) {
			answer := (&host.Message{Parts: resp.Parts}).Text()
			for _, a := range req.Agents {
				if strings.Contains(answer, a.Name) {
					return host.Next(a.Name), nil
				}
			}
			if answer == "NOBODY" {
				return nil, nil
			}
			return host.Next(answer), nil
		},
	})
	network := must(host.NewNetwork("post", classifierAndWriter(says(), says("42.")), &host.NetworkOptions{Router: router}))
	fmt.Println(whoRan(run(network, host.Request{Text: "What is the answer?"})))
	// Output: writer
}

// A router in code takes the first decision and leaves the others to the network's
// model: it delegates, to "default" or to another router by name.
func Example_hybridRouter() {
	router := host.RouterFunc("first-the-classifier", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount == 0 {
			return host.Next("classifier"), nil
		}
		return &host.Route{Delegate: host.DefaultRouter}, nil
	})
	network := must(host.NewNetwork("post", classifierAndWriter(says("a question"), says("42.")), &host.NetworkOptions{
		Router: router,
		Model:  hosttest.NewModel(hosttest.Call("select_agent", `{"name":"writer"}`), hosttest.Call("done", `{}`)),
	}))
	fmt.Println(whoRan(run(network, host.Request{Text: "What is the answer?"})))
	// Output: classifier, writer
}

// A router may go by the state that tools have built.
func Example_stateRouting() {
	solve := host.NewTool("solve", "Notes the solution.", func(_ context.Context, call *host.Call, in struct {
		Solution string `json:"solution"`
	}) (string, error) {
		return "noted", call.State.Set("/solution", in.Solution)
	}, nil)
	agents := []*host.Agent{
		must(host.NewAgent("math", &host.AgentOptions{Tools: []*host.Tool{solve}, Model: hosttest.NewModel(
			hosttest.Say("I need more context."),
			hosttest.Call("solve", `{"solution":"x = 2"}`), hosttest.Say("Solved."))})),
		must(host.NewAgent("context", &host.AgentOptions{Model: says("x is a number.")})),
	}
	router := host.RouterFunc("until-solved", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		var solution string
		solved, err := req.State.Get("/solution", &solution)
		switch {
		case solved || err != nil:
			return host.Stop(solution), err
		case req.Last != nil && strings.Contains(req.Last.Text(), "more context"):
			return host.Next("context"), nil
		}
		return host.Next("math"), nil
	})
	result := run(must(host.NewNetwork("homework", agents, &host.NetworkOptions{Router: router})), host.Request{Text: "Solve it."})
	fmt.Println(whoRan(result))
	fmt.Println(string(result.State))
	// Output:
	// math, context, math
	// {"solution":"x = 2"}
}

// A router may return agents that the network does not have, and a router or a
// tool of any kind may name those that the network has on call.
func Example_agentsFromOutside() {
	translator := must(host.NewAgent("translator", &host.AgentOptions{Model: says("Zweiundvierzig.")}))
	proofreader := must(host.NewAgent("proofreader", &host.AgentOptions{Model: says("Zweiundvierzig!")}))
	router := host.RouterFunc("abroad", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		switch req.CallCount {
		case 0:
			return host.NextAgents(translator), nil
		case 1:
			return host.Next("proofreader"), nil
		}
		return nil, nil
	})
	network := must(host.NewNetwork("post", classifierAndWriter(says(), says()), &host.NetworkOptions{
		Router: router, OnCall: []*host.Agent{proofreader}}))
	fmt.Println(whoRan(run(network, host.Request{Text: "Forty-two, in German."})))
	// Output: translator, proofreader
}
