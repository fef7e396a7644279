package threads_test

import (
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
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

// A turn stays stored when its messages leave what the thread shows: a run that ended
// must not be resumed because its thread was edited, rewound or answered on a branch.
func TestRunStatusOfATurnThatTheThreadNoLongerShows(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, s *threads.Store, req *host.HistoryRequest){
		"edited": func(t *testing.T, s *threads.Store, _ *host.HistoryRequest) {
			threadtest.Edit(t, s, "t1", "a1", threadtest.WithID("a2", "another"))
		},
		"rewound": func(t *testing.T, s *threads.Store, _ *host.HistoryRequest) {
			threadtest.Rewind(t, s, "t1", threads.At{Message: "q-r1"})
		},
		"deleted": func(t *testing.T, s *threads.Store, _ *host.HistoryRequest) {
			if _, err := s.For("").DeleteMessage(t.Context(), "t1", "a1", nil); err != nil {
				t.Fatal(err)
			}
		},
		"rewound to a branch": func(t *testing.T, s *threads.Store, _ *host.HistoryRequest) {
			branch, err := s.Branch(t.Context(), threadtest.Request("t1", "r2", nil), "q-r1")
			if err != nil {
				t.Fatal(err)
			}
			threadtest.Rewind(t, s, "t1", threads.At{Branch: branch})
		},
		"on a branch": func(t *testing.T, s *threads.Store, req *host.HistoryRequest) {
			branch, err := s.Branch(t.Context(), req, "")
			if err != nil {
				t.Fatal(err)
			}
			req.Branch = branch
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			head, ref := durableRun(t, s, "t1", "r1")
			req := threadtest.Request("t1", "r1", nil)
			req.Fence = ref.Fence
			if name == "on a branch" {
				leave(t, s, req)
				head = ""
			}
			if err := s.AppendResults(t.Context(), req, threadtest.TurnOf(head, threadtest.WithID("a1", "answer"))); err != nil {
				t.Fatal(err)
			}
			if req.Branch == "" {
				leave(t, s, req)
			}
			got, err := s.RunStatus(t.Context(), host.Scope{Thread: "t1", Run: "r1"})
			if err != nil || got != host.RunEnded {
				t.Errorf("RunStatus: %v, %v; want %v", got, err, host.RunEnded)
			}
		})
	}
}
