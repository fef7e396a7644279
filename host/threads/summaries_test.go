package threads_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/reduce"
	"github.com/agenthost/agenthost/host/threads"
)

func TestSummariesGoWithTheThread(t *testing.T) {
	s, driver := newStore(t, nil)
	sums := s.Summaries()
	scope := host.Scope{Tenant: "acme", Thread: "t1"}
	want := reduce.Summary{Text: "short", Through: "m1"}
	if err := sums.Save(t.Context(), scope, &want); host.CodeOf(err) != host.NotFound {
		t.Errorf("Save for a thread that is not there: %v", err)
	}
	create := func() {
		t.Helper()
		if _, _, err := s.CreateThread(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: "t1"}); err != nil {
			t.Fatal(err)
		}
	}
	load := func(scope host.Scope) string {
		t.Helper()
		got, err := sums.Load(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", got)
	}
	create()
	if err := sums.Save(t.Context(), scope, &want); err != nil {
		t.Fatal(err)
	}
	if got := load(scope); got != "&{Text:short Through:m1}" {
		t.Errorf("Load = %s", got)
	}
	for _, other := range []host.Scope{{Tenant: "globex", Thread: "t1"}, {Tenant: "acme", Thread: "t2"}, {Tenant: "acme"}} {
		if got := load(other); got != "<nil>" {
			t.Errorf("Load of %+v = %s", other, got)
		}
	}
	if err := s.Delete(t.Context(), "acme", "t1"); err != nil {
		t.Fatal(err)
	}
	create()
	if got := load(scope); got != "<nil>" {
		t.Errorf("a thread made anew has the summary %s", got)
	}
	for e, err := range kv.All(t.Context(), driver, "acme", kv.Range{}) {
		if err != nil || strings.Contains(e.Key.String(), "summary") {
			t.Errorf("left: %s, %v", e.Key, err)
		}
	}
}

// A summary goes when something that it covers does: what was edited or deleted
// must not go on in it. What comes behind it may change.
func TestSummariesForgetWhatIsDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, s *threads.Store)
		stays  bool
	}{
		"more is said":           {func(t *testing.T, s *threads.Store) { talkWithIDs(t, s, "t1", 6, 8) }, true},
		"a later one is edited":  {func(t *testing.T, s *threads.Store) { edit(t, s, "t1", "a3", assistant("", "x")) }, true},
		"a later one is deleted": {func(t *testing.T, s *threads.Store) { deleteMessage(t, s, "q4") }, true},
		"rewound behind it":      {func(t *testing.T, s *threads.Store) { rewind(t, s, "t1", threads.At{Message: "a2"}) }, true},
		"an old one is edited":   {func(t *testing.T, s *threads.Store) { edit(t, s, "t1", "q1", withID("", "x")) }, false},
		"an old one is deleted":  {func(t *testing.T, s *threads.Store) { deleteMessage(t, s, "a0") }, false},
		"its end is edited":      {func(t *testing.T, s *threads.Store) { edit(t, s, "t1", "a2", assistant("", "x")) }, false},
		"its end is deleted":     {func(t *testing.T, s *threads.Store) { deleteMessage(t, s, "a2") }, false},
		"rewound before its end": {func(t *testing.T, s *threads.Store) { rewind(t, s, "t1", threads.At{Message: "a1"}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t, nil)
			talkWithIDs(t, s, "t1", 0, 6)
			sums, scope := s.Summaries(), host.Scope{Thread: "t1"}
			load := func() *reduce.Summary {
				t.Helper()
				got, err := sums.Load(t.Context(), scope)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if err := sums.Save(t.Context(), scope, &reduce.Summary{Text: "short", Through: "a2"}); err != nil {
				t.Fatal(err)
			}
			if got := load(); got == nil || got.Through != "a2" {
				t.Fatalf("as it was saved: %+v", got)
			}
			c.change(t, s)
			if got := load(); (got != nil) != c.stays {
				t.Errorf("then: %+v", got)
			}
			if err := sums.Save(t.Context(), scope, &reduce.Summary{Text: "anew", Through: "q0"}); err != nil {
				t.Fatal(err)
			}
			if got := load(); got == nil || got.Text != "anew" {
				t.Errorf("made anew: %+v", got)
			}
		})
	}
}

func deleteMessage(t *testing.T, s *threads.Store, id string) {
	t.Helper()
	if _, err := s.DeleteMessage(t.Context(), "", "t1", id, nil); err != nil {
		t.Fatal(err)
	}
}

// A host, a thread and a queue: summaries are made after the turns, and the model
// that answers sees them.
func TestProgressiveSummariesOfAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := kv.NewMemory()
		store := threads.New(driver, nil)
		q := queue.New(driver, &queue.Options{RunStatus: store.RunStatus})
		summarizer := hosttest.ModelFunc(func(_ context.Context, req *host.ModelRequest) hosttest.Reply {
			return hosttest.Say(fmt.Sprintf("%d before", len(req.Messages)-1))
		})
		progressive, err := reduce.NewProgressive(summarizer, 4, store, q, store.Summaries(), &reduce.ProgressiveOptions{Batch: 4})
		if err != nil {
			t.Fatal(err)
		}
		q.Handle(reduce.ProgressiveJob, progressive.HandleJob)
		if err := q.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = q.Close() }()
		longest, first := 0, ""
		model := hosttest.ModelFunc(func(_ context.Context, req *host.ModelRequest) hosttest.Reply {
			longest, first = max(longest, len(req.Messages)), req.Messages[0].Text()
			return hosttest.Say("yes")
		})
		history, err := host.NewHistory(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, History: history,
			Processors: []host.Processor{reduce.Processor("progressive", progressive)}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.New(&host.Options{Queue: q})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: "and?"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if longest > 12 || !strings.HasSuffix(first, " before") {
			t.Errorf("the longest request has %d messages, and the last begins with %q", longest, first)
		}
		page, err := store.Show(t.Context(), "acme", "t1", 1000)
		if err != nil || len(page.Messages) != 40 {
			t.Errorf("%d messages are stored, %v: nothing is lost", len(page.Messages), err)
		}
		dead, err := q.Dead(t.Context(), "acme", 0)
		if err != nil || len(dead) != 0 {
			t.Errorf("dead: %v, %v", dead, err)
		}
	})
}
