package agentkit

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

type between struct {
	From string `json:"from" jsonschema:"first day, as 2025-01-31"`
	To   string `json:"to" jsonschema:"last day"`
}

// A tool is a name, a description, parameters and a function. The parameters are
// a Go type, of which the schema is made, or a JSON Schema (host.NewRawTool).
// Arguments are checked against it, and the model is told what does not fit.
func Example_listCharges() {
	list := host.NewTool("list_charges", "Lists what a user was charged between two days.",
		func(_ context.Context, _ *host.Call, in struct {
			User    string  `json:"user"`
			Created between `json:"created"`
		}) ([]string, error) {
			return []string{in.User + " paid 9.95 on " + in.Created.From}, nil
		}, nil)
	agent := must(host.NewAgent("support", &host.AgentOptions{
		Model: hosttest.NewModel(
			hosttest.Call("list_charges", `{"user":"ada","created":"May"}`),
			hosttest.Call("list_charges", `{"user":"ada","created":{"from":"2025-05-01","to":"2025-05-31"}}`),
			hosttest.Say("9.95 in May.")),
		Tools: []*host.Tool{list},
	}))
	show(run(agent, host.Request{Text: "What did I pay in May?"}).Results[0].Messages)
	// Output:
	// assistant calls list_charges {"user":"ada","created":"May"}
	// tool: list_charges: "the arguments do not fit the schema: /created: got string, want object"
	// assistant calls list_charges {"user":"ada","created":{"from":"2025-05-01","to":"2025-05-31"}}
	// tool: list_charges: ["ada paid 9.95 on 2025-05-01"]
	// assistant: 9.95 in May.
}

// An optional parameter is a pointer, or has omitempty. The model is told that it
// is required and may be null, which providers with strict schemas ask for; null
// and nothing both reach Go as nil.
func Example_optionalParameters() {
	list := host.NewTool("list_charges", "Lists what a user was charged.",
		func(_ context.Context, _ *host.Call, in struct {
			User    string   `json:"user"`
			Created *between `json:"created"`
		}) (string, error) {
			if in.Created == nil {
				return "all of " + in.User + "'s", nil
			}
			return "since " + in.Created.From, nil
		}, nil)
	agent := must(host.NewAgent("support", &host.AgentOptions{
		Model: hosttest.NewModel(
			hosttest.Call("list_charges", `{"user":"ada","created":null}`).Call("list_charges", `{"user":"ada"}`),
			hosttest.Say("Here they are.")),
		Tools: []*host.Tool{list},
	}))
	for _, r := range run(agent, host.Request{Text: "What did I pay?"}).Results[0].ToolResults() {
		fmt.Println(r.ContentText())
	}
	// Output:
	// all of ada's
	// all of ada's
}
