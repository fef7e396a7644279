package modeltest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
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
	After           int // chunks behind the response or the error
}

// Ask generates an answer and reads it to its end.
func Ask(ctx context.Context, m llm.Model, req *llm.Request) Outcome {
	var o Outcome
	for chunk, err := range m.Generate(ctx, req) {
		if o.Response != nil || o.Err != nil {
			o.After++
		}
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

// Sent returns what a model sends for a request, or the error of one that sends nothing.
// newModel makes it with a client, which answers nothing.
func Sent(t testing.TB, req *llm.Request, newModel func(*http.Client) llm.Model) (body map[string]any, request *http.Request, err error) {
	t.Helper()
	var raw []byte
	m := newModel(&http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
		raw, _ = io.ReadAll(r.Body)
		request = r
		return nil, io.EOF
	})})
	if o := Ask(t.Context(), m, req); raw == nil {
		return nil, nil, o.Err
	}
	body, _ = Parse(t, string(raw)).(map[string]any)
	return body, request, nil
}

// Stored returns a message as it comes back from a history.
func Stored(t testing.TB, m *chat.Message) *chat.Message {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	stored := &chat.Message{}
	if err := json.Unmarshal(raw, stored); err != nil {
		t.Fatalf("stored as %s: %v", raw, err)
	}
	return stored
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
