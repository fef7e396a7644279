package modeltest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// Question is a request with one message of a user.
func Question(text string) *llm.Request {
	return &llm.Request{Messages: []*chat.Message{chat.UserText(text)}}
}

// Outcome is all that one Generate yielded.
type Outcome struct {
	Text, Reasoning string
	Deltas          []llm.ToolCallDelta
	Retries         []llm.RetryNotice
	Response        *llm.Response
	Err             error
}

// Ask generates an answer and reads it to its end.
func Ask(ctx context.Context, m llm.Model, req *llm.Request) Outcome {
	var o Outcome
	for chunk, err := range m.Generate(ctx, req) {
		if err != nil {
			o.Err = err
			continue
		}
		o.Text += chunk.Text
		o.Reasoning += chunk.Reasoning
		if chunk.ToolCall != nil {
			o.Deltas = append(o.Deltas, *chunk.ToolCall)
		}
		if chunk.Retry != nil {
			o.Retries = append(o.Retries, *chunk.Retry)
		}
		if chunk.Response != nil {
			o.Response = chunk.Response
		}
	}
	return o
}

// Calls returns the deltas put together, by their indexes.
func (o Outcome) Calls() []llm.ToolCallDelta {
	var calls []llm.ToolCallDelta
	for _, d := range o.Deltas {
		for len(calls) <= d.Index {
			calls = append(calls, llm.ToolCallDelta{Index: len(calls)})
		}
		c := &calls[d.Index]
		c.ID, c.Name, c.Arguments = c.ID+d.ID, c.Name+d.Name, c.Arguments+d.Arguments
	}
	return calls
}

// Parse returns the value of a JSON text, as encoding/json does.
func Parse(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
