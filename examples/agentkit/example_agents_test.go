package agentkit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// An agent on its own: a name, instructions, a model. Running it is a question to
// the model, with the instructions before the input.
func Example_codeWriter() {
	model := says("function trimAll(s: string) { return s.replace(/\\s+/g, ' '); }")
	writer := must(host.NewAgent("code-writer", &host.AgentOptions{
		Instructions: "You write TypeScript. Answer with code and nothing else.",
		Model:        model,
	}))
	result := run(writer, host.Request{Text: "Write a function that removes unneeded white space."})
	fmt.Println(result.Text())
	show(model.Requests()[0].Messages)
	// Output:
	// function trimAll(s: string) { return s.replace(/\s+/g, ' '); }
	// system: You write TypeScript. Answer with code and nothing else.
	// user: Write a function that removes unneeded white space.
}

// Tools are given to the agent. What the model calls is run before the agent
// answers, and the model sees the result: AgentKit would stop after one question,
// which is MaxRounds: 1 here.
func Example_agentWithTools() {
	type charge struct {
		User string `json:"user"`
		Cent int    `json:"cent"`
	}
	list := host.NewTool("list_charges", "Lists what a user was charged.",
		func(_ context.Context, _ *host.Call, in struct {
			Users []string `json:"users"`
		}) ([]charge, error) {
			var out []charge
			for _, u := range in.Users {
				out = append(out, charge{u, 995})
			}
			return out, nil
		}, nil)
	support := must(host.NewAgent("support", &host.AgentOptions{
		Instructions: "You help customers with their bills.",
		Model:        hosttest.NewModel(hosttest.Call("list_charges", `{"users":["ada"]}`), hosttest.Say("You were charged 9.95.")),
		Tools:        []*host.Tool{list},
	}))
	show(run(support, host.Request{Text: "What did I pay?"}).Results[0].Messages)
	// Output:
	// assistant calls list_charges {"users":["ada"]}
	// tool: list_charges: [{"user":"ada","cent":995}]
	// assistant: You were charged 9.95.
}

// A hook before each model call sees the instructions, the history and the state
// and may change what the model is sent. It returns nothing: what it leaves in its
// argument counts, so it cannot forget half of it.
func Example_onStart() {
	model := says("done")
	agent := must(host.NewAgent("code-writer", &host.AgentOptions{
		Instructions: "You write TypeScript.",
		Model:        model,
		Hooks: host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
			var style string
			if _, err := at.State.Get("/style", &style); err != nil {
				return err
			}
			at.Instructions += " Style: " + style + "."
			at.Messages = append(at.Messages, host.UserText("(Keep it short.)"))
			return nil
		}},
	}))
	run(agent, host.Request{Text: "Write a parser.", State: map[string]string{"style": "no semicolons"}})
	show(model.Requests()[0].Messages)
	// Output:
	// system: You write TypeScript. Style: no semicolons.
	// user: Write a parser.
	// user: (Keep it short.)
}

// Instructions may be made anew for each run of the agent, from the network's
// state: here, of the files that other agents have written.
func Example_dynamicInstructions() {
	type state struct {
		Files map[string]string `json:"files"`
	}
	model := says("done")
	agent := must(host.NewAgent("code-writer", &host.AgentOptions{
		Description: "Writes and debugs TypeScript.",
		Model:       model,
		InstructionsFunc: func(_ context.Context, req *host.InstructionsRequest) (string, error) {
			text := "You write TypeScript."
			s, err := host.StateAs[state](req.State)
			for _, name := range slices.Sorted(maps.Keys(s.Files)) {
				text += fmt.Sprintf(" <file name=%q>%s</file>", name, s.Files[name])
			}
			return text, err
		},
	}))
	network := must(host.NewNetwork("coders", []*host.Agent{agent}, &host.NetworkOptions{
		Router: host.InOrder("line", "code-writer"),
		State:  state{Files: map[string]string{"a.ts": "let a = 1"}},
	}))
	run(network, host.Request{Text: "Add b."})
	show(model.Requests()[0].Messages[:1])
	// Output: system: You write TypeScript. <file name="a.ts">let a = 1</file>
}

// Instructions that never change are a string. In a configuration, and with
// host.TemplateInstructions in Go, a string may insert state: {{.state.path}}.
func Example_staticInstructions() {
	model := says("Fine as it is.")
	editor := must(host.NewAgent("copy-editor", &host.AgentOptions{
		Instructions: "You improve the spelling, grammar and form of drafts.",
		Model:        model,
	}))
	fmt.Println(run(editor, host.Request{Text: "A draft."}).Text())
	// Output: Fine as it is.
}

// A model picks agents by their descriptions. In a network that a model routes,
// one without is refused when the network is made.
func Example_agentDescription() {
	writer := must(host.NewAgent("code-writer", &host.AgentOptions{
		Description: "Writes and debugs TypeScript. Choose it when code is needed.",
		Model:       says(),
	}))
	_, err := host.NewNetwork("coders", []*host.Agent{writer}, nil)
	fmt.Println(err)
	_, err = host.NewNetwork("coders", []*host.Agent{must(host.NewAgent("reviewer", nil))}, nil)
	fmt.Println(err)
	// Output:
	// <nil>
	// agent "reviewer" of network "coders" has no description; the model that routes picks agents by their descriptions
}
