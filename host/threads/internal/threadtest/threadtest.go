// Package threadtest has the helpers that tests of stores of threads share: functions
// that store a conversation in one call, and checks of stored entries.
package threadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// NewStore returns a store on a driver in memory, and the driver.
func NewStore(t testing.TB, opts *threads.Options) (*threads.Store, *kv.Memory) {
	t.Helper()
	d := kv.NewMemory()
	t.Cleanup(func() { _ = d.Close() })
	return threads.New(d, opts), d
}

// Say stores a user's message and returns the head.
func Say(t testing.TB, s *threads.Store, thread, run string, m *host.Message) string {
	t.Helper()
	head, err := s.AppendUserMessage(t.Context(), Request(thread, run, m))
	if err != nil {
		t.Fatalf("AppendUserMessage(%q) = %v", thread, err)
	}
	return head
}

func Request(thread, run string, input *host.Message) *host.HistoryRequest {
	return &host.HistoryRequest{Thread: thread, Run: run, Input: input}
}

// Answer stores a turn of the messages.
func Answer(t testing.TB, s *threads.Store, thread, run, head string, messages ...*host.Message) {
	t.Helper()
	if err := s.AppendResults(t.Context(), Request(thread, run, nil), TurnOf(head, messages...)); err != nil {
		t.Fatalf("AppendResults(%q) = %v", thread, err)
	}
}

func TurnOf(head string, messages ...*host.Message) *host.Turn {
	return &host.Turn{Head: head, Status: chat.FinishStop, Results: []*host.Result{{
		Agent: "clerk", Messages: messages, FinishReason: chat.FinishStop, Rounds: 1,
	}}}
}

// Talk stores n turns of a question and an answer each, through runs r0, r1...
func Talk(t testing.TB, s *threads.Store, thread string, n int) {
	t.Helper()
	for i := range n {
		run := fmt.Sprintf("%s-r%d", thread, i)
		head := Say(t, s, thread, run, host.UserText(fmt.Sprintf("question %d", i)))
		Answer(t, s, thread, run, head, Assistant(run+"-answer", fmt.Sprintf("answer %d", i)))
	}
}

func Load(t testing.TB, s *threads.Store, thread string) *host.Loaded {
	t.Helper()
	loaded, err := s.Get(t.Context(), Request(thread, "", nil))
	if err != nil {
		t.Fatalf("Get(%q) = %v", thread, err)
	}
	return loaded
}

// Texts are the messages' texts; of a tool's message, its result's.
func Texts(messages []*host.Message) []string {
	out := []string{}
	for _, m := range messages {
		text := m.Text()
		for _, c := range m.ToolCalls() {
			text += "call " + c.ID
		}
		for _, r := range m.ToolResults() {
			text += "result " + r.ID
		}
		out = append(out, text)
	}
	return out
}

func IDs(messages []*host.Message) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

func WantTexts(t testing.TB, got []*host.Message, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, Texts(got)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func WantCode(t testing.TB, doing string, err error, want host.Code) {
	t.Helper()
	if got := host.CodeOf(err); got != want {
		t.Errorf("%s = %v (code %q), want code %q", doing, err, got, want)
	}
}

func Calls(id string, callIDs ...string) *host.Message {
	m := host.NewMessage(host.Assistant)
	m.ID = id
	for _, c := range callIDs {
		m.Parts = append(m.Parts, &host.ToolCall{ID: c, Name: "lookup", Arguments: json.RawMessage(`{}`)})
	}
	return m
}

func Result(call string) *host.Message {
	return host.NewMessage(host.ToolRole, &host.ToolResult{ID: call, Name: "lookup", Content: json.RawMessage(`"ok"`)})
}

func WithID(id, text string) *host.Message {
	m := host.UserText(text)
	m.ID = id
	return m
}

// KeysOf returns all keys of a tenant.
func KeysOf(t interface {
	Context() context.Context
	Fatal(...any)
}, d kv.Driver, tenant string) []kv.Key {
	var keys []kv.Key
	for e, err := range kv.All(t.Context(), d, tenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// KeysUnder returns the keys of a tenant that begin with prefix.
func KeysUnder(t testing.TB, d kv.Driver, tenant string, prefix kv.Key) []kv.Key {
	t.Helper()
	var keys []kv.Key
	for e, err := range kv.All(t.Context(), d, tenant, kv.Range{Prefix: prefix}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// TalkWithIDs stores turns whose messages are q0, a0, q1, a1 and so on, with the
// number of the turn as state and an artifact "n" of it.
func TalkWithIDs(t testing.TB, s *threads.Store, thread string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		run := fmt.Sprintf("r%d", i)
		head := Say(t, s, thread, run, WithID(fmt.Sprintf("q%d", i), fmt.Sprintf("question %d", i)))
		turn := TurnOf(head, Assistant(fmt.Sprintf("a%d", i), fmt.Sprintf("answer %d", i)))
		turn.State = fmt.Appendf(nil, `{"n":%d}`, i)
		turn.Artifacts = []host.Artifact{{Name: "n", Parts: []host.Part{&host.Text{Text: fmt.Sprint(i)}}}}
		if err := s.AppendResults(t.Context(), Request(thread, run, nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
	}
}

func Assistant(id, text string) *host.Message {
	m := host.AssistantText(text)
	m.ID = id
	return m
}

func Edit(t testing.TB, s *threads.Store, thread, id string, m *host.Message) *threads.Thread {
	t.Helper()
	info, err := s.For("").EditMessage(t.Context(), thread, id, m, nil)
	if err != nil {
		t.Fatalf("EditMessage(%s) = %v", id, err)
	}
	return info
}

func Rewind(t testing.TB, s *threads.Store, thread string, at threads.At) *threads.Thread {
	t.Helper()
	info, err := s.For("").Rewind(t.Context(), thread, at, nil)
	if err != nil {
		t.Fatalf("Rewind(%+v) = %v", at, err)
	}
	return info
}

func Fork(t testing.TB, s *threads.Store, thread, id string, at threads.At) *threads.Thread {
	t.Helper()
	info, err := s.For("").Fork(t.Context(), thread, &threads.ForkOptions{ID: id, At: at})
	if err != nil {
		t.Fatalf("Fork(%+v) = %v", at, err)
	}
	return info
}
