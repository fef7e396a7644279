package chat_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/chat"
)

func TestLentMessagesComeBackAsTheyWere(t *testing.T) {
	var messages []*chat.Message
	for _, raw := range []string{
		`{"id":"u","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2025-03-04T05:06:07Z"}`,
		`{"id":"a","role":"assistant","agent":"x","parts":[{"type":"tool_call","id":"c","name":"look","arguments":{"n":1}}],"metadata":{"k":[1]}}`,
		`{"id":"t","role":"tool","parts":[{"type":"tool_result","id":"c","name":"look","content":"ok"},{"type":"hologram","depth":1}],"x":{"y":2}}`,
		`{"id":"m","role":"user","parts":[{"type":"media","media_type":"image/png","data":"AAEC"},{"type":"data","value":{"a":1}},{"type":"text","text":"x","z":1}]}`,
	} {
		list, err := chat.DecodeMessages([]byte("[" + raw + "]"))
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, list...)
	}
	before := string(chat.AppendMessagesJSON(nil, messages))
	lent := chat.Lend(messages)
	if got := lent.Return(lent.Copies); !slices.Equal(got, messages) {
		t.Error("unchanged copies are not the originals again")
	}
	own := &chat.Message{ID: "own"}
	if got := lent.Return([]*chat.Message{lent.Copies[2], own, nil}); got[0] != messages[2] || got[1] != own || got[2] != nil {
		t.Errorf("Return = %v", got)
	}
	for name, write := range map[string]func(m *chat.Message){
		"id":       func(m *chat.Message) { m.ID = "x" },
		"role":     func(m *chat.Message) { m.Role = chat.System },
		"agent":    func(m *chat.Message) { m.Agent = "y" },
		"time":     func(m *chat.Message) { m.CreatedAt = m.CreatedAt.Add(time.Second) },
		"metadata": func(m *chat.Message) { m.Metadata = map[string]json.RawMessage{"k": json.RawMessage(`[2]`)} },
		"extra": func(m *chat.Message) {
			m.Extra = append(m.Extra, chat.Member{Name: "more", Value: json.RawMessage(`1`)})
		},
		"parts":   func(m *chat.Message) { m.Parts = m.Parts[1:] },
		"a part":  func(m *chat.Message) { m.Parts[0] = &chat.Text{Text: "other"} },
		"no part": func(m *chat.Message) { m.Parts[0] = nil },
		"in a part": func(m *chat.Message) {
			switch p := m.Parts[0].(type) {
			case *chat.Text:
				p.Text = "other"
			case *chat.ToolCall:
				p.Arguments[len(p.Arguments)-2] = '7'
			case *chat.ToolResult:
				p.Content[1] = 'x'
			case *chat.Media:
				p.Data[0] = 9
			}
		},
	} {
		lent := chat.Lend(messages)
		for i, c := range lent.Copies {
			if write(c); name == "no part" {
				continue
			}
			got := lent.Return([]*chat.Message{c})[0]
			if got == messages[i] || got == c || string(got.AppendJSON(nil)) != string(c.AppendJSON(nil)) {
				t.Errorf("%s of message %d was written to and returns as %s", name, i, got.AppendJSON(nil))
			}
		}
		if after := string(chat.AppendMessagesJSON(nil, messages)); after != before {
			t.Errorf("a write to %s of copies has changed the originals:\n%s\n%s", name, before, after)
		}
	}
}
