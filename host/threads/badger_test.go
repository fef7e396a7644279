package threads_test

// Scenario: a Badger directory is closed and opened again between turns; its threads
// stay the same.

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

func openBadger(t testing.TB, dir string) (*threads.Store, func()) {
	t.Helper()
	d, err := badgerkv.Open(dir, nil)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	return threads.New(d, nil), func() {
		if err := d.Close(); err != nil {
			t.Errorf("close %s: %v", dir, err)
		}
	}
}

func TestThreadsSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	var want *threads.Transcript
	for round := range 4 {
		s, done := openBadger(t, dir)
		if round > 0 {
			got, err := s.For("").Show(t.Context(), "t1", 0)
			if err != nil {
				t.Fatalf("Show = %v", err)
			}
			if diff := cmp.Diff(threadtest.Texts(want.Messages), threadtest.Texts(got.Messages)); diff != "" {
				t.Errorf("round %d: messages (-before +after):\n%s", round, diff)
			}
			got.Messages, want.Messages = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("round %d: thread (-before +after):\n%s", round, diff)
			}
		}
		run := fmt.Sprint("r", round)
		turn := threadtest.TurnOf(threadtest.Say(t, s, "t1", run, threadtest.WithID("q"+run, "question")), threadtest.WithID("a"+run, "answer"))
		turn.State = fmt.Appendf(nil, `{"round":%d}`, round)
		turn.Artifacts = []host.Artifact{{Name: "a", Parts: []host.Part{&host.Media{MediaType: "x/y", Data: make([]byte, 300_000*round)}}}}
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", run, nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
		threadtest.Say(t, s, fmt.Sprint("other", round), run, threadtest.WithID("m", "x"))
		var err error
		if want, err = s.For("").Show(t.Context(), "t1", 0); err != nil {
			t.Fatalf("Show = %v", err)
		}
		page, err := s.For("").List(t.Context(), nil)
		if err != nil || len(page.Threads) != round+2 || page.Threads[0].ID != fmt.Sprint("other", round) {
			t.Errorf("round %d: List = %+v, %v", round, page, err)
		}
		done()
	}
}
