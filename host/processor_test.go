package host_test

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/chattest"
)

// What an earlier run left open is closed before the first processor: whatever
// was stored, what the model is sent is whole, and nothing stored is lost.
func TestOpenCallsAreClosed(t *testing.T) {
	for name, c := range map[string]struct{ stored, sent string }{
		"nothing open":                 {"u c1 r1 a", "user assistant tool assistant user"},
		"open at the end":              {"u c1", "user assistant tool user"},
		"half open":                    {"u c1,2 r2", "user assistant tool tool user"},
		"open in the middle":           {"u c1 u a", "user assistant tool user assistant user"},
		"open before an answer":        {"u c1 a", "user assistant tool assistant user"},
		"two answers of calls":         {"u c1 c2 r1 u", "user assistant assistant tool tool user user"},
		"a number used for two calls":  {"u c1,1 r1", "user assistant tool tool user"},
		"closed and opened once again": {"u c1 r1 c1", "user assistant tool assistant tool user"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []*host.Message
			spy := host.ProcessorFunc("spy", func(_ context.Context, m []*host.Message) ([]*host.Message, error) {
				seen = m
				return m, nil
			})
			agent := newAgent(t, &host.AgentOptions{Model: says("ok"), Processors: []host.Processor{spy}})
			if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi", Messages: chattest.Talk(t, c.stored)}); err != nil {
				t.Fatalf("Run: %v", err)
			}
			var roles []string
			for _, m := range seen {
				roles = append(roles, string(m.Role))
			}
			if got := strings.Join(roles, " "); got != c.sent {
				t.Errorf("stored %q, the processor sees %q, want %q", c.stored, got, c.sent)
			}
		})
	}
}

// Whatever is stored, the host makes it whole but for results without a call,
// which it cannot mend.
func TestAnyStoredHistoryIsMadeWhole(t *testing.T) {
	word := rapid.SampledFrom([]string{"u", "s", "a", "c1", "c2", "c1,2", "x1", "x2,1", "r1", "r2"})
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(word, 0, 12).Draw(rt, "words")
		stored := chattest.Talk(t, strings.Join(words, " "))
		drop := host.ProcessorFunc("drop orphans", func(_ context.Context, m []*host.Message) ([]*host.Message, error) {
			return dropOrphans(m), nil
		})
		// A processor may not add faults, so one that leaves none but orphans proves
		// that the view had none: keep must then pass on what drop has left.
		keep := host.ProcessorFunc("keep", func(_ context.Context, m []*host.Message) ([]*host.Message, error) {
			checkWhole(rt, m)
			return m, nil
		})
		agent := newAgent(t, &host.AgentOptions{Model: says("ok"), Processors: []host.Processor{drop, keep}})
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi", Messages: stored}); err != nil {
			rt.Fatalf("history %q: %v", words, err)
		}
	})
}

func dropOrphans(messages []*host.Message) []*host.Message {
	open := map[string]int{}
	var out []*host.Message
	for _, m := range messages {
		for _, c := range m.ToolCalls() {
			open[c.ID]++
		}
		if r := m.ToolResults(); len(r) > 0 {
			if open[r[0].ID] == 0 {
				continue
			}
			open[r[0].ID]--
		}
		out = append(out, m)
	}
	return out
}

func checkWhole(t *rapid.T, messages []*host.Message) {
	open := map[string]int{}
	for _, m := range messages {
		for _, r := range m.ToolResults() {
			open[r.ID]--
		}
		left := 0
		for _, n := range open {
			left += n
		}
		if left != 0 && (m.Role == host.User || m.Role == host.Assistant && m.Text() != "") {
			t.Fatalf("message %s comes while calls are open: %v", m.ID, open)
		}
		for _, c := range m.ToolCalls() {
			open[c.ID]++
		}
	}
}
