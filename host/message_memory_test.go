package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

func memoryMessages(t testing.TB, opts *host.MemoryMessagesOptions) host.MessageStores {
	t.Helper()
	stores, err := host.NewMemoryMessages(opts)
	if err != nil {
		t.Fatal(err)
	}
	return stores
}

func TestMessagesInMemoryPassTheKit(t *testing.T) {
	hosttest.TestMessageStores(t, func(t *testing.T) host.MessageStores { return memoryMessages(t, nil) },
		&hosttest.MessageStoresOptions{Embedded: true})
}

// newest keeps the newest n messages and counts how often it is asked.
type newest struct{ n, asked int }

func (r *newest) Reduce(_ context.Context, view *host.View) ([]*host.Message, error) {
	r.asked++
	if r.n < 0 {
		return nil, host.Errorf(host.Unavailable, "no reducer today")
	}
	return view.Messages[max(0, len(view.Messages)-r.n):], nil
}

func texts(messages []*host.Message) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = m.Text()
	}
	return out
}

// When a reducer runs, and that it replaces what it shortens (Agent Framework's
// InMemoryChatMessageStore).
func TestReducerTriggers(t *testing.T) {
	for _, c := range []struct {
		trigger      host.ReducerTrigger
		asked        int // after two batches
		serialized   int
		askedAfter   int // after listing as well
		serializedBy int
	}{
		{"", 0, 4, 1, 2},
		{host.BeforeMessagesRetrieval, 0, 4, 1, 2},
		{host.AfterMessageAdded, 2, 2, 2, 2},
	} {
		t.Run(fmt.Sprintf("%q", c.trigger), func(t *testing.T) {
			reducer := &newest{n: 2}
			stores := memoryMessages(t, &host.MemoryMessagesOptions{Reducer: reducer, Trigger: c.trigger})
			s, _ := stores.OpenStore(t.Context(), &host.StoreRequest{Thread: "t1"})
			for _, batch := range [][]*host.Message{{host.UserText("1"), host.AssistantText("2")}, {host.UserText("3"), host.AssistantText("4")}} {
				if err := s.AddMessages(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			if got := storedIn(t, s); reducer.asked != c.asked || len(got) != c.serialized {
				t.Errorf("after two batches: reduced %d times, %d stored; want %d and %d", reducer.asked, len(got), c.asked, c.serialized)
			}
			got, err := s.ListMessages(t.Context())
			if err != nil || !slices.Equal(texts(got), []string{"3", "4"}) {
				t.Errorf("listed %q, %v", texts(got), err)
			}
			if got := storedIn(t, s); reducer.asked != c.askedAfter || len(got) != c.serializedBy {
				t.Errorf("after listing: reduced %d times, %d stored; want %d and %d", reducer.asked, len(got), c.askedAfter, c.serializedBy)
			}
		})
	}
}

func storedIn(t *testing.T, s host.MessageStore) []*host.Message {
	t.Helper()
	raw, err := s.Serialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Messages []*host.Message }
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}
	return state.Messages
}

func TestAReducerThatFailsLosesNothing(t *testing.T) {
	for _, trigger := range []host.ReducerTrigger{host.BeforeMessagesRetrieval, host.AfterMessageAdded} {
		reducer := &newest{n: 9}
		stores := memoryMessages(t, &host.MemoryMessagesOptions{Reducer: reducer, Trigger: trigger})
		s, _ := stores.OpenStore(t.Context(), &host.StoreRequest{Thread: "t1"})
		first, second := host.UserText("1"), host.UserText("2")
		if err := s.AddMessages(t.Context(), []*host.Message{first}); err != nil {
			t.Fatal(err)
		}
		reducer.n = -1
		err := s.AddMessages(t.Context(), []*host.Message{second})
		if trigger == host.BeforeMessagesRetrieval {
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.ListMessages(t.Context())
		}
		if host.CodeOf(err) != host.Unavailable {
			t.Errorf("%s: %v; want code %s", trigger, err, host.Unavailable)
		}
		reducer.n = 9
		if err := s.AddMessages(t.Context(), []*host.Message{second}); err != nil {
			t.Fatal(err)
		}
		if got := texts(storedIn(t, s)); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("%s: stored %q after the reducer works again", trigger, got)
		}
	}
}

func TestAnUnknownReducerTriggerIsRefused(t *testing.T) {
	if _, err := host.NewMemoryMessages(&host.MemoryMessagesOptions{Trigger: "sometimes"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("%v; want code %s", err, host.InvalidArgument)
	}
}

// Whatever the conversation, what is kept is its end, with whole calls.
func TestKeepNewestPartsNoCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages []*host.Message
		var open []string
		for i := range rapid.IntRange(0, 30).Draw(t, "messages") {
			switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
			case kind == 0:
				messages = append(messages, host.NewMessage(host.System, &host.Text{Text: "s"}))
			case kind == 1:
				open = append(open, fmt.Sprint(i))
				messages = append(messages, host.NewMessage(host.Assistant, &host.ToolCall{ID: fmt.Sprint(i), Name: "f"}))
			case kind == 2 && len(open) > 0:
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				messages = append(messages, host.NewMessage(host.ToolRole, &host.ToolResult{ID: open[k], Name: "f"}))
				open = slices.Delete(open, k, k+1)
			default:
				messages = append(messages, host.UserText("u"))
			}
		}
		limit := rapid.IntRange(0, 12).Draw(t, "limit")
		before := slices.Clone(messages)
		kept := host.KeepNewest(messages, limit)
		if !slices.Equal(before, messages) {
			t.Fatal("the conversation was changed")
		}
		checkKept(t, messages, kept, limit)
	})
}

func checkKept(t *rapid.T, messages, kept []*host.Message, limit int) {
	rest, tail := withoutSystem(messages), withoutSystem(kept)
	if len(kept)-len(tail) != len(messages)-len(rest) {
		t.Fatal("the first system message is gone")
	}
	if !slices.Equal(rest[len(rest)-len(tail):], tail) {
		t.Fatal("what is kept is not the end of the conversation")
	}
	if len(rest) > 0 && len(tail) == 0 {
		t.Fatal("nothing is kept")
	}
	calls := map[string]bool{}
	for _, m := range tail {
		for _, c := range m.ToolCalls() {
			calls[c.ID] = true
		}
		for _, r := range m.ToolResults() {
			if !calls[r.ID] {
				t.Fatalf("the result of call %s has lost its call", r.ID)
			}
		}
	}
	if limit < 1 || len(rest) <= limit {
		if len(kept) != len(messages) {
			t.Fatalf("%d of %d messages are kept, the limit is %d", len(kept), len(messages), limit)
		}
		return
	}
	if len(tail) <= limit {
		return
	}
	// More than the limit is one group that cannot be parted.
	for at := 1; at < len(tail); at++ {
		if !parts(tail, at) {
			t.Fatalf("%d messages are kept, the limit is %d, and they can be cut at %d", len(tail), limit, at)
		}
	}
}

// withoutSystem returns messages without the first system message.
func withoutSystem(messages []*host.Message) []*host.Message {
	i := slices.IndexFunc(messages, func(m *host.Message) bool { return m.Role == host.System })
	if i < 0 {
		return messages
	}
	return slices.Delete(slices.Clone(messages), i, i+1)
}

// parts reports whether a cut at that place parts a call from its result.
func parts(messages []*host.Message, at int) bool {
	calls := map[string]bool{}
	for _, m := range messages[:at] {
		for _, c := range m.ToolCalls() {
			calls[c.ID] = true
		}
		for _, r := range m.ToolResults() {
			delete(calls, r.ID)
		}
	}
	for _, m := range messages[at:] {
		for _, r := range m.ToolResults() {
			if calls[r.ID] {
				return true
			}
		}
	}
	return false
}
