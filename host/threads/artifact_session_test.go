package threads_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// putTurn stores a turn that makes an artifact named plan.
func putTurn(t *testing.T, s *threads.Store, thread, run, plan string) {
	t.Helper()
	head := threadtest.Say(t, s, thread, run, &host.Message{ID: run + "-q", Role: host.User, Parts: []host.Part{&host.Text{Text: "go"}}})
	turn := threadtest.TurnOf(head, threadtest.Assistant(run+"-a", "done"))
	turn.Artifacts = []host.Artifact{{Name: "plan", Parts: []host.Part{&host.Text{Text: plan}}}}
	if err := s.AppendResults(t.Context(), threadtest.Request(thread, run, nil), turn); err != nil {
		t.Fatal(err)
	}
}

// seen returns the contents of the artifacts that a turn would see.
func seen(t *testing.T, s *threads.Store, req *host.HistoryRequest) string {
	t.Helper()
	refs, err := s.ThreadArtifacts(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, ref := range refs {
		a, err := ref.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		content, _ := a.Content()
		if ref.Name != a.Name || ref.Digest != a.Digest() || ref.Size < int64(len(content)) {
			t.Errorf("%+v refers to an artifact %q of digest %s and %d bytes", ref, a.Name, a.Digest(), len(content))
		}
		out = append(out, string(content))
	}
	return strings.Join(out, " ")
}

// A turn sees the artifacts of the turns that its thread shows, and a fork those
// that its parent had.
func TestATurnSeesTheArtifactsThatItsThreadShows(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *threads.Store{
		"memory": func(t *testing.T) *threads.Store { s, _ := threadtest.NewStore(t, nil); return s },
		"badger": func(t *testing.T) *threads.Store {
			s, done := openBadger(t, t.TempDir())
			t.Cleanup(done)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			want := func(what string, req *host.HistoryRequest, want string) {
				t.Helper()
				if got := seen(t, s, req); got != want {
					t.Errorf("%s sees %q, want %q", what, got, want)
				}
			}
			t1 := threadtest.Request("t1", "next", nil)
			want("a thread that there is not", t1, "")
			putTurn(t, s, "t1", "r1", "one")
			putTurn(t, s, "t1", "r2", "two")
			want("the next turn", t1, "two")
			if _, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "fork"}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "early", At: threads.At{Snapshot: "r1"}}); err != nil {
				t.Fatal(err)
			}
			branch, err := s.Branch(t.Context(), threadtest.Request("t1", "r3", nil), "r1-q")
			if err != nil {
				t.Fatal(err)
			}
			want("a branch from the first question", &host.HistoryRequest{Thread: "t1", Branch: branch}, "")
			if _, err := s.For("").DeleteMessage(t.Context(), "t1", "r2-a", nil); err != nil {
				t.Fatal(err)
			}
			want("a thread without the second answer", t1, "two") // artifacts stay: see DeleteMessage
			if _, err := s.For("").EditMessage(t.Context(), "t1", "r1-a", threadtest.Assistant("r1-b", "edited"), nil); err != nil {
				t.Fatal(err)
			}
			want("a thread with another first answer", t1, "two")
			if _, err := s.For("").Fork(t.Context(), "fork", &threads.ForkOptions{ID: "again"}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Regenerate(t.Context(), threadtest.Request("again", "r4", nil), "r2-q"); err != nil {
				t.Fatal(err)
			}
			want("the second question again", threadtest.Request("again", "next", nil), "one")
			want("a fork", threadtest.Request("fork", "next", nil), "two")
			want("a fork of the first turn", threadtest.Request("early", "next", nil), "one")
			putTurn(t, s, "fork", "r5", "three")
			want("a fork that went on", threadtest.Request("fork", "next", nil), "three")
			want("the thread that was forked", t1, "two")
			want("another tenant", &host.HistoryRequest{Tenant: "globex", Thread: "t1"}, "")
			want("another thread", threadtest.Request("t2", "next", nil), "")
		})
	}
}

// A thread that is deleted after its artifacts were listed is not a damaged one.
func TestAnArtifactIsGoneWithItsThread(t *testing.T) {
	s := threads.New(testdriver.New(t), nil)
	putTurn(t, s, "t1", "r1", "one")
	refs, err := s.ThreadArtifacts(t.Context(), threadtest.Request("t1", "next", nil))
	if err != nil || len(refs) != 1 {
		t.Fatalf("ThreadArtifacts = %+v, %v", refs, err)
	}
	if err := s.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	a, err := refs[0].Open(t.Context())
	if host.CodeOf(err) != host.NotFound {
		t.Errorf("Open = %+v, %v; want code not_found", a, err)
	}
}
