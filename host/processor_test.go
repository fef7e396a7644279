package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
)

// talk reads a shorthand for a conversation: words of "u" (user), "s" (system),
// "a" (assistant), "c1,2" (an assistant calls 1 and 2), "x1" (the same after
// some text) and "r1" (the result of 1). Ids are the words with their place.
func talk(t testing.TB, words string) []*host.Message {
	t.Helper()
	var out []*host.Message
	for i, w := range strings.Fields(words) {
		m := &host.Message{ID: w + "@" + string(rune('a'+i)), Role: host.Assistant, CreatedAt: host.NewMessage(host.User).CreatedAt}
		switch w[0] {
		case 'u':
			m.Role, m.Parts = host.User, []host.Part{&host.Text{Text: "u"}}
		case 's':
			m.Role, m.Parts = host.System, []host.Part{&host.Text{Text: "s"}}
		case 'a':
			m.Parts = []host.Part{&host.Text{Text: "a"}}
		case 'x':
			m.Parts = []host.Part{&host.Text{Text: "x"}}
		case 'r':
			m.Role, m.Parts = host.ToolRole, []host.Part{&host.ToolResult{ID: w[1:], Name: "t", Content: json.RawMessage("1")}}
		case 'c':
		default:
			t.Fatalf("no word %q", w)
		}
		if w[0] == 'c' || w[0] == 'x' {
			for _, id := range strings.Split(w[1:], ",") {
				m.Parts = append(m.Parts, &host.ToolCall{ID: id, Name: "t", Arguments: json.RawMessage("{}")})
			}
		}
		out = append(out, m)
	}
	return out
}

// becomes is a processor whose result is always the same.
func becomes(messages []*host.Message) host.Processor {
	return host.ProcessorFunc("becomes", func(context.Context, []*host.Message) ([]*host.Message, error) { return messages, nil })
}

func TestAProcessorMayNotLeaveAHistoryWorse(t *testing.T) {
	for name, c := range map[string]struct {
		view, result string
		ok           bool
	}{
		"whole stays whole":                       {"u c1 r1 a u", "u a u", true},
		"all gone":                                {"u a", "", true},
		"a call still open at the end":            {"u c1,2 r1", "u c1,2 r1", true},
		"a call without its result":               {"u c1 r1 a u", "u c1 a u", false},
		"a result without its call":               {"u c1 r1 a u", "u r1 a u", false},
		"a result before its call":                {"u c1 r1 a u", "u r1 c1 a u", false},
		"half the results":                        {"u c1,2 r1 r2 a", "u c1,2 r1 a", false},
		"parallel calls in messages of their own": {"u c1 c2 r1 r2 a", "u c1 c2 r2 r1 a", true},
		"text before an answer":                   {"u c1 r1 a", "u c1 x2 r1 r2", false},
		"a call reopened by its number":           {"u c1 r1 c1 r1", "u c1 c1 r1 r1", true},
		"broken before, as broken after":          {"u r9 a u", "r9 u a", true},
		"broken before, more broken after":        {"u r9 c1 r1 a u", "u r9 c1 a u", false},
		"broken before, mended":                   {"u r9 c1 a", "u a", true},
	} {
		t.Run(name, func(t *testing.T) {
			view := host.NewView(talk(t, c.view), "m", nil)
			_, _, err := host.Process(t.Context(), becomes(talk(t, c.result)), view)
			if ok := err == nil; ok != c.ok {
				t.Errorf("from %q to %q: %v, want ok %t", c.view, c.result, err, c.ok)
			}
			if err != nil && host.CodeOf(err) != host.Internal {
				t.Errorf("code is %s, want %s", host.CodeOf(err), host.Internal)
			}
		})
	}
}

func TestProcessRefuses(t *testing.T) {
	twin := talk(t, "u")[0]
	boss := host.NewMessage("boss", &host.Text{Text: "x"})
	for name, done := range map[string]*host.Processed{
		"messages and edits":     {Messages: talk(t, "u"), Edits: []host.Edit{host.Drop{From: 0, To: 1}}},
		"a nil message":          {Messages: []*host.Message{nil}},
		"two messages of one id": {Messages: []*host.Message{twin, twin}},
		"an unknown role":        {Messages: []*host.Message{boss}},
		"edits that do not fit":  {Edits: []host.Edit{host.Drop{From: 0, To: 9}}},
		"a report of no JSON":    {Report: json.RawMessage("{")},
	} {
		t.Run(name, func(t *testing.T) {
			p := processorFunc{"bad", func(*host.View) *host.Processed { return done }}
			out, _, err := host.Process(t.Context(), p, host.NewView(talk(t, "u a"), "m", nil))
			if host.CodeOf(err) != host.Internal || out != nil {
				t.Errorf("Process gives %v, %v; want nothing and code %s", out, err, host.Internal)
			}
			if err != nil && !strings.Contains(err.Error(), `"bad"`) {
				t.Errorf("%v does not name the processor", err)
			}
		})
	}
}

func TestProcessGivesNewMessagesAnID(t *testing.T) {
	view := host.NewView(talk(t, "u"), "m", nil)
	out, _, err := host.Process(t.Context(), becomes([]*host.Message{{Role: host.User}}), view)
	if err != nil || len(out) != 1 || out[0].ID == "" || out[0].CreatedAt.IsZero() {
		t.Errorf("Process gives %+v, %v", out, err)
	}
}

func TestANilResultChangesNothing(t *testing.T) {
	messages := talk(t, "u a")
	p := processorFunc{"none", func(*host.View) *host.Processed { return nil }}
	out, done, err := host.Process(t.Context(), p, host.NewView(messages, "m", nil))
	if err != nil || done == nil || ids(out) != ids(messages) {
		t.Errorf("Process gives %v, %v, %v", out, done, err)
	}
}

// countingCounter counts how often it is asked.
type countingCounter struct {
	asked atomic.Int64
	_     func() // a counter held by value could not be compared
}

func (*countingCounter) EncodingFor(model string) (string, bool) {
	return "of-" + model, model == "known"
}
func (c *countingCounter) CountTokens(_ context.Context, encoding string, text []byte) (int, error) {
	c.asked.Add(1)
	if encoding == "broken" {
		return 0, errors.New("no tables")
	}
	return len(text), nil
}

func TestAViewCountsEachMessageOnce(t *testing.T) {
	counter := &countingCounter{}
	view := host.NewView(talk(t, "u a"), "known", counter)
	for range 3 {
		got, err := view.Tokens(t.Context(), "")
		if err != nil || len(got) != 2 || got[0] != 1 {
			t.Fatalf("Tokens = %v, %v", got, err)
		}
	}
	if n := counter.asked.Load(); n != 2 {
		t.Errorf("two messages were counted %d times", n)
	}
	if _, err := view.Tokens(t.Context(), "other"); err != nil || counter.asked.Load() != 4 {
		t.Errorf("another encoding: %v, counted %d times in all, want 4", err, counter.asked.Load())
	}
	if _, err := view.Tokens(t.Context(), "broken"); err == nil {
		t.Error("a counter that fails goes unnoticed")
	}
	if name, exact := view.Encoding(); name != "of-known" || !exact {
		t.Errorf("Encoding() = %q, %t", name, exact)
	}
	if n, err := view.CountTokens(t.Context(), "", []byte("abc")); n != 3 || err != nil {
		t.Errorf("CountTokens = %d, %v", n, err)
	}
}

// valueCounter cannot be compared with ==.
type valueCounter struct{ tables map[string]int }

func (valueCounter) EncodingFor(string) (string, bool) { return "v", true }
func (valueCounter) CountTokens(context.Context, string, []byte) (int, error) {
	return 1, nil
}

func TestACounterThatCannotBeComparedWorks(t *testing.T) {
	view := host.NewView(talk(t, "u"), "m", valueCounter{map[string]int{}})
	for range 2 {
		if got, err := view.Tokens(t.Context(), ""); err != nil || got[0] != 1 {
			t.Errorf("Tokens = %v, %v", got, err)
		}
	}
}

func TestAViewWithoutACounter(t *testing.T) {
	view := host.NewView(talk(t, "u"), "m", nil)
	if _, err := view.Tokens(t.Context(), ""); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Tokens: %v, want code %s", err, host.FailedPrecondition)
	}
	if _, err := view.CountTokens(t.Context(), "", nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("CountTokens: %v, want code %s", err, host.FailedPrecondition)
	}
	if name, exact := view.Encoding(); name != "" || exact {
		t.Errorf("Encoding() = %q, %t", name, exact)
	}
}

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
			if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi", Messages: talk(t, c.stored)}); err != nil {
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
		stored := talk(t, strings.Join(words, " "))
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
