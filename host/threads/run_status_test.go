package threads_test

import (
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

func TestRunStatus(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	head, ref := durableRun(t, s, "t1", "r1")
	status := func(thread, run string) any {
		got, err := s.RunStatus(t.Context(), host.Scope{Thread: thread, Run: run})
		if err != nil {
			return host.CodeOf(err)
		}
		return got
	}
	wants := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	wants("while it is open", status("t1", "r1"), host.RunOpen)
	wants("a run that nobody knows", status("t1", "r2"), host.NotFound)
	wants("a thread that nobody knows", status("t2", "r2"), host.NotFound)
	wants("no run", status("t1", ""), host.InvalidArgument)
	req := threadtest.Request("t1", "r1", nil)
	req.Fence = ref.Fence
	if err := s.AppendResults(t.Context(), req, threadtest.TurnOf(head, threadtest.WithID("a1", "answer"))); err != nil {
		t.Fatal(err)
	}
	wants("when its turn is stored, before the journal says so", status("t1", "r1"), host.RunEnded)
	if err := s.EndRun(t.Context(), ref, host.RunEnded, nil); err != nil {
		t.Fatal(err)
	}
	wants("when it has ended", status("t1", "r1"), host.RunEnded)
	wants("in another thread", status("t2", "r1"), host.NotFound)
	if _, err := s.RunStatus(t.Context(), host.Scope{Tenant: "other", Thread: "t1", Run: "r1"}); host.CodeOf(err) != host.NotFound {
		t.Errorf("of another tenant: %v", err)
	}
	head, ref = durableRun(t, s, "t3", "r3")
	if err := s.EndRun(t.Context(), ref, host.RunInterrupted, []byte(`1`)); err != nil {
		t.Fatal(errors.Join(err, errors.New(head)))
	}
	wants("while it asks", status("t3", "r3"), host.RunInterrupted)
}
