package agentkit

import (
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

func searchAndSummary(models ...host.Model) []*host.Agent {
	var search, summary host.Model
	if len(models) == 2 {
		search, summary = models[0], models[1]
	}
	return []*host.Agent{
		must(host.NewAgent("search", &host.AgentOptions{Description: "Searches the web.", Model: search})),
		must(host.NewAgent("summary", &host.AgentOptions{Description: "Sums up what was found.", Model: summary})),
	}
}

// A network without a router of its own asks its model who is next, until the
// model is done.
func Example_searchAndSummary() {
	model := hosttest.NewModel(
		hosttest.Call("select_agent", `{"name":"search"}`), hosttest.Say("The Chiefs won, 25 to 22."),
		hosttest.Call("select_agent", `{"name":"summary"}`), hosttest.Say("The Chiefs won."),
		hosttest.Call("done", `{"summary":"answered"}`))
	network := must(host.NewNetwork("news", searchAndSummary(), &host.NetworkOptions{Model: model}))
	for _, r := range run(network, host.Request{Text: "Who won the Super Bowl of 2024?"}).Results {
		fmt.Printf("%s: %s\n", r.Agent, r.Text())
	}
	// Output:
	// search: The Chiefs won, 25 to 22.
	// summary: The Chiefs won.
}

// The network's model is for agents without one, and for routing. A model that is
// missing is found before anything is stored or sent; host.Check finds it when the
// program starts.
func Example_defaultModel() {
	agents := searchAndSummary()
	without := must(host.NewNetwork("news", agents, &host.NetworkOptions{Router: host.InOrder("line", "search")}))
	with := must(host.NewNetwork("news", agents, &host.NetworkOptions{Router: host.InOrder("line", "search"), Model: says("found")}))
	h := must(host.New(&host.Options{SingleTenant: true}))
	fmt.Println(h.Check(without))
	fmt.Println(h.Check(with))
	// Output:
	// agent "search" has no model; set one on the agent, the network, the host or the request
	// <nil>
}

// Agents may have models of several providers in one network. The request's model
// beats the agent's, which beats the network's, which beats the host's.
func Example_modelsPerAgent() {
	agents := []*host.Agent{
		must(host.NewAgent("search", nil)),
		must(host.NewAgent("summary", &host.AgentOptions{Model: says("by the small model").Named("small")})),
	}
	network := must(host.NewNetwork("news", agents, &host.NetworkOptions{
		Router: host.InOrder("line", "search", "summary"),
		Model:  says("by the large model").Named("large"),
	}))
	for _, r := range run(network, host.Request{Text: "News?"}).Results {
		fmt.Printf("%s: %s\n", r.Agent, r.Text())
	}
	for _, r := range run(network, host.Request{Text: "News?", Model: says("by mine", "by mine")}).Results {
		fmt.Printf("%s: %s\n", r.Agent, r.Text())
	}
	// Output:
	// search: by the large model
	// summary: by the small model
	// search: by mine
	// summary: by mine
}

// MaxIterations bounds the agents that run, and the questions to the router: with
// 2, the router is asked twice. What it would have said after the second agent is
// not known, so the run says that the limit ended it. Without one, the host's
// limit holds: no network runs for ever.
func Example_maxIterations() {
	network := must(host.NewNetwork("news", searchAndSummary(), &host.NetworkOptions{
		Model: hosttest.NewModel(
			hosttest.Call("select_agent", `{"name":"search"}`), hosttest.Say("found"),
			hosttest.Call("select_agent", `{"name":"search"}`), hosttest.Say("found again")),
		MaxIterations: 2,
	}))
	result := run(network, host.Request{Text: "News?"})
	fmt.Println(len(result.Results), result.FinishReason)
	// Output: 2 max_iterations
}

// A network's default state is where each run begins. A run gets a copy, all the
// way down, overlaid by what the request brings; it is returned at the end, and
// stored with the thread if there is one.
func Example_defaultState() {
	defaults := map[string]any{"foo": "bar", "list": []int{1}}
	network := must(host.NewNetwork("news", searchAndSummary(says("found", "found"), says()), &host.NetworkOptions{
		Router: host.InOrder("line", "search"),
		State:  defaults,
	}))
	fmt.Println(string(run(network, host.Request{Text: "News?"}).State))
	fmt.Println(string(run(network, host.Request{Text: "News?", State: map[string]string{"foo": "mine"}}).State))
	fmt.Println(defaults)
	// Output:
	// {"foo":"bar","list":[1]}
	// {"foo":"mine","list":[1]}
	// map[foo:bar list:[1]]
}
