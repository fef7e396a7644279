package reduce_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/reduce"
)

// The newest two messages of a conversation, with the tool call that one of them
// belongs to.
func ExampleCounting() {
	messages := []*host.Message{
		host.UserText("Where is order 1042?"),
		host.NewMessage(host.Assistant, &host.ToolCall{ID: "c1", Name: "lookup", Arguments: []byte(`{"id":1042}`)}),
		host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c1", Name: "lookup", Content: []byte(`"on its way"`)}),
		host.AssistantText("It is on its way."),
	}
	short, err := reduce.Counting(3, nil)
	if err != nil {
		log.Fatal(err)
	}
	view, err := short.Reduce(context.Background(), llm.NewView(messages, "gpt-4o", nil))
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range view {
		fmt.Printf("%s: %d calls, %d results, %q\n", m.Role, len(m.ToolCalls()), len(m.ToolResults()), m.Text())
	}
	// Output:
	// assistant: 1 calls, 0 results, ""
	// tool: 0 calls, 1 results, ""
	// assistant: 0 calls, 0 results, "It is on its way."
}
