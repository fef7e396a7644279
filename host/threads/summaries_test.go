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
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/reduce"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestSummariesGoWithTheThread(t *testing.T) {
	s, driver := threadtest.NewStore(t, nil)
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
	if err := s.For("acme").Delete(t.Context(), "t1"); err != nil {
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
		"more is said":           {func(t *testing.T, s *threads.Store) { threadtest.TalkWithIDs(t, s, "t1", 6, 8) }, true},
		"a later one is edited":  {func(t *testing.T, s *threads.Store) { threadtest.Edit(t, s, "t1", "a3", threadtest.Assistant("", "x")) }, true},
		"a later one is deleted": {func(t *testing.T, s *threads.Store) { deleteMessage(t, s, "t1", "q4") }, true},
		"rewound behind it":      {func(t *testing.T, s *threads.Store) { threadtest.Rewind(t, s, "t1", threads.At{Message: "a2"}) }, true},
		"an old one is edited":   {func(t *testing.T, s *threads.Store) { threadtest.Edit(t, s, "t1", "q1", threadtest.WithID("", "x")) }, false},
		"an old one is deleted":  {func(t *testing.T, s *threads.Store) { deleteMessage(t, s, "t1", "a0") }, false},
		"its end is edited":      {func(t *testing.T, s *threads.Store) { threadtest.Edit(t, s, "t1", "a2", threadtest.Assistant("", "x")) }, false},
		"its end is deleted":     {func(t *testing.T, s *threads.Store) { deleteMessage(t, s, "t1", "a2") }, false},
		"rewound before its end": {func(t *testing.T, s *threads.Store) { threadtest.Rewind(t, s, "t1", threads.At{Message: "a1"}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			threadtest.TalkWithIDs(t, s, "t1", 0, 6)
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

func deleteMessage(t testing.TB, s *threads.Store, thread, id string) {
	t.Helper()
	if _, err := s.For("").DeleteMessage(t.Context(), thread, id, nil); err != nil {
		t.Fatal(err)
	}
}

// A host, a thread and a queue: summaries are made after the turns, and the model
// that answers sees them.
func TestProgressiveSummariesOfAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		store := threads.New(driver, nil)
		q := queue.New(driver, &queue.Options{RunStatus: store.RunStatus})
		summarizer := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
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
		model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
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
		h, err := host.New(&host.Options{SingleTenant: true, Queue: q})
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
		page, err := store.For("acme").Show(t.Context(), "t1", 1000)
		if err != nil || len(page.Messages) != 40 {
			t.Errorf("%d messages are stored, %v: nothing is lost", len(page.Messages), err)
		}
		dead, err := q.Dead(t.Context(), "acme", 0)
		if err != nil || len(dead) != 0 {
			t.Errorf("dead: %v, %v", dead, err)
		}
	})
}

// A thread of 10,000 messages that was imported has no summary. The first turn on it
// has one made, a part at a time, of each message once, and later turns see it.
func TestSummariesOfAnImportedThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length, target, batch = 10_000, 20, 50
		driver := testdriver.New(t)
		store := threads.New(driver, nil)
		var lines strings.Builder
		for i := range length {
			fmt.Fprintf(&lines, `{"role":%q,"content":"message %d"}`+"\n", []string{"user", "assistant"}[i%2], i)
		}
		if _, err := threadtest.ImportInto(t, store, "acme", "t1", transfer.FormatOpenAILines, lines.String()); err != nil {
			t.Fatal(err)
		}
		q := queue.New(driver, &queue.Options{RunStatus: store.RunStatus})
		calls, given, most := 0, map[string]int{}, 0
		summarizer := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			calls++
			most = max(most, len(req.Messages))
			for _, m := range req.Messages {
				given[m.Text()]++
			}
			return hosttest.Say(fmt.Sprint("summary ", calls))
		})
		progressive, err := reduce.NewProgressive(summarizer, target, store, q, store.Summaries(), &reduce.ProgressiveOptions{Batch: batch})
		if err != nil {
			t.Fatal(err)
		}
		q.Handle(reduce.ProgressiveJob, progressive.HandleJob)
		if err := q.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = q.Close() }()
		sizes, first := []int{}, ""
		turn := turnsOf(t, store, q, reduce.Processor("progressive", progressive), func(req *llm.Request) {
			sizes, first = append(sizes, len(req.Messages)), req.Messages[0].Text()
		})
		turn()
		if calls < length/(1000+target+batch) || calls > length/1000+1 || most > 1000+batch+target+3 {
			t.Errorf("the summarizer was asked %d times, for up to %d messages: want about %d, up to about 1,000", calls, most, length/1000)
		}
		for i := range length - target - batch {
			if n := given[fmt.Sprint("message ", i)]; n != 1 {
				t.Errorf("message %d was summarized %d times", i, n)
			}
		}
		for range 100 {
			turn()
		}
		if last := sizes[len(sizes)-1]; last > target+batch+5 || first != fmt.Sprint("summary ", calls) {
			t.Errorf("the last turn has %d messages and begins with %q, of %d summaries", last, first, calls)
		}
		if most := length/1000 + 1 + 200/batch + 1; calls > most {
			t.Errorf("the summarizer was asked %d times after 100 more turns, want up to %d", calls, most)
		}
		for i := range length {
			if n := given[fmt.Sprint("message ", i)]; n != 1 {
				t.Errorf("message %d was summarized %d times", i, n)
			}
		}
		noDeadJobs(t, q)
	})
}

// turnsOf returns how to run a turn of thread t1 and wait for its jobs; seen is told
// what the model is asked.
func turnsOf(t *testing.T, store *threads.Store, q *queue.Queue, p host.Processor, seen func(*llm.Request)) func() {
	t.Helper()
	history, err := host.NewHistory(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		seen(req)
		return hosttest.Say("yes")
	})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, History: history, Processors: []host.Processor{p}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, Queue: q})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: "and?"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}

func noDeadJobs(t *testing.T, q *queue.Queue) {
	t.Helper()
	if dead, err := q.Dead(t.Context(), "acme", 0); err != nil || len(dead) != 0 {
		t.Errorf("dead: %v, %v", dead, err)
	}
}

// MessagesAfter reads what a thread shows from anywhere on.
func TestMessagesAfter(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	var messages []*host.Message
	for i := range 10 {
		messages = append(messages, &host.Message{ID: fmt.Sprint("m", i), Role: host.User, Parts: []host.Part{&host.Text{Text: "x"}}})
	}
	stores, err := s.MessageStores(nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := stores.OpenStore(t.Context(), &host.StoreRequest{Tenant: "acme", Thread: "t1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.AddMessages(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("acme").DeleteMessage(t.Context(), "t1", "m5", nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		thread, after string
		limit         int
		want          string
	}{
		{"t1", "", 3, "m0 m1 m2 false true"},
		{"t1", "m2", 4, "m3 m4 m6 m7 true true"},
		{"t1", "m7", 2, "m8 m9 true false"},
		{"t1", "m9", 2, "true false"},
		{"t1", "m5", 2, "m0 m1 false true"},
		{"t2", "m5", 2, "false false"},
	} {
		got := ""
		page, found, more, err := s.MessagesAfter(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: c.thread}, c.after, c.limit)
		for _, m := range page {
			got += m.ID + " "
		}
		if got += fmt.Sprint(found, more); got != c.want || err != nil {
			t.Errorf("%d messages of %s after %q: %s, %v, want %s", c.limit, c.thread, c.after, got, err, c.want)
		}
	}
	for _, limit := range []int{0, -1} {
		if _, _, _, err := s.MessagesAfter(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: "t1"}, "", limit); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
