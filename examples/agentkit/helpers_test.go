package agentkit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// must leaves out of the examples what a program does about an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// run runs an agent or a network on a host of its own.
func run(target host.Target, req host.Request) *host.RunResult {
	return must(must(host.New(&host.Options{SingleTenant: true})).Run(context.Background(), target, &req))
}

// says returns a model that gives these answers, one after the other. In a
// program it is openaimodel.New, anthropicmodel.New or any other host.Model.
func says(texts ...string) *hosttest.Model {
	replies := make([]hosttest.Reply, len(texts))
	for i, text := range texts {
		replies[i] = hosttest.Say(text)
	}
	return hosttest.NewModel(replies...)
}

// show prints a conversation, a line a part.
func show(messages []*host.Message) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *host.Text:
				fmt.Printf("%s: %s\n", m.Role, strings.TrimSpace(p.Text))
			case *host.ToolCall:
				fmt.Printf("%s calls %s %s\n", m.Role, p.Name, p.Arguments)
			case *host.ToolResult:
				fmt.Printf("%s: %s: %s\n", m.Role, p.Name, p.Content)
			}
		}
	}
}

// toJSON returns a value as JSON.
func toJSON(v any) json.RawMessage { return must(json.Marshal(v)) }
