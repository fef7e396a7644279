package plugin_test

// Scenario: a processor receives a conversation of 100,000 messages.

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// A conversation of 100,000 messages is within the default limits as an outline.
// As messages it is longer than InputBytes, and refused by that name before the
// guest runs.
func TestHistoriesOfAHundredThousandMessages(t *testing.T) {
	const rounds = 25_000
	messages := make([]*host.Message, 0, 4*rounds)
	for i := range rounds {
		id := fmt.Sprintf("c%d", i)
		messages = append(messages,
			&host.Message{ID: "u" + id, Role: host.User, Parts: []host.Part{&host.Text{Text: "where is it?"}}},
			&host.Message{ID: "a" + id, Role: host.Assistant, Parts: []host.Part{&host.ToolCall{ID: id, Name: "fetch", Arguments: json.RawMessage(`{"page":1}`)}}},
			&host.Message{ID: "t" + id, Role: host.ToolRole, Parts: []host.Part{&host.ToolResult{ID: id, Name: "fetch", Content: json.RawMessage(`"nothing there"`)}}},
			&host.Message{ID: "d" + id, Role: host.Assistant, Parts: []host.Part{&host.Text{Text: "It is not there."}}})
	}
	rt := newRuntime(t, nil)
	counter := must[*tokens.Counter](t)(tokens.New(nil))
	for name, c := range map[string]struct {
		wasm   []byte
		config string
		kept   int
	}{
		"tool calls are filtered": {toolcallfilter.Wasm, shippedFilter, 2 * rounds}, // calls and results go
		"tokens are limited":      {tokenlimiter.Wasm, shippedLimiter, 0},
	} {
		t.Run(name, func(t *testing.T) {
			view, _, err := llm.Process(t.Context(), builtin(t, rt, c.wasm, c.config), llm.NewView(messages, "gpt-4o", counter))
			if err != nil {
				t.Fatal(err)
			}
			if c.kept > 0 && len(view) != c.kept || len(view) == 0 || len(view) >= len(messages) {
				t.Errorf("%d of %d messages are left, want %d", len(view), len(messages), c.kept)
			}
		})
	}
	t.Run("messages are refused by the limit on input", func(t *testing.T) {
		p := everything(t, &plugin.LoadOptions{Granted: everythingGranted})
		processor := must[host.Processor](t)(p.Processor("upper", nil))
		_, _, err := llm.Process(t.Context(), processor, llm.NewView(messages, "gpt-4o", counter))
		if host.CodeOf(err) != host.ResourceExhausted {
			t.Errorf("%v (%s), want resource_exhausted", err, host.CodeOf(err))
		}
	})
}
