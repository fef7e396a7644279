package hosttest

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runlog"
)

// TestJournal checks a journal against the contract of [host.Journal]. open returns an
// empty journal; reopen opens the last one's data again, as another process would, and
// may be nil for a journal that is not persistent.
func TestJournal(t *testing.T, open func(testing.TB) host.Journal, reopen func(testing.TB, host.Journal) host.Journal) {
	if reopen == nil {
		reopen = func(_ testing.TB, j host.Journal) host.Journal { return j }
	}
	for name, test := range map[string]func(*journalTest){
		"keeps what it is given":                     (*journalTest).keeps,
		"a run is created once":                      (*journalTest).createsOnce,
		"steps follow each other":                    (*journalTest).appends,
		"steps of every size":                        (*journalTest).largeSteps,
		"an old owner stores nothing":                (*journalTest).fences,
		"a run is taken to be ended":                 (*journalTest).takesToEnd,
		"of many takers one wins":                    (*journalTest).racingTakers,
		"a run whose owner adds a step is not taken": (*journalTest).racingOwner,
		"questions are answered once":                (*journalTest).answersOnce,
		"of many answers one wins":                   (*journalTest).racingAnswers,
		"what has ended stays so":                    (*journalTest).ends,
		"questions are found":                        (*journalTest).findsQuestions,
		"tenants do not see each other":              (*journalTest).tenants,
		"an unknown run is not found":                (*journalTest).unknown,
		"strange ids are ids":                        (*journalTest).strangeIDs,
		"many runs at once":                          (*journalTest).manyRuns,
	} {
		t.Run(name, func(t *testing.T) { test(&journalTest{T: t, j: open(t), reopen: reopen}) })
	}
}

type journalTest struct {
	*testing.T
	j      host.Journal
	reopen func(testing.TB, host.Journal) host.Journal
}

func record(run string, status host.RunStatus, steps ...string) *host.RunRecord {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rec := &host.RunRecord{Ref: host.RunRef{Tenant: "acme", Thread: "t1", Run: run, Fence: 1}, Target: "desk", Status: status, Created: at, Updated: at}
	for _, s := range steps {
		rec.Steps = append(rec.Steps, json.RawMessage(s))
	}
	return rec
}

func rawSteps(steps ...string) []json.RawMessage { return record("", "", steps...).Steps }

func (t *journalTest) create(rec *host.RunRecord) {
	t.Helper()
	if err := t.j.CreateRun(t.Context(), rec); err != nil {
		t.Fatalf("CreateRun(%s) = %v", rec.Run, err)
	}
}

func (t *journalTest) read(run string) *host.RunRecord {
	t.Helper()
	rec, err := t.j.ReadRun(t.Context(), "acme", run)
	if err != nil {
		t.Fatalf("ReadRun(%s) = %v", run, err)
	}
	return rec
}

func (t *journalTest) wantSteps(run string, steps ...string) {
	t.Helper()
	got := t.read(run).Steps
	if len(got) != len(steps) {
		t.Fatalf("run %s has %d steps, want %d", run, len(got), len(steps))
	}
	for i, want := range steps {
		if string(got[i]) != want {
			t.Errorf("step %d of %s is %.80s (%d bytes), want %.80s (%d bytes)", i, run, got[i], len(got[i]), want, len(want))
		}
	}
}

func (t *journalTest) wantCode(doing string, err error, code host.Code) {
	t.Helper()
	if host.CodeOf(err) != code {
		t.Errorf("%s = %v, want code %q", doing, err, code)
	}
}

func (t *journalTest) keeps() {
	rec := record("r1", host.RunInterrupted, `{"left":{"n":12345678901234567890}}`)
	t.create(rec)
	t.j = t.reopen(t, t.j)
	if diff := cmp.Diff(rec, t.read("r1")); diff != "" {
		t.Errorf("ReadRun (-want +got):\n%s", diff)
	}
}

func (t *journalTest) createsOnce() {
	t.create(record("r1", host.RunOpen, `1`))
	t.wantCode("CreateRun again", t.j.CreateRun(t.Context(), record("r1", host.RunOpen, `2`)), host.AlreadyExists)
	t.wantSteps("r1", `1`)
}

func (t *journalTest) appends() {
	t.create(record("r1", host.RunOpen, `1`))
	ref := record("r1", "").Ref
	for range 2 { // the second time changes nothing
		if err := t.j.AppendSteps(t.Context(), ref, 1, rawSteps(`2`, `"3"`)); err != nil {
			t.Fatalf("AppendSteps = %v", err)
		}
	}
	if err := t.j.AppendSteps(t.Context(), ref, 3, rawSteps(`[4]`)); err != nil {
		t.Fatalf("AppendSteps = %v", err)
	}
	t.j = t.reopen(t, t.j)
	t.wantSteps("r1", `1`, `2`, `"3"`, `[4]`)
}

func (t *journalTest) largeSteps() {
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(i%26)
		}
		return `"` + string(b) + `"`
	}
	large := []string{text(1), text(255 << 10), text(256<<10 - 2), text(3 << 20), text(0), text(1 << 20)}
	t.create(record("r1", host.RunOpen, text(700<<10)))
	if err := t.j.AppendSteps(t.Context(), record("r1", "").Ref, 1, rawSteps(large...)); err != nil {
		t.Fatalf("AppendSteps = %v", err)
	}
	t.j = t.reopen(t, t.j)
	t.wantSteps("r1", append([]string{text(700 << 10)}, large...)...)
	if err := t.j.EndRun(t.Context(), record("r1", "").Ref, host.RunInterrupted, json.RawMessage(text(2<<20))); err != nil {
		t.Fatalf("EndRun = %v", err)
	}
	t.wantSteps("r1", text(2<<20))
}

func (t *journalTest) fences() {
	t.create(record("r1", host.RunOpen, `1`))
	old := record("r1", "").Ref
	fence, err := t.j.TakeRun(t.Context(), old, 1)
	if err != nil || fence <= old.Fence {
		t.Fatalf("TakeRun = %d, %v, want a fence above %d", fence, err, old.Fence)
	}
	t.wantCode("AppendSteps of the old owner", t.j.AppendSteps(t.Context(), old, 1, rawSteps(`"old"`)), host.Conflict)
	t.wantCode("EndRun of the old owner", t.j.EndRun(t.Context(), old, host.RunEnded, nil), host.Conflict)
	_, err = t.j.TakeRun(t.Context(), old, 1)
	t.wantCode("TakeRun of the old owner", err, host.Conflict)
	own := old
	own.Fence = fence
	if err := t.j.AppendSteps(t.Context(), own, 1, rawSteps(`"new"`)); err != nil {
		t.Errorf("AppendSteps of the owner = %v", err)
	}
	t.wantSteps("r1", `1`, `"new"`)
	_, err = t.j.TakeRun(t.Context(), own, 1)
	t.wantCode("TakeRun by one that has not read the last step", err, host.Conflict)
	if got := t.read("r1"); got.Fence != fence || got.Status != host.RunOpen {
		t.Errorf("ReadRun = fence %d, %s", got.Fence, got.Status)
	}
}

// takesToEnd takes a run without having read its steps, as a host does that gives it up.
func (t *journalTest) takesToEnd() {
	for i, steps := range [][]string{nil, {`1`}, {`1`, `2`, `3`}} {
		run := fmt.Sprint("r", i)
		t.create(record(run, host.RunOpen, steps...))
		ref := record(run, "").Ref
		fence, err := t.j.TakeRun(t.Context(), ref, runlog.AnySteps)
		if err != nil || fence <= ref.Fence {
			t.Fatalf("TakeRun of a run with %d steps = %d, %v, want a fence above %d", len(steps), fence, err, ref.Fence)
		}
		_, err = t.j.TakeRun(t.Context(), ref, runlog.AnySteps)
		t.wantCode("TakeRun of the old owner", err, host.Conflict)
		ref.Fence = fence
		if err := t.j.EndRun(t.Context(), ref, host.RunEnded, nil); err != nil {
			t.Errorf("EndRun = %v", err)
		}
	}
}

func (t *journalTest) racingTakers() {
	t.create(record("r1", host.RunOpen, `1`))
	var won atomic.Int32
	t.race(func(int) {
		_, err := t.j.TakeRun(t.Context(), record("r1", "").Ref, 1)
		if err == nil {
			won.Add(1)
		} else if host.CodeOf(err) != host.Conflict {
			t.Errorf("TakeRun = %v", err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d took the run, want one", won.Load())
	}
}

// racingOwner takes runs over whose owner stores a step at that moment: either the step is
// stored and the run is not taken, or the other way round.
func (t *journalTest) racingOwner() {
	for i := range racers {
		run := fmt.Sprint("r", i)
		t.create(record(run, host.RunOpen, `1`))
		var done atomic.Int32
		t.race(func(i int) {
			var err error
			switch i {
			case 0:
				err = t.j.AppendSteps(t.Context(), record(run, "").Ref, 1, rawSteps(`2`))
			case 1:
				_, err = t.j.TakeRun(t.Context(), record(run, "").Ref, 1)
			default:
				return
			}
			if err == nil {
				done.Add(1)
			} else if host.CodeOf(err) != host.Conflict {
				t.Errorf("AppendSteps or TakeRun = %v", err)
			}
		})
		if done.Load() != 1 {
			t.Errorf("%d of the owner's step and the other's taking succeeded, want one", done.Load())
		}
	}
}

// racers is the number of goroutines that make the same call at once.
const racers = 16

func (t *journalTest) race(fn func(i int)) {
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

func answering(run, asked string) *host.RunRecord {
	rec := record(run, host.RunOpen, `1`)
	rec.Answers = asked
	return rec
}

func (t *journalTest) answersOnce() {
	t.create(record("asks", host.RunInterrupted, `1`))
	t.create(answering("r2", "asks"))
	t.wantCode("a second answer", t.j.CreateRun(t.Context(), answering("r3", "asks")), host.Conflict)
	t.wantCode("an answer to nobody", t.j.CreateRun(t.Context(), answering("r4", "nobody")), host.NotFound)
	t.wantCode("an answer to an open run", t.j.CreateRun(t.Context(), answering("r5", "r2")), host.Conflict)
	for _, run := range []string{"r3", "r4", "r5"} {
		_, err := t.j.ReadRun(t.Context(), "acme", run)
		t.wantCode("ReadRun of what was refused", err, host.NotFound)
	}
	t.j = t.reopen(t, t.j)
	if got := t.read("asks"); got.Status != host.RunAnswered || got.AnsweredBy != "r2" {
		t.Errorf("ReadRun = %s by %q", got.Status, got.AnsweredBy)
	}
	if got := t.read("r2"); got.Answers != "asks" {
		t.Errorf("ReadRun = answers %q", got.Answers)
	}
}

// findsQuestions checks journals that are a [host.QuestionKeeper].
func (t *journalTest) findsQuestions() {
	if _, ok := t.j.(host.QuestionKeeper); !ok {
		t.Skip("the journal finds no questions")
	}
	soon, later := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)
	t.create(record("r0", host.RunOpen, `1`))
	t.create(record("r1", host.RunOpen, `1`))
	one := record("r1", host.RunOpen)
	asks := []host.AskedQuestion{{ID: "q1", Key: "order 1", Expires: &later}, {ID: "q2", Expires: &soon}}
	if err := t.j.(host.QuestionKeeper).LeaveRun(t.Context(), one.Ref, json.RawMessage(`"left"`), asks); err != nil {
		t.Fatalf("LeaveRun = %v", err)
	}
	two := record("r2", host.RunInterrupted, `1`)
	two.Asks = []host.AskedQuestion{{ID: "q3", Key: "order 2", Expires: &later}}
	t.create(two)
	t.create(record("r3", host.RunInterrupted, `1`))
	t.j = t.reopen(t, t.j)
	t.wantSteps("r1", `"left"`)
	t.wantWaiting(host.WaitingFilter{}, "r1", "r2", "r3")
	t.wantWaiting(host.WaitingFilter{After: "r1"}, "r2", "r3")
	t.wantWaiting(host.WaitingFilter{Key: "order 1"}, "r1")
	t.wantWaiting(host.WaitingFilter{Key: "order"})
	t.wantWaiting(host.WaitingFilter{Due: soon.Add(-1)})
	t.wantWaiting(host.WaitingFilter{Due: soon}, "r1")
	t.wantWaiting(host.WaitingFilter{Due: later}, "r1", "r2")
	t.wantWaiting(host.WaitingFilter{Due: later, Key: "order 2"}, "r2")
	if other, err := t.j.(host.QuestionKeeper).WaitingRuns(t.Context(), "bolt", host.WaitingFilter{}); err != nil || len(other) > 0 {
		t.Errorf("WaitingRuns of another tenant = %v, %v", other, err)
	}
	t.create(answering("r4", "r1"))
	t.wantWaiting(host.WaitingFilter{Due: later}, "r2")
	t.wantCode("LeaveRun of a run that is answered", t.j.(host.QuestionKeeper).LeaveRun(t.Context(), one.Ref, json.RawMessage(`1`), asks), host.Conflict)
}

// wantWaiting compares the waiting runs with the wanted ones.
func (t *journalTest) wantWaiting(filter host.WaitingFilter, want ...string) {
	t.Helper()
	list, err := t.j.(host.QuestionKeeper).WaitingRuns(t.Context(), "acme", filter)
	var got []string
	for _, rec := range list {
		if got = append(got, rec.Run); rec.Status != host.RunInterrupted || rec.Target != "desk" || rec.Thread != "t1" || len(rec.Steps) > 0 || !filter.Takes(rec.Asks) {
			t.Errorf("WaitingRuns has %+v", rec)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("WaitingRuns(%+v) = %v (-want +got):\n%s", filter, err, diff)
	}
}

func (t *journalTest) racingAnswers() {
	t.create(record("asks", host.RunInterrupted, `1`))
	var won atomic.Int32
	t.race(func(i int) {
		err := t.j.CreateRun(t.Context(), answering(fmt.Sprint("r", i), "asks"))
		if err == nil {
			won.Add(1)
		} else if host.CodeOf(err) != host.Conflict {
			t.Errorf("CreateRun = %v", err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d answers were taken, want one", won.Load())
	}
}

func (t *journalTest) ends() {
	ref := record("r1", "").Ref
	t.create(record("r1", host.RunOpen, `1`, `2`))
	if err := t.j.EndRun(t.Context(), ref, host.RunInterrupted, json.RawMessage(`"left"`)); err != nil {
		t.Fatalf("EndRun = %v", err)
	}
	t.wantSteps("r1", `"left"`)
	t.wantCode("AppendSteps to an interrupted run", t.j.AppendSteps(t.Context(), ref, 1, rawSteps(`2`)), host.Conflict)
	_, err := t.j.TakeRun(t.Context(), ref, 1)
	t.wantCode("TakeRun of an interrupted run", err, host.Conflict)

	t.create(answering("r2", "r1"))
	ref.Run = "r2"
	if err := t.j.EndRun(t.Context(), ref, host.RunEnded, nil); err != nil {
		t.Fatalf("EndRun = %v", err)
	}
	t.j = t.reopen(t, t.j)
	if rec, err := t.j.ReadRun(t.Context(), "acme", "r2"); err == nil && (rec.Status != host.RunEnded || len(rec.Steps) > 0) {
		t.Errorf("ReadRun = %s with %d steps, want one that has ended", rec.Status, len(rec.Steps))
	} else if err != nil {
		t.wantCode("ReadRun of what has ended", err, host.NotFound)
	}
	if err := t.j.AppendSteps(t.Context(), ref, 1, rawSteps(`2`)); err == nil {
		t.Errorf("AppendSteps to a run that has ended worked")
	}
}

func (t *journalTest) tenants() {
	t.create(record("r1", host.RunOpen, `"acme's"`))
	_, err := t.j.ReadRun(t.Context(), "other", "r1")
	t.wantCode("ReadRun of another's", err, host.NotFound)
	other := record("r1", host.RunOpen, `"other's"`)
	other.Tenant = "other"
	t.create(other)
	ref := other.Ref
	if err := t.j.EndRun(t.Context(), ref, host.RunEnded, nil); err != nil {
		t.Errorf("EndRun = %v", err)
	}
	t.wantSteps("r1", `"acme's"`)
}

func (t *journalTest) unknown() {
	ref := record("r1", "").Ref
	_, err := t.j.ReadRun(t.Context(), "acme", "r1")
	t.wantCode("ReadRun", err, host.NotFound)
	_, err = t.j.TakeRun(t.Context(), ref, 1)
	t.wantCode("TakeRun", err, host.NotFound)
	t.wantCode("AppendSteps", t.j.AppendSteps(t.Context(), ref, 0, rawSteps(`1`)), host.NotFound)
	t.wantCode("EndRun", t.j.EndRun(t.Context(), ref, host.RunEnded, nil), host.NotFound)
}

func (t *journalTest) strangeIDs() {
	for i, id := range []string{"../x", "a/b", "a", "a/", "ü", "r1\u00a0"} {
		step := fmt.Sprint(i)
		t.create(record(id, host.RunOpen, step))
		t.wantSteps(id, step)
	}
	t.wantSteps("a", "2")
}

func (t *journalTest) manyRuns() {
	t.race(func(i int) {
		run := fmt.Sprint("r", i)
		if err := t.j.CreateRun(t.Context(), record(run, host.RunOpen, `0`)); err != nil {
			t.Errorf("CreateRun = %v", err)
			return
		}
		for n := range 5 {
			if err := t.j.AppendSteps(t.Context(), record(run, "").Ref, n+1, rawSteps(fmt.Sprint(n+1))); err != nil {
				t.Errorf("AppendSteps = %v", err)
			}
		}
	})
	for i := range racers {
		t.wantSteps(fmt.Sprint("r", i), `0`, `1`, `2`, `3`, `4`, `5`)
	}
}
