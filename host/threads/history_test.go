package threads_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestHistoryKit(t *testing.T) {
	opts := &hosttest.HistoryOptions{Status: func(t *testing.T, adapter any, tenant, thread string) host.FinishReason {
		show, err := adapter.(*threads.Store).For(tenant).Show(t.Context(), thread, 0)
		if err != nil || len(show.Snapshots) == 0 {
			t.Fatalf("Show = %+v, %v", show, err)
		}
		return show.Snapshots[len(show.Snapshots)-1].FinishReason
	}}
	t.Run("memory", func(t *testing.T) {
		hosttest.TestHistory(t, func(t *testing.T) any {
			s, _ := threadtest.NewStore(t, nil)
			return s
		}, opts)
	})
	t.Run("badger", func(t *testing.T) {
		hosttest.TestHistory(t, func(t *testing.T) any {
			s, done := openBadger(t, t.TempDir())
			t.Cleanup(done)
			return s
		}, opts)
	})
}

// A turn whose rounds were stored as it went covers them, and costs no message
// twice.
func TestATurnBeginsAtItsFirstRound(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	history, err := host.NewHistory(s, &host.HistoryOptions{EachRound: true})
	if err != nil {
		t.Fatal(err)
	}
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, nil)
	model := hosttest.NewModel(hosttest.Say("before"), hosttest.Call("look", "{}"), hosttest.Call("look", "{}"), hosttest.Say("done"))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{look}, History: history})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hi", "look twice"} {
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	show, err := s.For("acme").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, m := range show.Messages {
		roles = append(roles, string(m.Role))
	}
	if got, want := strings.Join(roles, " "), "user assistant user assistant tool assistant tool assistant"; got != want {
		t.Errorf("the thread holds %s, want %s", got, want)
	}
	if last := show.Snapshots[1]; last.From != 3 || last.To != 8 || last.Status != threads.Completed {
		t.Errorf("the turn covers %d to %d, %s; want 3 to 8", last.From, last.To, last.Status)
	}
}

// The record of a run's usage is stored in the commit of the run's turn, and its part
// learns whether it was.
func TestEntriesRideInTheCommitOfATurn(t *testing.T) {
	s, driver := threadtest.NewStore(t, nil)
	stored := 0
	entry := func(store any, key string, bytes int) host.TurnEntry {
		return host.TurnEntry{Store: store, Key: string(kv.NewKey("usage", key)), Value: make([]byte, bytes), Stored: func() { stored++ }}
	}
	turnWith := func(head, text string) *host.Turn {
		turn := threadtest.TurnOf(head, threadtest.WithID(text, text))
		turn.Entries = []host.TurnEntry{entry(driver, text, 100), entry(testdriver.New(t), "of another store", 1), entry(driver, "too large", 16<<10+1)}
		return turn
	}
	head := threadtest.Say(t, s, "t1", "run", host.UserText("hello"))
	if err := s.AppendResults(t.Context(), threadtest.Request("t1", "other", nil), turnWith("a head of the past", "late")); host.CodeOf(err) != host.Conflict {
		t.Fatalf("a turn at another head: %v, want conflict", err)
	}
	for range 2 { // the second is stored already
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", "run", nil), turnWith(head, "answer")); err != nil {
			t.Fatal(err)
		}
	}
	keys := threadtest.KeysUnder(t, driver, host.DefaultTenant, kv.NewKey("usage"))
	if stored != 1 || len(keys) != 1 || keys[0] != kv.NewKey("usage", "answer") {
		t.Errorf("Stored was called %d times and the store has %v, want the entry of the turn once", stored, keys)
	}
}
