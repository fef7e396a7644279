package threads_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A durable run on a new thread reads nothing from the store that has begun it.
func TestADurableRunOfThisStoreReadsNothing(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	h, agent := newHost(t, threads.New(d, nil), oneCall), lookupAgent(t, nil)
	_, _, reads := d.measure(func() {
		if _, err := h.Run(t.Context(), agent, &host.Request{Text: "where?", Durable: true}); err != nil {
			t.Fatal(err)
		}
	})
	if reads != 0 {
		t.Errorf("%d reads, want none", reads)
	}
}

// wantNoKeys fails the test unless nothing of a run is in the store.
func wantNoKeys(t *testing.T, d kv.Driver, run string) {
	t.Helper()
	for _, kind := range []string{"run", "step", "open", "lease"} {
		if keys := threadtest.KeysUnder(t, d, host.DefaultTenant, kv.NewKey("threads", kind, run)); len(keys) > 0 {
			t.Errorf("run %s has left %q", run, keys)
		}
	}
}

func TestARunLeavesNothingHoweverItsStepsWereWritten(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 600<<10) + `"`)
	for name, steps := range map[string][][]json.RawMessage{
		"one at a time": {{json.RawMessage(`2`)}, {json.RawMessage(`3`)}},
		"several":       {{json.RawMessage(`2`), json.RawMessage(`3`)}},
		"in pieces":     {{json.RawMessage(`2`)}, {large}, {json.RawMessage(`3`)}},
		"very many":     {manySteps(400), manySteps(400)},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := threadtest.NewStore(t, nil)
			_, ref := durableRun(t, s, "t1", "r1")
			at := 1
			for _, some := range steps {
				if err := s.AppendSteps(t.Context(), ref, at, some); err != nil {
					t.Fatal(err)
				}
				at += len(some)
			}
			if err := s.EndRun(t.Context(), ref, host.RunEnded, nil); err != nil {
				t.Fatal(err)
			}
			wantNoKeys(t, d, "r1")
		})
	}
}

func manySteps(n int) []json.RawMessage {
	out := make([]json.RawMessage, n)
	for i := range out {
		out[i] = json.RawMessage(`1`)
	}
	return out
}

// Another store has continued the run, and written steps of its own, before the first one
// ends it: the first has lost it.
func TestARunWithAnotherOwnerIsNotEndedFromMemory(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	_, ref := durableRun(t, s, "t1", "r1")
	other := threads.New(d, nil)
	fence, err := other.TakeRun(t.Context(), ref, 1)
	if err != nil {
		t.Fatal(err)
	}
	taken := ref
	taken.Fence = fence
	if err := other.AppendSteps(t.Context(), taken, 1, manySteps(2)); err != nil {
		t.Fatal(err)
	}
	threadtest.WantCode(t, "EndRun of the old owner", s.EndRun(t.Context(), ref, host.RunEnded, nil), host.Conflict)
	rec, err := s.ReadRun(t.Context(), "", "r1")
	if err != nil || len(rec.Steps) != 3 {
		t.Fatalf("the run has %+v, %v, want three steps", rec, err)
	}
	if err := other.EndRun(t.Context(), taken, host.RunEnded, nil); err != nil {
		t.Fatal(err)
	}
	wantNoKeys(t, d, "r1")
}

// A store remembers a thread that another one has deleted and made again: a run begins on
// the thread that there is.
func TestARunBeginsOnTheThreadThatThereIs(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.Say(t, s, "t1", "r0", threadtest.WithID("q0", "question"))
	other := threads.New(d, nil)
	if err := other.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	threadtest.Say(t, other, "t1", "r1", threadtest.WithID("q1", "another question"))
	want, err := other.ContentOf(t.Context(), "", "t1", "")
	if err != nil {
		t.Fatal(err)
	}
	rec := &host.RunRecord{Ref: host.RunRef{Thread: "t1", Run: "r1", Fence: 1}, Target: "clerk", Status: host.RunOpen}
	if err := s.CreateRun(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ContentOf(t.Context(), "", "t1", "r1"); err != nil || got != want {
		t.Errorf("the content of the run's thread = %q, %v, want %q", got, err, want)
	}
	if err := other.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	wantNoKeys(t, d, "r1")
}
