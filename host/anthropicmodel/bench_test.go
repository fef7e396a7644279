package anthropicmodel

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// This file looks from inside: what writing a request costs.

// conversation has n messages: questions, answers that call a tool, and results.
func conversation(n int) []*host.Message {
	list := make([]*host.Message, 0, n)
	for i := 0; len(list) < n; i++ {
		id := fmt.Sprint("toolu_", i)
		list = append(list, host.UserText("Where is my order, and when will it \"arrive\"?\nI have waited for two weeks."),
			host.NewMessage(host.Assistant, &host.Text{Text: "Let me look that up for you."}, &host.ToolCall{ID: id, Name: "lookup_order", Arguments: json.RawMessage(`{"order_id":1042}`)}),
			host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "lookup_order", Content: json.RawMessage(`{"status":"shipped","since":"2026-01-02"}`)}),
			host.AssistantText("It was shipped on the second of January, and should be with you within three days."))
	}
	return append(list[:n:n], host.UserText("and?"))
}

// BenchmarkRequest writes a request of 200 messages: for the first time, and with
// one more message than before, as each round of a run does.
func BenchmarkRequest(b *testing.B) {
	m, err := New("m1", nil)
	if err != nil {
		b.Fatal(err)
	}
	write := func(messages []*host.Message) {
		if err := (&question{model: m, req: &llm.Request{Messages: messages}}).write(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			messages := conversation(200)
			b.StartTimer()
			write(messages)
		}
	})
	b.Run("again", func(b *testing.B) {
		messages := conversation(200)
		write(messages)
		b.ReportAllocs()
		for b.Loop() {
			write(messages)
		}
	})
	b.Run("encoding-json", func(b *testing.B) { // the messages alone, as they are in a store
		messages := conversation(200)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(messages); err != nil {
				b.Fatal(err)
			}
		}
	})
}
