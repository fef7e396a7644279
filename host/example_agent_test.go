package host_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// Hooks see, and may change, what passes through an agent: here the cards of
// customers are kept from the model, and a call is answered without its tool.
func ExampleHooks() {
	hooks := host.Hooks{
		Start: func(_ context.Context, at *host.StartHook) error {
			for i, m := range at.Messages {
				if m.Role == host.User {
					at.Messages[i] = host.UserText("My card is **** and it does not work.")
				}
			}
			return nil
		},
		ToolStart: func(_ context.Context, at *host.ToolStartHook) error {
			fmt.Println("before", at.Tool, string(at.Arguments))
			at.Output = &host.ToolOutput{Content: json.RawMessage(`"the card has expired"`)}
			return nil
		},
	}
	check := host.NewTool("check", "Checks a card.", func(context.Context, *host.Call, struct{}) (string, error) {
		return "", fmt.Errorf("the bank is closed")
	}, nil)
	model := hosttest.NewModel(hosttest.Call("check", `{}`), hosttest.Say("Your card has expired."))
	agent, _ := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{check}, Hooks: hooks})
	h, _ := host.New(&host.Options{SingleTenant: true})
	result, err := h.Run(context.Background(), agent, &host.Request{Text: "My card is 4111 1111 1111 1111 and it does not work."})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the model was told:", model.Requests()[0].Messages[0].Text())
	fmt.Println(result.Text())
	// Output:
	// before check {}
	// the model was told: My card is **** and it does not work.
	// Your card has expired.
}

// An agent whose work is done when a tool was called need not be asked for more.
func ExampleStopAfterTool() {
	book := host.NewTool("book", "Books a table.", func(_ context.Context, _ *host.Call, in struct {
		People int `json:"people"`
	}) (string, error) {
		return fmt.Sprintf("booked for %d", in.People), nil
	}, nil)
	model := hosttest.NewModel(hosttest.Call("book", `{"people":4}`))
	agent, _ := host.NewAgent("waiter", &host.AgentOptions{Model: model, Tools: []*host.Tool{book}, StopWhen: host.StopAfterTool("book")})
	h, _ := host.New(&host.Options{SingleTenant: true})
	result, err := h.Run(context.Background(), agent, &host.Request{Text: "A table for four."})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Results[0].ToolResults()[0].ContentText(), "after", result.Results[0].Rounds, "model call")
	// Output: booked for 4 after 1 model call
}

// An agent asks another one as it would call a tool.
func ExampleNewAgentTool() {
	expert, _ := host.NewAgent("expert", &host.AgentOptions{
		Description: "Knows all about wine.", Model: hosttest.NewModel(hosttest.Say("A dry Riesling."))})
	ask, _ := host.NewAgentTool(expert, nil)
	waiter, _ := host.NewAgent("waiter", &host.AgentOptions{Tools: []*host.Tool{ask}, Model: hosttest.NewModel(
		hosttest.Call("expert", `{"request":"Which wine goes with trout?"}`), hosttest.Say("The Riesling, I am told."))})
	h, _ := host.New(&host.Options{SingleTenant: true})
	result, err := h.Run(context.Background(), waiter, &host.Request{Text: "A wine for my trout?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Results[0].ToolResults()[0].ContentText())
	fmt.Println(result.Text())
	// Output:
	// A dry Riesling.
	// The Riesling, I am told.
}

// A provider's tools are declared in its own words; each model is sent those of
// its provider.
func ExampleProviderTool() {
	search := []host.ProviderTool{
		{Provider: "anthropic", Declaration: json.RawMessage(`{"type":"web_search_20250305","name":"web_search","max_uses":5}`)},
		{Provider: "responses", Declaration: json.RawMessage(`{"type":"web_search"}`)},
	}
	model := hosttest.NewModel(hosttest.Say("It rains."))
	agent, _ := host.NewAgent("reporter", &host.AgentOptions{Model: model, ProviderTools: search})
	h, _ := host.New(&host.Options{SingleTenant: true})
	if _, err := h.Run(context.Background(), agent, &host.Request{Text: "How is the weather in Lyon?"}); err != nil {
		fmt.Println(err)
		return
	}
	for _, declared := range model.Requests()[0].ProviderToolsOf("responses") {
		fmt.Println(string(declared))
	}
	// Output: {"type":"web_search"}
}

// What is said to all agents for one message alone, and who answers it.
func ExampleRequest() {
	agent, _ := host.NewAgent("guide", &host.AgentOptions{Instructions: "You know Lyon.", Model: hosttest.NewModel(hosttest.Say("Go to the river."))})
	h, _ := host.New(&host.Options{SingleTenant: true})
	other := hosttest.NewModel(hosttest.Say("Va au fleuve."))
	result, err := h.Run(context.Background(), agent, &host.Request{
		Text: "Where do I go?", Instructions: "Answer in French.", Model: other})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", other.Requests()[0].Messages[0].Text())
	fmt.Println(result.Text())
	// Output:
	// "You know Lyon.\n\nAnswer in French."
	// Va au fleuve.
}

// Instructions that depend on what the network has come to.
func ExampleInstructionsFunc() {
	writer, _ := host.NewAgent("writer", &host.AgentOptions{
		InstructionsFunc: func(_ context.Context, req *host.InstructionsRequest) (string, error) {
			var files map[string]string
			if _, err := req.State.Get("/files", &files); err != nil {
				return "", err
			}
			if len(files) == 0 {
				return "You write Go.", nil
			}
			return fmt.Sprintf("You write Go. There are %d files already.", len(files)), nil
		},
		Model: hosttest.NewModel(hosttest.Say("package main")),
	})
	h, _ := host.New(&host.Options{SingleTenant: true})
	model := hosttest.NewModel(hosttest.Say("package main"))
	_, err := h.Run(context.Background(), writer, &host.Request{Text: "A server.", Model: model,
		State: map[string]any{"files": map[string]string{"main.go": "package main"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(model.Requests()[0].Messages[0].Text())
	// Output: You write Go. There are 1 files already.
}
