package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/chattest"
	"github.com/agenthost/agenthost/host/llm"
)

// becomes is a processor whose result is always the same.
func becomes(messages []*chat.Message) llm.Processor {
	return llm.ProcessorFunc("becomes", func(context.Context, []*chat.Message) ([]*chat.Message, error) { return messages, nil })
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
			view := llm.NewView(chattest.Talk(t, c.view), "m", nil)
			_, _, err := llm.Process(t.Context(), becomes(chattest.Talk(t, c.result)), view)
			if ok := err == nil; ok != c.ok {
				t.Errorf("from %q to %q: %v, want ok %t", c.view, c.result, err, c.ok)
			}
			if err != nil && fault.CodeOf(err) != fault.Internal {
				t.Errorf("code is %s, want %s", fault.CodeOf(err), fault.Internal)
			}
		})
	}
}

func TestProcessRefuses(t *testing.T) {
	twin := chattest.Talk(t, "u")[0]
	boss := chat.NewMessage("boss", &chat.Text{Text: "x"})
	for name, done := range map[string]*llm.Processed{
		"messages and edits":     {Messages: chattest.Talk(t, "u"), Edits: []chat.Edit{chat.Drop{From: 0, To: 1}}},
		"a nil message":          {Messages: []*chat.Message{nil}},
		"two messages of one id": {Messages: []*chat.Message{twin, twin}},
		"an unknown role":        {Messages: []*chat.Message{boss}},
		"edits that do not fit":  {Edits: []chat.Edit{chat.Drop{From: 0, To: 9}}},
		"a report of no JSON":    {Report: json.RawMessage("{")},
	} {
		t.Run(name, func(t *testing.T) {
			p := processorFunc{"bad", func(*llm.View) *llm.Processed { return done }}
			out, _, err := llm.Process(t.Context(), p, llm.NewView(chattest.Talk(t, "u a"), "m", nil))
			if fault.CodeOf(err) != fault.Internal || out != nil {
				t.Errorf("Process gives %v, %v; want nothing and code %s", out, err, fault.Internal)
			}
			if err != nil && !strings.Contains(err.Error(), `"bad"`) {
				t.Errorf("%v does not name the processor", err)
			}
		})
	}
}

func TestProcessGivesNewMessagesAnID(t *testing.T) {
	view := llm.NewView(chattest.Talk(t, "u"), "m", nil)
	out, _, err := llm.Process(t.Context(), becomes([]*chat.Message{{Role: chat.User}}), view)
	if err != nil || len(out) != 1 || out[0].ID == "" || out[0].CreatedAt.IsZero() {
		t.Errorf("Process gives %+v, %v", out, err)
	}
}

func TestANilResultChangesNothing(t *testing.T) {
	messages := chattest.Talk(t, "u a")
	p := processorFunc{"none", func(*llm.View) *llm.Processed { return nil }}
	out, done, err := llm.Process(t.Context(), p, llm.NewView(messages, "m", nil))
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
	view := llm.NewView(chattest.Talk(t, "u a"), "known", counter)
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
	view := llm.NewView(chattest.Talk(t, "u"), "m", valueCounter{map[string]int{}})
	for range 2 {
		if got, err := view.Tokens(t.Context(), ""); err != nil || got[0] != 1 {
			t.Errorf("Tokens = %v, %v", got, err)
		}
	}
}

func TestAViewWithoutACounter(t *testing.T) {
	view := llm.NewView(chattest.Talk(t, "u"), "m", nil)
	if _, err := view.Tokens(t.Context(), ""); fault.CodeOf(err) != fault.FailedPrecondition {
		t.Errorf("Tokens: %v, want code %s", err, fault.FailedPrecondition)
	}
	if _, err := view.CountTokens(t.Context(), "", nil); fault.CodeOf(err) != fault.FailedPrecondition {
		t.Errorf("CountTokens: %v, want code %s", err, fault.FailedPrecondition)
	}
	if name, exact := view.Encoding(); name != "" || exact {
		t.Errorf("Encoding() = %q, %t", name, exact)
	}
}

// said returns the roles and texts of messages.
func said(messages []*chat.Message) string {
	var words []string
	for _, m := range messages {
		words = append(words, string(m.Role[:1])+":"+m.Text())
	}
	return strings.Join(words, " | ")
}

// processorFunc is a processor from a function of its view.
type processorFunc struct {
	name string
	fn   func(*llm.View) *llm.Processed
}

func (p processorFunc) Name() string { return p.name }

func (p processorFunc) Process(_ context.Context, view *llm.View) (*llm.Processed, error) {
	return p.fn(view), nil
}

// ids returns the ids of messages, joined.
func ids(messages []*chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.ID)
	}
	return b.String()
}
