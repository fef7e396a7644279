package threads_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// pruneStore has the threads t0 to t5, an hour apart, the last at noon.
func pruneStore(t *testing.T) (s *threads.Store, noon time.Time, left func() int) {
	t.Helper()
	s, d := threadtest.NewStore(t, nil)
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	now := noon.Add(-5 * time.Hour)
	s.SetNow(func() time.Time { return now })
	for i := range 6 {
		threadtest.TalkWithIDs(t, s, fmt.Sprintf("t%d", i), 0, 1)
		threadtest.Say(t, s, fmt.Sprintf("t%d", i), "", threadtest.WithID("long", strings.Repeat("x", 1000)))
		now = now.Add(time.Hour)
	}
	return s, noon, func() int { return len(threadtest.KeysOf(t, d, threads.DefaultTenant)) }
}

func prunedIDs(p *threads.Pruned) string {
	var out []string
	for _, t := range p.Threads {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

func TestPrune(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		opts threads.PruneOptions
		want string
	}{
		"by age":          {threads.PruneOptions{Before: noon.Add(-150 * time.Minute)}, "t2 t1 t0"},
		"by number":       {threads.PruneOptions{Keep: 4}, "t1 t0"},
		"by size":         {threads.PruneOptions{MaxBytes: 9_000}, "t3 t2 t1 t0"},
		"by all":          {threads.PruneOptions{Before: noon.Add(-270 * time.Minute), Keep: 4, MaxBytes: 1 << 20}, "t1 t0"},
		"by what is none": {threads.PruneOptions{Keep: 6}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, left := pruneStore(t)
			before := left()
			test.opts.DryRun = true
			dry, err := s.For("").Prune(t.Context(), test.opts)
			if err != nil || prunedIDs(dry) != test.want || left() != before {
				t.Fatalf("Prune without removing = %q, %v, and %d keys are left of %d; want %q", prunedIDs(dry), err, left(), before, test.want)
			}
			test.opts.DryRun = false
			got, err := s.For("").Prune(t.Context(), test.opts)
			if diff := cmp.Diff(dry, got); err != nil || diff != "" {
				t.Errorf("Prune = %v (-dry run +got):\n%s", err, diff)
			}
			page, err := s.For("").List(t.Context(), nil)
			if err != nil || len(page.Threads) != got.Kept || got.Kept+len(got.Threads) != 6 {
				t.Errorf("%d threads are left, %v; Prune kept %d", len(page.Threads), err, got.Kept)
			}
		})
	}
}

// What a thread refers to stays when the thread it was forked from goes.
func TestPruneKeepsLineage(t *testing.T) {
	s, _, left := pruneStore(t)
	threadtest.Fork(t, s, "t0", "fork", threads.At{Message: "a0"})
	threadtest.Rewind(t, s, "fork", threads.At{Message: "q0"})
	if got, err := s.For("").Prune(t.Context(), threads.PruneOptions{Keep: 1}); err != nil || len(got.Threads) != 6 {
		t.Fatalf("Prune = %+v, %v", got, err)
	}
	wantIDs(t, s, "fork", "q0")
	threadtest.Rewind(t, s, "fork", threads.At{Branch: "b1"})
	wantIDs(t, s, "fork", "q0", "a0")
	if err := s.For("").Delete(t.Context(), "fork"); err != nil || left() != 0 {
		t.Errorf("Delete = %v, and %d keys are left", err, left())
	}
}

func TestPruneLeavesRunningTurnsAlone(t *testing.T) {
	s, noon, _ := pruneStore(t)
	unlock, err := s.LockThread(t.Context(), threadtest.Request("t2", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	got, err := s.For("").Prune(t.Context(), threads.PruneOptions{Before: noon})
	if err != nil || prunedIDs(got) != "t4 t3 t1 t0" || got.Running != 1 {
		t.Errorf("Prune = %q, %d running, %v", prunedIDs(got), got.Running, err)
	}
	wantIDs(t, s, "t2", "q0", "a0", "long")
}

func TestPruneRefuses(t *testing.T) {
	s, _, _ := pruneStore(t)
	for _, opts := range []threads.PruneOptions{{}, {DryRun: true}, {Keep: -1}, {MaxBytes: -1}} {
		_, err := s.For("").Prune(t.Context(), opts)
		threadtest.WantCode(t, fmt.Sprintf("Prune(%+v)", opts), err, host.InvalidArgument)
	}
}
