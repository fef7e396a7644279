// Package chattest writes conversations for the tests of packages that read them.
package chattest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
)

// Talk reads a shorthand for a conversation: words of "u" (user), "s" (system),
// "a" (assistant), "c1,2" (an assistant calls 1 and 2), "x1" (the same after
// some text) and "r1" (the result of 1). Ids are the words with their place.
func Talk(t testing.TB, words string) []*chat.Message {
	t.Helper()
	var out []*chat.Message
	for i, w := range strings.Fields(words) {
		m := &chat.Message{ID: w + "@" + string(rune('a'+i)), Role: chat.Assistant, CreatedAt: chat.NewMessage(chat.User).CreatedAt}
		switch w[0] {
		case 'u':
			m.Role, m.Parts = chat.User, []chat.Part{&chat.Text{Text: "u"}}
		case 's':
			m.Role, m.Parts = chat.System, []chat.Part{&chat.Text{Text: "s"}}
		case 'a':
			m.Parts = []chat.Part{&chat.Text{Text: "a"}}
		case 'x':
			m.Parts = []chat.Part{&chat.Text{Text: "x"}}
		case 'r':
			m.Role, m.Parts = chat.ToolRole, []chat.Part{&chat.ToolResult{ID: w[1:], Name: "t", Content: json.RawMessage("1")}}
		case 'c':
		default:
			t.Fatalf("no word %q", w)
		}
		if w[0] == 'c' || w[0] == 'x' {
			for _, id := range strings.Split(w[1:], ",") {
				m.Parts = append(m.Parts, &chat.ToolCall{ID: id, Name: "t", Arguments: json.RawMessage("{}")})
			}
		}
		out = append(out, m)
	}
	return out
}
