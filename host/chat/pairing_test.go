package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/chat"
)

// conversation reads a shorthand: words of "u" (user), "a" (assistant), "c1,2" (an
// assistant calls 1 and 2) and "r1" (the result of 1).
func conversation(words []string) []*chat.Message {
	var out []*chat.Message
	for _, w := range words {
		m := chat.NewMessage(chat.Assistant, &chat.Text{Text: w})
		switch w[0] {
		case 'u':
			m.Role = chat.User
		case 'r':
			m.Role, m.Parts = chat.ToolRole, []chat.Part{&chat.ToolResult{ID: w[1:], Name: "t", Content: json.RawMessage("1")}}
		case 'c':
			m.Parts = nil
			for _, id := range strings.Split(w[1:], ",") {
				m.Parts = append(m.Parts, &chat.ToolCall{ID: id, Name: "t", Arguments: json.RawMessage("{}")})
			}
		}
		out = append(out, m)
	}
	return out
}

func TestFaultsOfPairsAreCounted(t *testing.T) {
	for words, want := range map[string]int{
		"u c1 r1 a":      0,
		"u c1,2 r2 r1":   0,
		"u c1":           0, // it may still be answered
		"u c1 u":         1,
		"u c1,2 r1 a":    1,
		"u r1":           1,
		"u c1 r1 r1":     1,
		"u c1 u r1 c2 u": 3,
	} {
		n, first := chat.Faults(conversation(strings.Fields(words)))
		if n != want || (first == nil) != (want == 0) {
			t.Errorf("%q has %d faults, the first %v; want %d", words, n, first, want)
		}
	}
}

func TestAnyConversationIsMadeWhole(t *testing.T) {
	word := rapid.SampledFrom([]string{"u", "a", "c1", "c2", "c1,2", "r1", "r2"})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 0, 12).Draw(t, "words")
		in := conversation(words)
		before := string(chat.AppendMessagesJSON(nil, in))
		out, orphans := chat.WithoutOrphans(chat.CloseCalls(in, true))
		if err := chat.Check(out); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		if n, _ := chat.Faults(in); n == 0 && orphans > 0 {
			t.Fatalf("%q has no fault and loses %d results", words, orphans)
		}
		if after := string(chat.AppendMessagesJSON(nil, in)); after != before {
			t.Fatalf("%q is changed to %s", words, after)
		}
	})
}
