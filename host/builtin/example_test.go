package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/builtin"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
)

// compiled is a directory that outlives the process: a plugin is compiled once.
var compiled = testcode.Dir()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A customer support application filters at three levels, in their order: what no
// model ever sees, what fits a model, and what suits one agent. The first page of the
// program is the configuration; the second runs it.
func Example() {
	// 1. History: applied everywhere. No model should ever see debug tool calls.
	history := must(host.NewHistory(hosttest.NewHistory(), &host.HistoryOptions{
		Processors: []host.Processor{builtin.Must(builtin.NewToolCallFilter(&builtin.ToolCallFilterOptions{Exclude: []string{"debug_tool"}}))},
	}))

	// 2. Network: what every agent of it is shown fits its model.
	limits := &host.NetworkOptions{
		Router:     host.InOrder("line", "pro", "greeter"),
		History:    history, // inherits its policy
		Processors: []host.Processor{builtin.Must(builtin.NewTokenLimiter(16000, &builtin.TokenLimiterOptions{Encoding: "cl100k_base"}))},
	}

	// 3. Agent: the greeter is simple and should not see tool calls at all.
	greeter := must(host.NewAgent("greeter", &host.AgentOptions{
		Instructions: "You are a friendly greeter.",
		Model:        greets,
		Processors:   []host.Processor{builtin.Must(builtin.NewToolCallFilter(nil))},
	}))
	support := must(host.NewNetwork("pro support", []*host.Agent{pro(), greeter}, limits))

	h := must(host.New(nil))
	for _, text := range []string{"Where is my order?", "Are you sure?"} {
		result := must(h.Run(context.Background(), support, &host.Request{Tenant: "acme", Thread: "T", Text: text}))
		fmt.Println(result.Text())
	}
	fmt.Println("pro is shown of the first turn", shown["pro"])
	fmt.Println("greeter is shown", shown["greeter"])
	// Output:
	// Hello! Your order is on its way.
	// Hello! Your order is on its way.
	// pro is shown of the first turn [search]
	// greeter is shown []
}

// shown are the tools whose results each agent's model was shown when it was asked
// first in a turn.
var shown = map[string][]string{}

func look(req *llm.Request) {
	shown[req.Scope.Agent] = nil
	for _, m := range req.Messages {
		for _, r := range m.ToolResults() {
			shown[req.Scope.Agent] = append(shown[req.Scope.Agent], r.Name)
		}
	}
}

var greets = hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
	look(req)
	return hosttest.Say("Hello! Your order is on its way.")
})

// pro is an agent that searches and debugs, once a turn.
func pro() *host.Agent {
	tool := func(name string) *host.Tool {
		return host.NewTool(name, "", func(context.Context, *host.Call, struct{}) (string, error) { return "done", nil }, nil)
	}
	return must(host.NewAgent("pro", &host.AgentOptions{Tools: []*host.Tool{tool("search"), tool("debug_tool")},
		Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			if req.Messages[len(req.Messages)-1].Role != host.User { // its own calls are answered
				return hosttest.Say("It was sent on Monday.")
			}
			look(req)
			return hosttest.Call("search", `{}`).Call("debug_tool", `{}`)
		})}))
}

// A program that takes configurations from people makes processors of JSON; what is
// wrong is found before anything runs.
func ExampleNew() {
	for _, config := range []string{`{"limit":8000}`, `{"limit":8000,"encoding":"cl200k"}`, `{"limits":8000}`} {
		p, err := builtin.New("tokenlimiter", json.RawMessage(config), nil)
		fmt.Println(p != nil, err)
	}
	// Output:
	// true <nil>
	// false config of tokenlimiter: encoding is "cl200k", not one of o200k_base, cl100k_base, p50k_base, r50k_base, gpt2, model; for example 8000, or {"limit":16000,"encoding":"cl100k_base"}
	// false config of tokenlimiter: it has the unknown key "limits"; known are limit, encoding, useTiktoken, tokenizer, reserve and oversize; for example 8000, or {"limit":16000,"encoding":"cl100k_base"}
}

// With a sandbox the same processor is a plugin, and what it costs is metered.
func ExampleNewToolCallFilter_sandbox() {
	ctx := context.Background()
	rt := must(plugin.NewRuntime(ctx, &plugin.Options{CacheDir: compiled}))
	defer rt.Close(ctx)
	filter := must(builtin.NewToolCallFilter(&builtin.ToolCallFilterOptions{PersistResults: true, Sandbox: rt}))
	view := llm.NewView([]*host.Message{
		host.UserText("Where is it?"),
		host.NewMessage(host.Assistant, &host.ToolCall{ID: "1", Name: "search", Arguments: json.RawMessage(`{}`)}),
		host.NewMessage(host.ToolRole, &host.ToolResult{ID: "1", Name: "search", Content: json.RawMessage(`"found"`)}),
		host.AssistantText("On its way."),
	}, "gpt-4o", nil)
	messages, reports, err := host.ProcessAll(ctx, []host.Processor{filter}, view)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range messages {
		fmt.Println(m.Role, m.Text())
	}
	fmt.Println(string(reports[0].Report), reports[0].Cost.Instructions > 0)
	// Output:
	// user Where is it?
	// assistant Used search tool
	// assistant On its way.
	// {"removed_calls":1,"removed_results":1,"removed_messages":2,"summaries":1} true
}
