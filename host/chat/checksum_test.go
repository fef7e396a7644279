package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
)

// encoding/json escapes what HTML would misread and removes white space: a message
// that a program keeps as it writes it has the checksum that it had.
func TestChecksumSurvivesEncodingJSON(t *testing.T) {
	for _, content := range []string{`"<b> & </b>"`, `{"a": "<", "b": [1, "\u2028 \u0026 \\u003c \\\" & "] }`, "\"\u2029\"", `"\\"`, `{ }`} {
		m := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(content)})
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back := &chat.Message{}
		if err := json.Unmarshal(raw, back); err != nil {
			t.Fatal(err)
		}
		if m.Checksum() != back.Checksum() {
			t.Errorf("content %s: the checksum changes through %s", content, raw)
		}
	}
	one := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"\\u003c"`)})
	two := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"\\<"`)})
	two.CreatedAt = one.CreatedAt
	if one.Checksum() == two.Checksum() {
		t.Error("a backslash before u003c is taken for an escape")
	}
}
