package threads_test

// Scenario: each commit of a store fails in its turn, written or not; the failed step
// and those after it are repeated and end with the same threads.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// outage is a driver on which one commit fails: the power is gone, or the disk is
// full. What it returns from Commit without error is durable, as the contract of
// drivers says; so a store that acknowledges anything before its commit has
// returned would be found out here.
type outage struct {
	kv.Driver
	at      int   // the commit that fails
	err     error // what it says
	written bool  // although it is written
	for_    int   // how many commits fail from then on
	n       int
}

func (o *outage) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := make([]kv.Result, len(txs))
	for i, tx := range txs {
		o.n++
		if o.n < o.at || o.n >= o.at+o.for_ {
			results[i] = o.Driver.Commit(ctx, tx)[0]
			continue
		}
		if o.written && o.n == o.at {
			if failed := o.Driver.Commit(ctx, tx)[0]; failed.Err != nil {
				results[i] = failed
				continue
			}
		}
		results[i].Err = fmt.Errorf("commit: %w", o.err)
	}
	return results
}

// outageSteps are everything that a store writes, each of which may be done again.
func outageSteps(t *testing.T) []func(s *threads.Store) error {
	turn := func(run, id string, artifact int) func(*threads.Store) error {
		return func(s *threads.Store) error {
			req := &host.HistoryRequest{Thread: "t1", Run: run, Input: threadtest.WithID("q"+id, "question")}
			req.Input.CreatedAt = time.Time{}
			head, err := s.AppendUserMessage(t.Context(), req)
			if err != nil {
				return err
			}
			answer := threadtest.WithID("a"+id, "answer")
			answer.CreatedAt = time.Time{}
			turn := threadtest.TurnOf(head, answer)
			turn.State = fmt.Appendf(nil, `{"turn":%q}`, run)
			turn.Artifacts = []host.Artifact{{Name: "a", Parts: []host.Part{&host.Text{Text: strings.Repeat(id, artifact)}}}}
			return s.AppendResults(t.Context(), req, turn)
		}
	}
	title := "a title"
	edited := threadtest.WithID("e0", "another question")
	edited.CreatedAt = time.Time{}
	source := `{"format":"agenthost.thread","version":1,"thread":{"id":"moved","created_at":"2024-01-01T00:00:00Z"},"messages":[` +
		strings.TrimSuffix(strings.Repeat(`{"role":"user","parts":[{"type":"text","text":"x"}],"created_at":"2024-01-01T00:00:00Z"},`, 600), ",") + `]}`
	return []func(*threads.Store) error{
		func(s *threads.Store) error {
			_, _, err := s.For("").Create(t.Context(), &threads.CreateOptions{ID: "t1"})
			return err
		},
		turn("r0", "0", 300_000),
		turn("r1", "1", 10),
		func(s *threads.Store) error {
			_, err := s.For("").EditMessage(t.Context(), "t1", "q0", edited, nil)
			return err
		},
		func(s *threads.Store) error {
			_, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "fork", At: threads.At{Snapshot: "r0"}})
			return unless(err, host.AlreadyExists)
		},
		func(s *threads.Store) error {
			_, err := s.For("").Rewind(t.Context(), "t1", threads.At{Message: "e0"}, nil)
			return err
		},
		turn("r2", "2", 270_000),
		func(s *threads.Store) error {
			_, err := s.For("").Update(t.Context(), "t1", threads.Change{Title: &title})
			return err
		},
		func(s *threads.Store) error {
			_, err := threadtest.ImportInto(t, s, "", "", "", source)
			return err
		},
		func(s *threads.Store) error { return unless(s.For("").Delete(t.Context(), "fork"), host.NotFound) },
	}
}

func unless(err error, code host.Code) error {
	if host.CodeOf(err) == code {
		return nil
	}
	return err
}

// whatShows is every thread that exists, as it is exported, and verified.
func whatShows(t *testing.T, s *threads.Store) string {
	t.Helper()
	page, err := s.For("").List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, info := range page.Threads {
		if _, err := s.For("").Verify(t.Context(), info.ID); err != nil {
			t.Fatalf("Verify(%s) = %v", info.ID, err)
		}
		if info.ID != "moved" { // an import is many commits
			out = append(out, threadtest.WithoutHead(threadtest.ExportOf(t, s, "", info.ID, transfer.FormatThread)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func outageStore(t *testing.T, d kv.Driver) *threads.Store {
	t.Helper()
	s := threads.New(d, nil)
	s.SetNow(func() time.Time { return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC) })
	return s
}

// Whichever commit fails, and whether it was written after all: what was
// acknowledged is there, what was not is there whole or not at all, and doing it
// again leads to where nothing had failed.
func TestAnyCommitMayFail(t *testing.T) {
	clean := &outage{Driver: testdriver.New(t)}
	s := outageStore(t, clean)
	shows := []string{whatShows(t, s)}
	for i, step := range outageSteps(t) {
		if err := step(s); err != nil {
			t.Fatalf("step %d = %v", i, err)
		}
		shows = append(shows, whatShows(t, s))
	}
	moved := threadtest.WithoutHead(threadtest.ExportOf(t, s, "", "moved", transfer.FormatThread))
	t.Logf("%d commits", clean.n)
	for name, o := range map[string]outage{
		"the power is gone before":   {err: kv.ErrInDoubt, for_: 1 << 30},
		"the power is gone after":    {err: kv.ErrInDoubt, written: true, for_: 1 << 30},
		"the disk is full":           {err: kv.ErrNoSpace, for_: 1 << 30},
		"the disk is full for once":  {err: kv.ErrNoSpace, for_: 1},
		"the outcome is not known":   {err: kv.ErrInDoubt, for_: 1},
		"it is written and not said": {err: kv.ErrInDoubt, written: true, for_: 1},
	} {
		t.Run(name, func(t *testing.T) {
			every := longtest.Alone(11, testdriver.Rounds(longtest.Rounds(6, 1), 13))
			for at := 1 + rand.IntN(every); at <= clean.n; at += every {
				o := o
				o.Driver, o.at = testdriver.New(t), at
				failed := failingStep(t, outageStore(t, &o), outageSteps(t))
				s := outageStore(t, o.Driver)
				before, after := shows[failed], shows[min(failed+1, len(shows)-1)]
				got := whatShows(t, s)
				if between := failed == 1 || failed == 2 || failed == 6; got != before && got != after && !between { // the question is a commit of its own
					t.Fatalf("commit %d fails in step %d: there is\n%.2000s\nwant what was before or after it", at, failed, got)
				}
				for i, step := range outageSteps(t) {
					if i < failed {
						continue
					}
					if err := step(s); err != nil {
						t.Fatalf("commit %d failed: step %d again = %v", at, i, err)
					}
				}
				if got := whatShows(t, s); got != shows[len(shows)-1] {
					t.Fatalf("commit %d failed: in the end there is\n%.2000s\nwant\n%.2000s", at, got, shows[len(shows)-1])
				}
				if got := threadtest.WithoutHead(threadtest.ExportOf(t, s, "", "moved", transfer.FormatThread)); got != moved {
					t.Fatalf("commit %d failed: the import is another thread", at)
				}
			}
		})
	}
}

// failingStep does steps until one fails, and returns which.
func failingStep(t *testing.T, s *threads.Store, steps []func(*threads.Store) error) int {
	t.Helper()
	for i, step := range steps {
		if err := step(s); err != nil {
			if code := host.CodeOf(err); code != host.Unavailable && code != host.ResourceExhausted {
				t.Errorf("step %d = %v (%s)", i, err, code)
			}
			return i
		}
	}
	return len(steps) // what failed was only tidying up
}
