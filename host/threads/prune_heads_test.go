package threads_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/search"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// stored is how many bytes of keys and values a driver has.
func stored(t testing.TB, d kv.Driver) (bytes int64) {
	t.Helper()
	for e, err := range kv.All(t.Context(), kv.Checked(d), threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		bytes += int64(len(e.Key) + len(e.Value))
	}
	return bytes
}

// bigTurn is a turn with a message, a state and an artifact that nothing else has.
func bigTurn(t testing.TB, s *threads.Store, thread, run string, size int) {
	t.Helper()
	req := threadtest.Request(thread, run, threadtest.WithID("q-"+run, "what of "+run+"? "+strings.Repeat("q", size)))
	head, err := s.AppendUserMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	turn := threadtest.TurnOf(head, threadtest.Assistant("a-"+run, "this of "+run+" "+strings.Repeat("a", size)))
	turn.State = json.RawMessage(fmt.Sprintf(`{"run":%q,"filler":%q}`, run, strings.Repeat(run, size/3)))
	turn.Artifacts = []host.Artifact{{Name: "report", Parts: []host.Part{&host.Text{Text: run + strings.Repeat("r", size)}}}}
	if err := s.AppendResults(t.Context(), threadtest.Request(thread, run, nil), turn); err != nil {
		t.Fatal(err)
	}
}

func TestPruneHeadsFreesWhatNothingShows(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	bigTurn(t, s, "t", "r0", 1000)
	first := stored(t, d)
	for i := range 20 { // the same question is answered again and again
		bigTurn(t, s, "t", fmt.Sprint("r", i+1), 1000)
		threadtest.Rewind(t, s, "t", threads.At{Snapshot: "r0"})
	}
	full := stored(t, d)
	wantIDs(t, s, "t", "q-r0", "a-r0")

	dry, err := s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Keep: 5, DryRun: true})
	if err != nil || len(dry.Branches) != 15 || stored(t, d) != full {
		t.Fatalf("without removing: %+v, %v", dry, err)
	}
	head := threadtest.Load(t, s, "t").Head
	got, err := s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Keep: 5})
	if err != nil || got.Kept != 5 || !cmp.Equal(got.Branches, dry.Branches) || got.Branches[0].ID != "b1" {
		t.Fatalf("PruneHeads = %+v, %v", got, err)
	}
	left := stored(t, d)
	if got.Bytes != full-left || left-first > (full-first)*5/20+(full-first)/20 {
		t.Errorf("%d bytes are left of %d, and %d were there before the 20 turns; it says %d fewer", left, full, first, got.Bytes)
	}
	if threadtest.Load(t, s, "t").Head != head {
		t.Error("the thread has another head")
	}
	if _, err := s.For("").Snapshot(t.Context(), "t", "r3"); host.CodeOf(err) != host.NotFound {
		t.Errorf("the snapshot of a head that went: %v", err)
	}
	if hits, err := search.New(s).Messages(t.Context(), "", "r3", nil); err != nil || len(hits) != 0 {
		t.Errorf("what went is found: %v, %v", hits, err)
	}
	if got, err := s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Keep: 5}); err != nil || len(got.Branches) != 0 || got.Bytes != 0 {
		t.Errorf("again: %+v, %v", got, err)
	}
	bigTurn(t, s, "t", "r3", 1000) // under the id of a run that went
	wantIDs(t, s, "t", "q-r0", "a-r0", "q-r3", "a-r3")
	threadtest.Rewind(t, s, "t", threads.At{Branch: "b20"})
	wantIDs(t, s, "t", "q-r0", "a-r0", "q-r20", "a-r20")

	got, err = s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{MaxBytes: left / 2})
	if err != nil || stored(t, d) > left*3/4 || got.Kept == 0 {
		t.Errorf("by size: %+v, %v, and %d bytes are left of %d", got, err, stored(t, d), left)
	}
	got, err = s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Before: time.Now().Add(time.Hour)})
	if err != nil || got.Kept != 0 || len(branches(t, s, "t")) != 1 {
		t.Errorf("by age: %+v, %v", got, err)
	}
	wantIDs(t, s, "t", "q-r0", "a-r0", "q-r20", "a-r20")
	if v, err := s.For("").Verify(t.Context(), "t"); err != nil {
		t.Errorf("Verify = %+v, %v", v, err)
	}
	if err := s.For("").Delete(t.Context(), "t"); err != nil || len(threadtest.KeysOf(t, d, threads.DefaultTenant)) != 0 {
		t.Errorf("Delete = %v, and %d keys are left", err, len(threadtest.KeysOf(t, d, threads.DefaultTenant)))
	}
}

func TestPruneHeadsRefuses(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.Talk(t, s, "t", 1)
	for name, c := range map[string]struct {
		thread string
		opts   threads.PruneHeadsOptions
		code   host.Code
	}{
		"nothing said":    {"t", threads.PruneHeadsOptions{}, host.InvalidArgument},
		"negative number": {"t", threads.PruneHeadsOptions{Keep: -1}, host.InvalidArgument},
		"negative size":   {"t", threads.PruneHeadsOptions{MaxBytes: -1}, host.InvalidArgument},
		"no thread":       {"u", threads.PruneHeadsOptions{Keep: 1}, host.NotFound},
		"no id":           {"", threads.PruneHeadsOptions{Keep: 1}, host.InvalidArgument},
	} {
		_, err := s.For("").PruneHeads(t.Context(), c.thread, c.opts)
		threadtest.WantCode(t, name, err, c.code)
	}
}

// What a fork and an open branch go back to stays, until they go as well.
func TestPruneHeadsKeepsWhatOthersGoBackTo(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	for i := range 3 {
		bigTurn(t, s, "t", fmt.Sprint("r", i), 1000)
	}
	threadtest.Fork(t, s, "t", "f", threads.At{Snapshot: "r2"})
	branch, err := s.Branch(t.Context(), threadtest.Request("t", "r9", nil), "q-r1")
	if err != nil {
		t.Fatal(err)
	}
	threadtest.Rewind(t, s, "t", threads.At{Snapshot: "r0"})
	all := threads.PruneHeadsOptions{Before: time.Now().Add(time.Hour)}
	got, err := s.For("").PruneHeads(t.Context(), "t", all)
	if err != nil || len(got.Branches) != 1 || got.Kept != 1 {
		t.Fatalf("PruneHeads = %+v, %v", got, err)
	}
	wantIDs(t, s, "f", "q-r0", "a-r0", "q-r1", "a-r1", "q-r2", "a-r2")
	if got := idsAt(t, s, "t", threads.At{Branch: branch}); !slices.Equal(got, []string{"q-r0", "a-r0", "q-r1"}) {
		t.Errorf("the branch shows %q", got)
	}
	if err := s.For("").Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	before := stored(t, d)
	all.Open = true
	if got, err = s.For("").PruneHeads(t.Context(), "t", all); err != nil || len(got.Branches) != 1 || got.Kept != 0 {
		t.Fatalf("PruneHeads with open branches = %+v, %v", got, err)
	}
	if left := stored(t, d); left > before*2/3 {
		t.Errorf("%d bytes are left of %d", left, before)
	}
	wantIDs(t, s, "t", "q-r0", "a-r0")
	if v, err := s.For("").Verify(t.Context(), "t"); err != nil {
		t.Errorf("Verify = %+v, %v", v, err)
	}
}

// A turn of one branch is inherited by another, and the thread shows neither: the turn is found by
// its snapshot for as long as one of the two stays.
func TestATurnThatAHeadHasInheritedIsFoundAfterItsOwnHeadIsPruned(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	rewind := func(at threads.At) {
		t.Helper()
		if _, err := s.For("").Rewind(t.Context(), "t", at, nil); err != nil {
			t.Fatal(err)
		}
	}
	branch := func(run, message string) string { // returns the head of a branch that begins before a message
		t.Helper()
		if _, err := s.Branch(t.Context(), threadtest.Request("t", run, nil), message); err != nil {
			t.Fatal(err)
		}
		return branches(t, s, "t")[1].Head
	}
	bigTurn(t, s, "t", "r0", 1)
	bigTurn(t, s, "t", "r1", 1)
	rewind(threads.At{Branch: branch("b", "q-r1")})
	bigTurn(t, s, "t", "r2", 1)
	bigTurn(t, s, "t", "r3", 1)
	rewind(threads.At{Branch: branch("c", "q-r3")})
	bigTurn(t, s, "t", "r4", 1) // behind r2
	rewind(threads.At{Snapshot: "r1"})
	want, err := s.For("").ShowAt(t.Context(), "t", threads.At{Snapshot: "r2"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	pruned, err := s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Keep: 1, Open: true})
	if err != nil || pruned.Kept != 1 || len(pruned.Branches) == 0 {
		t.Fatalf("PruneHeads = %+v, %v, want that one head stays", pruned, err)
	}
	got, err := s.For("").ShowAt(t.Context(), "t", threads.At{Snapshot: "r2"}, 10)
	if err != nil || fmt.Sprint(threadtest.Texts(got.Messages)) != fmt.Sprint(threadtest.Texts(want.Messages)) {
		t.Errorf("the snapshot of the turn = %+v, %v, want %v", got, err, threadtest.Texts(want.Messages))
	}
	if _, err := s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Before: time.Now().Add(time.Hour), Open: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").ShowAt(t.Context(), "t", threads.At{Snapshot: "r2"}, 10); host.CodeOf(err) != host.NotFound {
		t.Errorf("the snapshot that no head shows = %v, want not_found", err)
	}
}

// lineage is what can be seen of threads.
type lineage map[string]string

// TestPrunedHeadsAreAllThatGoes changes threads at random, drops some of their
// heads, and holds that what stays shows what it has shown.
func TestPrunedHeadsAreAllThatGoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, d := threadtest.NewStore(t, nil)
		w := &headsWorld{t: t, rt: rt, s: s, threads: []string{"t0"}}
		w.turn("t0")
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				w.step()
			}
			w.prune(d)
		}
		for _, thread := range w.threads {
			if err := s.For("").Delete(t.Context(), thread); err != nil {
				rt.Fatal(err)
			}
		}
		if keys := threadtest.KeysOf(t, d, threads.DefaultTenant); len(keys) != 0 {
			rt.Fatalf("all threads are deleted, and %d keys are left, such as %s", len(keys), keys[0])
		}
	})
}

type headsWorld struct {
	t       *testing.T
	rt      *rapid.T
	s       *threads.Store
	threads []string
	n       int
}

func (w *headsWorld) turn(thread string) {
	w.n++
	bigTurn(w.t, w.s, thread, fmt.Sprint("r", w.n), 10)
}

func (w *headsWorld) step() {
	thread := rapid.SampledFrom(w.threads).Draw(w.rt, "thread")
	shown := idsAt(w.t, w.s, thread, threads.At{})
	message := rapid.SampledFrom(append(shown, "none")).Draw(w.rt, "message")
	var err error
	w.n++
	switch rapid.SampledFrom([]string{"turn", "turn", "edit", "delete", "rewind", "snapshot", "resume", "fork", "branch"}).Draw(w.rt, "do") {
	case "turn":
		w.turn(thread)
	case "edit":
		_, err = w.s.For("").EditMessage(w.t.Context(), thread, message, &host.Message{ID: fmt.Sprint("e", w.n), Parts: []host.Part{&host.Text{Text: "edited"}}}, nil)
	case "delete":
		_, err = w.s.For("").DeleteMessage(w.t.Context(), thread, message, nil)
	case "rewind":
		_, err = w.s.For("").Rewind(w.t.Context(), thread, threads.At{Message: message, Before: w.n%2 == 0}, nil)
	case "snapshot":
		_, err = w.s.For("").Rewind(w.t.Context(), thread, threads.At{Snapshot: fmt.Sprint("r", rapid.IntRange(1, w.n).Draw(w.rt, "run"))}, nil)
	case "resume":
		heads := branches(w.t, w.s, thread)
		_, err = w.s.For("").Rewind(w.t.Context(), thread, threads.At{Branch: rapid.SampledFrom(heads).Draw(w.rt, "branch").Head}, nil)
	case "fork":
		id := fmt.Sprint("t", w.n)
		if _, err = w.s.For("").Fork(w.t.Context(), thread, &threads.ForkOptions{ID: id}); err == nil {
			w.threads = append(w.threads, id)
		}
	case "branch":
		_, err = w.s.Branch(w.t.Context(), threadtest.Request(thread, fmt.Sprint("r", w.n), nil), message)
	}
	if code := host.CodeOf(err); err != nil && code != host.NotFound && code != host.InvalidArgument {
		w.rt.Fatal(err)
	}
}

// prune drops heads of one thread, and looks at all.
func (w *headsWorld) prune(d kv.Driver) {
	thread := rapid.SampledFrom(w.threads).Draw(w.rt, "pruned")
	opts := threads.PruneHeadsOptions{Keep: rapid.IntRange(0, 3).Draw(w.rt, "keep"), Open: rapid.Bool().Draw(w.rt, "open")}
	if opts.Keep == 0 {
		opts.Before = time.Now().Add(time.Hour)
	}
	opts.DryRun = true
	dry, err := w.s.For("").PruneHeads(w.t.Context(), thread, opts)
	if err != nil {
		w.rt.Fatal(err)
	}
	gone := map[string]bool{}
	for _, b := range dry.Branches {
		gone[thread+"/"+b.ID] = true
	}
	want, before := w.see(gone), stored(w.t, d)
	opts.DryRun = false
	if _, err := w.s.For("").PruneHeads(w.t.Context(), thread, opts); err != nil {
		w.rt.Fatal(err)
	}
	if diff := cmp.Diff(want, w.see(nil)); diff != "" {
		w.rt.Fatalf("after PruneHeads of %s (-want +got):\n%s", thread, diff)
	}
	if now := stored(w.t, d); now > before {
		w.rt.Fatalf("%d bytes are stored, more than %d", now, before)
	}
	for _, thread := range w.threads {
		if _, err := w.s.For("").Verify(w.t.Context(), thread); err != nil {
			w.rt.Fatalf("Verify of %s: %v", thread, err)
		}
	}
}

// see is what threads, their heads but some, and the snapshots of their turns show.
func (w *headsWorld) see(without map[string]bool) lineage {
	out := lineage{}
	for _, thread := range w.threads {
		for _, b := range branches(w.t, w.s, thread) {
			if without[thread+"/"+b.ID] {
				continue
			}
			at := threads.At{}
			if b.ID != "" {
				at.Branch = b.ID
			}
			w.seeAt(out, thread, at)
		}
	}
	return out
}

func (w *headsWorld) seeAt(out lineage, thread string, at threads.At) {
	name := fmt.Sprintf("%s %+v", thread, at)
	if out[name] != "" {
		return
	}
	show, err := w.s.For("").ShowAt(w.t.Context(), thread, at, 1000)
	if at.Snapshot != "" && host.CodeOf(err) == host.NotFound {
		out[name] = "none" // what a thread was forked with is found while it shows it
		return
	}
	if err != nil {
		w.rt.Fatalf("ShowAt of %s at %+v: %v", thread, at, err)
	}
	text := fmt.Sprint(show.Thread.Head, threadtest.Texts(show.Messages), string(show.State))
	for _, a := range show.Artifacts {
		if _, err := w.s.For("").ArtifactAt(w.t.Context(), thread, at, a.Digest); err != nil {
			w.rt.Fatalf("artifact of %s at %+v: %v", thread, at, err)
		}
		text += a.Digest
	}
	out[name] = text
	for _, snap := range show.Snapshots {
		w.seeAt(out, thread, threads.At{Snapshot: snap.ID})
	}
}

// A message that lies elsewhere for its size stays with who shows it, and goes with
// who did.
func TestPruneHeadsOfLargeMessages(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	const large = 2 << 20
	threadtest.Say(t, s, "t", "r0", threadtest.WithID("m0", strings.Repeat("x", large)))
	threadtest.Say(t, s, "t", "r1", threadtest.WithID("m1", strings.Repeat("y", large)))
	threadtest.Edit(t, s, "t", "m1", threadtest.WithID("m2", strings.Repeat("z", large)))
	all := threads.PruneHeadsOptions{Before: time.Now().Add(time.Hour)}
	got, err := s.For("").PruneHeads(t.Context(), "t", all)
	if err != nil || got.Bytes < large || stored(t, d) > 2*large+large/2 {
		t.Errorf("PruneHeads = %+v, %v, and %d bytes are left", got, err, stored(t, d))
	}
	if m := threadtest.Load(t, s, "t").Messages; len(m) != 2 || len(m[0].Text()) != large || m[1].Text()[0] != 'z' {
		t.Errorf("%d messages are shown", len(m))
	}
	threadtest.Say(t, s, "t", "r2", threadtest.WithID("m3", strings.Repeat("y", large))) // what went is stored anew
	if _, err := s.For("").Verify(t.Context(), "t"); err != nil {
		t.Error(err)
	}
}

// Another process prunes a thread's heads while turns and rewinds come, whose states
// were there before and may just be on their way out.
func TestPruneHeadsBesideTurns(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	other := threads.New(d, nil)
	bigTurn(t, s, "t", "r0", 1000)
	done, pruning := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			_, err := other.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Keep: 1})
			if err != nil && host.CodeOf(err) != host.Conflict { // it always lost
				pruning <- err
				return
			}
			select {
			case <-done:
				pruning <- nil
				return
			default:
			}
		}
	}()
	states := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}
	for i := range 60 {
		run := fmt.Sprint("x", i)
		turn := threadtest.TurnOf(threadtest.Say(t, s, "t", run, threadtest.WithID("q-"+run, "and?")), threadtest.Assistant("a-"+run, "yes"))
		turn.State = json.RawMessage(states[i%len(states)])
		turn.Artifacts = []host.Artifact{{Name: "report", Parts: []host.Part{&host.Text{Text: states[i%2]}}}}
		if err := s.AppendResults(t.Context(), threadtest.Request("t", run, nil), turn); err != nil {
			t.Errorf("turn %d: %v", i, err)
		}
		show, err := s.For("").Show(t.Context(), "t", 0)
		if err != nil || string(show.State) != states[i%len(states)] || len(show.Messages) != 4 {
			t.Errorf("after turn %d: %+v, %v", i, show, err)
		}
		if i < 59 {
			threadtest.Rewind(t, s, "t", threads.At{Snapshot: "r0"})
		}
	}
	close(done)
	if err := <-pruning; err != nil {
		t.Errorf("PruneHeads = %v", err)
	}
	if _, err := other.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Keep: 1}); err != nil {
		t.Errorf("PruneHeads at the end = %v", err)
	}
	wantIDs(t, s, "t", "q-r0", "a-r0", "q-x59", "a-x59")
	if n := len(branches(t, s, "t")); n != 2 {
		t.Errorf("%d heads are left, want 2", n)
	}
	if _, err := s.For("").Verify(t.Context(), "t"); err != nil {
		t.Error(err)
	}
}

// The end of a turn goes, and what stays of it is whole whenever the call is interrupted,
// also where more than one commit can hold is written again.
func TestPruneHeadsIsInterruptedBetweenTurns(t *testing.T) {
	const turns = 140
	s, d := threadtest.NewStore(t, nil)
	filler := strings.Repeat("x", 15_500)
	for range turns {
		run := host.NewID()
		head := threadtest.Say(t, s, "t1", run, host.UserText("a question"))
		stays := host.AssistantText(filler)
		threadtest.Answer(t, s, "t1", run, head, stays, host.AssistantText("a secret"))
		threadtest.Rewind(t, s, "t1", threads.At{Message: stays.ID})
	}
	want := threadtest.IDs(threadtest.Load(t, s, "t1").Messages)
	failing, step := 1, longtest.Alone(101, testdriver.Rounds(longtest.Rounds(61, 5), 61)) // each is a call that reads the whole thread
	for failed := true; failed; failing += step {
		commits := 0
		_, err := threads.New(&spy{Driver: d, before: func(kv.Tx) error {
			if commits++; commits == failing {
				return errDisk
			}
			return nil
		}}, nil).For("").PruneHeads(t.Context(), "t1", threads.PruneHeadsOptions{Before: time.Now().Add(time.Hour)})
		if failed = commits >= failing; failed != (err != nil) {
			t.Fatalf("PruneHeads whose commit %d fails = %v after %d commits", failing, err, commits)
		}
		wantIDs(t, threads.New(d, nil), "t1", want...)
	}
	wantWhole(t, threads.New(d, nil), "t1", 2*turns, 0)
	for e, err := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{}) {
		if err != nil || strings.Contains(string(e.Value), "a secret") {
			t.Fatalf("%s has a message that nothing shows, or %v", e.Key, err)
		}
	}
}
