package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

// FuzzToolCalls has a model call tools with any names, ids and arguments: the
// run goes on, each call has one result, a tool gets nothing but what fits its
// schema, and what is kept can be read back.
func FuzzToolCalls(f *testing.F) {
	for _, arguments := range []string{
		``, `{}`, `null`, `{"text":"a"}`, `"{\"text\":\"a\"}"`, "{\"text\": `a \"b\"`}", `{"text":"a","text":"b"}`, `{"text":`,
		`{"text":"a","n":null}`, `{"text":"a","n":1e400}`, "{\"text\":\"\xff\"}", `[[[[`, `{"value":1}`, "`", "\"`\"`",
	} {
		f.Add("1", "note", arguments, "1", "note", arguments)
		f.Add("", "note", arguments, "2", "wrapped", arguments)
	}
	f.Add("1", "", `{}`, "1", "nobody\n", `{}`)
	f.Fuzz(func(t *testing.T, id1, name1, arguments1, id2, name2, arguments2 string) {
		type in struct {
			Text string `json:"text"`
			N    *int   `json:"n"`
		}
		note := host.NewTool("note", "Notes.", func(_ context.Context, c *host.Call, _ in) (string, error) {
			if !json.Valid(c.Arguments) || !strings.HasPrefix(string(c.Arguments), "{") {
				t.Errorf("the tool is called with %q", c.Arguments)
			}
			return "noted", nil
		}, nil)
		wrapped := host.NewTool("wrapped", "Takes a number.", func(context.Context, *host.Call, int) (string, error) { return "taken", nil }, nil)
		model := hosttest.NewModel(hosttest.Reply{Calls: []*host.ToolCall{
			{ID: id1, Name: name1, Arguments: json.RawMessage(arguments1)}, {ID: id2, Name: name2, Arguments: json.RawMessage(arguments2)},
		}}, hosttest.Say("done"))
		agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{note, wrapped}})
		result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "x"})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		messages := result.Results[0].Messages
		back, err := chat.DecodeMessages(chat.AppendMessagesJSON(nil, messages))
		if err != nil || len(back) != len(messages) {
			t.Fatalf("%d of %d messages are read back, %v", len(back), len(messages), err)
		}
		answered := map[string]int{}
		for _, r := range result.Results[0].ToolResults() {
			answered[r.ID]++
		}
		calls := messages[0].ToolCalls()
		for _, c := range calls {
			if answered[c.ID] != 1 {
				t.Errorf("call %q has %d results", c.ID, answered[c.ID])
			}
		}
		if len(calls) == 0 || len(answered) != len(calls) || result.Text() != "done" {
			t.Errorf("%d calls, %d answered, and at the end %q", len(calls), len(answered), result.Text())
		}
	})
}
