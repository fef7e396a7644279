package threads_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestStoreIsAJournal(t *testing.T) {
	drivers := map[host.Journal]kv.Driver{}
	open := func(testing.TB) host.Journal {
		d := testdriver.New(t)
		s := threads.New(d, nil)
		drivers[s] = d
		return s
	}
	reopen := func(_ testing.TB, j host.Journal) host.Journal { return threads.New(drivers[j], nil) }
	hosttest.TestJournal(t, open, reopen)
}

// durableRun stores a user's message and begins a journaled run of its thread.
func durableRun(t *testing.T, s *threads.Store, thread, run string) (head string, ref host.RunRef) {
	t.Helper()
	head = threadtest.Say(t, s, thread, run, threadtest.WithID("q-"+run, "question"))
	rec := &host.RunRecord{Ref: host.RunRef{Thread: thread, Run: run, Fence: 1}, Target: "clerk", Status: host.RunOpen, Steps: []json.RawMessage{json.RawMessage(`1`)}}
	if err := s.CreateRun(t.Context(), rec); err != nil {
		t.Fatalf("CreateRun = %v", err)
	}
	return head, rec.Ref
}

func TestOldOwnerStoresNoTurn(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	head, ref := durableRun(t, s, "t1", "r1")
	fence, err := s.TakeRun(t.Context(), ref, 1)
	if err != nil {
		t.Fatal(err)
	}
	turn := threadtest.TurnOf(head, threadtest.WithID("a1", "answer"))
	req := threadtest.Request("t1", "r1", nil)
	req.Fence = ref.Fence
	threadtest.WantCode(t, "AppendResults of the old owner", s.AppendResults(t.Context(), req, turn), host.Conflict)
	if n := len(threadtest.Load(t, s, "t1").Messages); n != 1 {
		t.Errorf("%d messages are stored, want the question", n)
	}
	req.Fence = fence
	for range 2 { // the second time changes nothing
		if err := s.AppendResults(t.Context(), req, turn); err != nil {
			t.Errorf("AppendResults of the owner = %v", err)
		}
	}
	if n := len(threadtest.Load(t, s, "t1").Messages); n != 2 {
		t.Errorf("%d messages are stored, want the answer as well", n)
	}
}

func TestWaitingRunsAreDropped(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	_, ref := durableRun(t, s, "t1", "r1")
	drop := func(run string) error { return s.For("").DropWaiting(t.Context(), run) }
	threadtest.WantCode(t, "DropWaiting of an open run", drop("r1"), host.Conflict)
	if err := s.LeaveRun(t.Context(), ref, json.RawMessage(`{}`), []host.AskedQuestion{{ID: "q"}}); err != nil {
		t.Fatal(err)
	}
	if err := drop("r1"); err != nil {
		t.Errorf("DropWaiting = %v", err)
	}
	threadtest.WantCode(t, "DropWaiting again", drop("r1"), host.NotFound)
	if _, err := s.ReadRun(t.Context(), "", "r1"); host.CodeOf(err) != host.NotFound {
		t.Errorf("ReadRun = %v", err)
	}
	if runs, err := s.For("").Runs(t.Context()); err != nil || len(runs) > 0 {
		t.Errorf("Runs = %v, %v", runs, err)
	}
	if n := len(threadtest.Load(t, s, "t1").Messages); n != 1 {
		t.Errorf("the thread has %d messages, want the question", n)
	}
}

func TestDeletedThreadTakesItsRunsAlong(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	_, ref := durableRun(t, s, "t1", "r1")
	large := json.RawMessage(`"` + strings.Repeat("x", 600<<10) + `"`)
	if err := s.AppendSteps(t.Context(), ref, 1, []json.RawMessage{large}); err != nil {
		t.Fatal(err)
	}
	durableRun(t, s, "t2", "r2")
	if err := s.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	_, err := s.ReadRun(t.Context(), "", "r1")
	threadtest.WantCode(t, "ReadRun", err, host.NotFound)
	threadtest.WantCode(t, "AppendSteps", s.AppendSteps(t.Context(), ref, 2, []json.RawMessage{large}), host.NotFound)
	runs, err := s.For("").Runs(t.Context())
	if err != nil || len(runs) != 1 || runs[0].Run != "r2" || runs[0].Thread != "t2" || runs[0].Status != host.RunOpen {
		t.Errorf("Runs = %+v, %v, want r2", runs, err)
	}
	if err := s.For("").Delete(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	for e, err := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{}) {
		t.Errorf("%s is left (%v)", e.Key, err)
	}
}

// What a finished run leaves in the journal does not grow with what it did.
func TestEndedRunsLeaveNothing(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	lookup := host.NewTool("lookup", "looks up", func(context.Context, *host.Call, struct{}) (string, error) { return "in Lyon", nil }, nil)
	twice := func(_ context.Context, view []*host.Message) ([]host.Part, error) {
		if view[len(view)-1].Role == host.User {
			return []host.Part{&host.ToolCall{ID: "1", Name: "lookup", Arguments: json.RawMessage(`{}`)}}, nil
		}
		return []host.Part{&host.Text{Text: "there"}}, nil
	}
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{lookup}})
	if _, err := newHost(t, s, twice).Run(t.Context(), agent, &host.Request{Thread: "t1", Text: "where?", Durable: true}); err != nil {
		t.Fatal(err)
	}
	for e := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{}) {
		for _, kind := range []string{"run", "lease", "open", "step", "left"} {
			if _, ok := e.Key.CutPrefix(kv.NewKey("threads", kind)); ok {
				t.Errorf("%s is left", e.Key)
			}
		}
	}
}
