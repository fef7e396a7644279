package threads_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// A turn of now has what was edited and not what was deleted since; a snapshot is
// as it was.
func TestATurnAsItIsShownNow(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 4)
	look := func(thread string, at threads.At, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, idsAt(t, s, thread, at)); diff != "" {
			t.Errorf("%s at %+v (-want +got):\n%s", thread, at, diff)
		}
	}
	look("t1", threads.At{Turn: "r1"}, "q0", "a0", "q1", "a1")
	look("t1", threads.At{Turn: "r3"}, "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
	threadtest.Edit(t, s, "t1", "a0", threadtest.Assistant("A0", "better"))
	deleteMessage(t, s, "t1", "q1")
	deleteMessage(t, s, "t1", "q2")
	look("t1", threads.At{Turn: "r1"}, "q0", "A0", "a1")
	look("t1", threads.At{Turn: "r2"}, "q0", "A0", "a1", "a2")
	look("t1", threads.At{Snapshot: "r1"}, "q0", "a0", "q1", "a1")
	look("t1", threads.At{Turn: "r2", Message: "a1"}, "q0", "A0", "a1")
	show, err := s.For("").ShowAt(t.Context(), "t1", threads.At{Turn: "r1"}, 0)
	if err != nil || string(show.State) != `{"n":1}` || len(show.Artifacts) != 1 {
		t.Errorf("the turn has %s, %+v, %v", show.State, show.Artifacts, err)
	}

	threadtest.Fork(t, s, "t1", "t2", threads.At{Turn: "r2"})
	threadtest.TalkWithIDs(t, s, "t2", 7, 9)
	look("t2", threads.At{Turn: "r1"}, "q0", "A0", "a1")
	look("t2", threads.At{Turn: "r7"}, "q0", "A0", "a1", "a2", "q7", "a7")
	deleteMessage(t, s, "t2", "a1")
	deleteMessage(t, s, "t2", "q7")
	look("t2", threads.At{Turn: "r1"}, "q0", "A0")
	look("t2", threads.At{Turn: "r7"}, "q0", "A0", "a2", "a7")

	threadtest.Rewind(t, s, "t1", threads.At{Turn: "r2"})
	wantIDs(t, s, "t1", "q0", "A0", "a1", "a2")
	for name, c := range map[string]struct {
		at   threads.At
		want host.Code
	}{
		"a turn that is not shown any more": {threads.At{Turn: "r3"}, host.NotFound},
		"a turn of nobody":                  {threads.At{Turn: "nobody"}, host.NotFound},
		"a turn and a snapshot":             {threads.At{Turn: "r1", Snapshot: "r1"}, host.InvalidArgument},
		"a turn and a branch":               {threads.At{Turn: "r1", Branch: "b1"}, host.InvalidArgument},
	} {
		_, err := s.For("").ShowAt(t.Context(), "t1", c.at, 0)
		threadtest.WantCode(t, name, err, c.want)
	}
	look("t1", threads.At{Snapshot: "r3"}, "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
}
