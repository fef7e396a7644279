package threads_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func wantIDs(t testing.TB, s *threads.Store, thread string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, threadtest.IDs(threadtest.Load(t, s, thread).Messages)); diff != "" {
		t.Errorf("messages of %s (-want +got):\n%s", thread, diff)
	}
}

// idsAt are the ids of a moment's messages.
func idsAt(t testing.TB, s *threads.Store, thread string, at threads.At) []string {
	t.Helper()
	var messages []*host.Message
	for m, err := range s.For("").Messages(t.Context(), thread, at) {
		if err != nil {
			t.Fatalf("Messages of %s at %+v = %v", thread, at, err)
		}
		messages = append(messages, m)
	}
	return threadtest.IDs(messages)
}

func branches(t testing.TB, s *threads.Store, thread string) []*threads.Branch {
	t.Helper()
	var out []*threads.Branch
	for b, err := range s.For("").Branches(t.Context(), thread) {
		if err != nil {
			t.Fatalf("Branches = %v", err)
		}
		out = append(out, b)
	}
	return out
}

func TestEditKeepsWhatFollowsAndTheOldMessage(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 3)
	before := threadtest.Load(t, s, "t1")
	info := threadtest.Edit(t, s, "t1", "q1", threadtest.WithID("q1b", "better question"))
	wantIDs(t, s, "t1", "q0", "a0", "q1b", "a1", "q2", "a2")
	if info.Head == before.Head || info.Messages != 6 || info.Turns != 3 {
		t.Errorf("EditMessage = %+v", info)
	}
	threadtest.TalkWithIDs(t, s, "t1", 3, 4)
	wantIDs(t, s, "t1", "q0", "a0", "q1b", "a1", "q2", "a2", "q3", "a3")

	all := branches(t, s, "t1")
	if len(all) != 2 || all[0].ID != "" || all[0].Messages != 8 {
		t.Fatalf("Branches = %+v", all)
	}
	want := &threads.Branch{ID: "b1", Head: before.Head, Messages: 6, Turns: 3, Snapshot: "r2",
		Status: threads.Completed, Cause: threads.Edited, Message: "q1", Left: all[1].Left}
	if diff := cmp.Diff(want, all[1]); diff != "" {
		t.Errorf("branch (-want +got):\n%s", diff)
	}
	for _, name := range []string{"b1", before.Head} {
		if got := idsAt(t, s, "t1", threads.At{Branch: name}); !cmp.Equal(got, threadtest.IDs(before.Messages)) {
			t.Errorf("branch %s is %q", name, got)
		}
	}
}

// An edit fills what it leaves empty from the old message, and takes a fresh id.
func TestEditTakesOverWhatItLeavesOut(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	old := threadtest.Load(t, s, "t1").Messages[0]
	m := &host.Message{ID: "q0", Parts: []host.Part{&host.Text{Text: "new"}}}
	threadtest.Edit(t, s, "t1", "q0", m)
	got := threadtest.Load(t, s, "t1").Messages[0]
	if got.ID == "q0" || got.ID == "" || got.Role != host.User || !got.CreatedAt.Equal(old.CreatedAt) || got.Text() != "new" {
		t.Errorf("edited message is %+v", got)
	}
	if m.ID != "q0" || m.Role != "" {
		t.Errorf("EditMessage changed the caller's message to %+v", m)
	}
}

func TestEditAgainDoesNothing(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	first := threadtest.Edit(t, s, "t1", "q0", threadtest.WithID("new", "new"))
	again := threadtest.Edit(t, s, "t1", "q0", threadtest.WithID("new", "new"))
	if first.Head != again.Head || len(branches(t, s, "t1")) != 2 {
		t.Errorf("an edit sent again made head %q of %q", again.Head, first.Head)
	}
}

func TestEditRefuses(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.Answer(t, s, "t1", "r1", threadtest.Say(t, s, "t1", "r1", threadtest.WithID("q", "x")), threadtest.Calls("c", "1"), threadtest.Result("1"), threadtest.Assistant("a", "y"))
	head := threadtest.Load(t, s, "t1").Head
	for name, test := range map[string]struct {
		thread, id string
		m          *host.Message
		guard      *threads.If
		want       host.Code
	}{
		"no message":        {"t1", "q", nil, nil, host.InvalidArgument},
		"an unknown thread": {"t2", "q", threadtest.WithID("n", "x"), nil, host.NotFound},
		"an unknown one":    {"t1", "nope", threadtest.WithID("n", "x"), nil, host.NotFound},
		"another role":      {"t1", "q", threadtest.Assistant("n", "x"), nil, host.InvalidArgument},
		"a call left out":   {"t1", "c", threadtest.Assistant("n", "x"), nil, host.InvalidArgument},
		"a known id":        {"t1", "q", threadtest.WithID("a", "x"), nil, host.AlreadyExists},
		"another head":      {"t1", "q", threadtest.WithID("n", "x"), &threads.If{Head: "old"}, host.Conflict},
		"no id":             {"t1", "", threadtest.WithID("n", "x"), nil, host.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.For("").EditMessage(t.Context(), test.thread, test.id, test.m, test.guard)
			threadtest.WantCode(t, "EditMessage", err, test.want)
		})
	}
	if got := threadtest.Load(t, s, "t1").Head; got != head {
		t.Errorf("a refused edit moved the head")
	}
}

func TestDeleteKeepsPairsWhole(t *testing.T) {
	for deleted, want := range map[string][]string{
		"q":  {"c", "r1", "r2", "a"},
		"c":  {"q", "a"},
		"r1": {"q", "a"},
		"a":  {"q", "c", "r1", "r2"},
	} {
		s, _ := threadtest.NewStore(t, nil)
		r1, r2 := threadtest.Result("1"), threadtest.Result("2")
		r1.ID, r2.ID = "r1", "r2"
		threadtest.Answer(t, s, "t1", "run", threadtest.Say(t, s, "t1", "run", threadtest.WithID("q", "x")), threadtest.Calls("c", "1", "2"), r1, r2, threadtest.Assistant("a", "y"))
		info, err := s.For("").DeleteMessage(t.Context(), "t1", deleted, nil)
		if err != nil || info.Messages != len(want) {
			t.Fatalf("DeleteMessage(%s) = %+v, %v", deleted, info, err)
		}
		wantIDs(t, s, "t1", want...)
		if got := idsAt(t, s, "t1", threads.At{Branch: "b1"}); len(got) != 5 {
			t.Errorf("the old head has %q", got)
		}
		if _, err := s.For("").DeleteMessage(t.Context(), "t1", deleted, nil); host.CodeOf(err) != host.NotFound {
			t.Errorf("DeleteMessage again = %v", err)
		}
	}
}

// A message that does not show any more can be said again, with another text.
func TestADeletedMessageCanBeSaidAgain(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	for i := range 3 {
		threadtest.Rewind(t, s, "t1", threads.At{Message: "q1", Before: true})
		text := fmt.Sprintf("take %d", i)
		for range 2 { // sent twice, said once
			threadtest.Say(t, s, "t1", text, threadtest.WithID("q1", text))
		}
		threadtest.Answer(t, s, "t1", text, "", threadtest.Assistant("answer to "+text, "ok"))
		wantIDs(t, s, "t1", "q0", "a0", "q1", "answer to "+text)
		threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages[2:3], text)
	}
	if got := idsAt(t, s, "t1", threads.At{Branch: "b1"}); !cmp.Equal(got, []string{"q0", "a0", "q1", "a1"}) {
		t.Errorf("the first branch is %q", got)
	}
}

func TestRewindToAMessage(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 4)
	for _, test := range []struct {
		at    threads.At
		want  []string
		state string
		turns int
	}{
		{threads.At{Message: "a1"}, []string{"q0", "a0", "q1", "a1"}, `{"n":1}`, 2},
		{threads.At{Message: "q1"}, []string{"q0", "a0", "q1"}, `{"n":0}`, 1},
		{threads.At{Message: "q1", Before: true}, []string{"q0", "a0"}, `{"n":0}`, 1},
		{threads.At{Message: "q0", Before: true}, []string{}, ``, 0},
	} {
		info := threadtest.Rewind(t, s, "t1", test.at)
		wantIDs(t, s, "t1", test.want...)
		if got := string(threadtest.Load(t, s, "t1").State); got != test.state || info.Turns != test.turns {
			t.Errorf("after Rewind(%+v) the state is %s, turns %d; want %s, %d", test.at, got, info.Turns, test.state, test.turns)
		}
		artifacts, err := s.For("").Artifacts(t.Context(), "t1")
		if err != nil || len(artifacts) != min(test.turns, 1) {
			t.Errorf("after Rewind(%+v) artifacts are %+v, %v", test.at, artifacts, err)
		}
		threadtest.Rewind(t, s, "t1", threads.At{Snapshot: "r3"})
		wantIDs(t, s, "t1", "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
	}
}

// Rewinding to a call keeps its results, to a result those beside it; stopping
// before a result stops before its call.
func TestRewindKeepsPairsWhole(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	r1, r2 := threadtest.Result("1"), threadtest.Result("2")
	r1.ID, r2.ID = "r1", "r2"
	threadtest.Answer(t, s, "t1", "run", threadtest.Say(t, s, "t1", "run", threadtest.WithID("q", "x")), threadtest.Calls("c", "1", "2"), r1, r2, threadtest.Assistant("a", "y"))
	for at, want := range map[threads.At][]string{
		{Message: "c"}:                {"q", "c", "r1", "r2"},
		{Message: "r1"}:               {"q", "c", "r1", "r2"},
		{Message: "r2", Before: true}: {"q"},
		{Message: "a", Before: true}:  {"q", "c", "r1", "r2"},
	} {
		if got := idsAt(t, s, "t1", at); !cmp.Equal(got, want) {
			t.Errorf("messages at %+v are %q, want %q", at, got, want)
		}
	}
}

// A snapshot is what the thread was after the turn, whatever was edited since.
func TestRewindToASnapshotAndResume(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 3)
	threadtest.Edit(t, s, "t1", "q0", threadtest.WithID("q0b", "edited"))
	threadtest.TalkWithIDs(t, s, "t1", 3, 4)
	threadtest.Rewind(t, s, "t1", threads.At{Snapshot: "r1"})
	wantIDs(t, s, "t1", "q0", "a0", "q1", "a1")
	threadtest.TalkWithIDs(t, s, "t1", 10, 11)
	wantIDs(t, s, "t1", "q0", "a0", "q1", "a1", "q10", "a10")

	show, err := s.For("").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var turns []string
	for i := range show.Messages {
		if snap := show.SnapshotOf(i); snap != nil {
			turns = append(turns, fmt.Sprintf("%d %s after %s", snap.Turn, snap.ID, snap.Parent))
		}
	}
	if diff := cmp.Diff([]string{"1 r0 after ", "2 r1 after r0", "3 r10 after r1"}, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	// What was left is there, and can be gone on with.
	threadtest.Rewind(t, s, "t1", threads.At{Branch: "b2"})
	wantIDs(t, s, "t1", "q0b", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
	snap, err := s.For("").Snapshot(t.Context(), "t1", "r10")
	if err != nil || snap.Turn != 3 || snap.From != 5 || snap.To != 6 {
		t.Errorf("Snapshot of another branch = %+v, %v", snap, err)
	}
	threadtest.Rewind(t, s, "t1", threads.At{Snapshot: "r10"})
	wantIDs(t, s, "t1", "q0", "a0", "q1", "a1", "q10", "a10")
}

// A run that was committed is not committed again, though a rewind took its turn
// out of sight.
func TestARunIsCommittedOnceAcrossHeads(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	threadtest.Rewind(t, s, "t1", threads.At{Message: "a0"})
	threadtest.Answer(t, s, "t1", "r1", "", threadtest.Assistant("a1", "answer 1"))
	wantIDs(t, s, "t1", "q0", "a0")
	err := s.AppendResults(t.Context(), threadtest.Request("t1", "r1", nil), threadtest.TurnOf("", threadtest.Assistant("again", "x")))
	threadtest.WantCode(t, "AppendResults of another turn", err, host.AlreadyExists)
	wantIDs(t, s, "t1", "q0", "a0")
}

func TestATurnThatRacesARewindGetsAConflict(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	head := threadtest.Say(t, s, "t1", "r9", threadtest.WithID("q9", "x"))
	threadtest.Rewind(t, s, "t1", threads.At{Message: "a0"})
	err := s.AppendResults(t.Context(), threadtest.Request("t1", "r9", nil), threadtest.TurnOf(head, threadtest.Assistant("a9", "y")))
	threadtest.WantCode(t, "AppendResults", err, host.Conflict)
	wantIDs(t, s, "t1", "q0", "a0")
}

// A change of a thread waits for a turn that runs on it.
func TestChangesWaitForARunningTurn(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	unlock, err := s.LockThread(t.Context(), threadtest.Request("t1", "r", nil))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.For("").Rewind(t.Context(), "t1", threads.At{Message: "q0"}, nil)
		done <- err
	}()
	threadtest.TalkWithIDs(t, s, "t1", 1, 2) // the turn that holds the thread
	unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, "t1", "q0")
}

func TestForkGoesOnWithoutTheOther(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 3)
	info := threadtest.Fork(t, s, "t1", "t2", threads.At{Snapshot: "r1"})
	if diff := cmp.Diff(&threads.Parent{Thread: "t1", Snapshot: "r1"}, info.Parent); diff != "" || info.Title != "question 0" || info.Turns != 2 {
		t.Errorf("Fork = %+v", info)
	}
	wantIDs(t, s, "t2", "q0", "a0", "q1", "a1")
	if got := string(threadtest.Load(t, s, "t2").State); got != `{"n":1}` {
		t.Errorf("state of the fork is %s", got)
	}
	threadtest.TalkWithIDs(t, s, "t1", 3, 4)
	threadtest.TalkWithIDs(t, s, "t2", 2, 4) // the same ids and runs as in the other
	threadtest.Say(t, s, "t2", "", threadtest.WithID("q0", "question 0"))
	wantIDs(t, s, "t2", "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
	wantIDs(t, s, "t1", "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")

	// A fork of a fork, rewound to a turn that the first thread made.
	threadtest.Fork(t, s, "t2", "t3", threads.At{Message: "q3"})
	wantIDs(t, s, "t3", "q0", "a0", "q1", "a1", "q2", "a2", "q3")
	threadtest.Rewind(t, s, "t3", threads.At{Snapshot: "r0"})
	threadtest.TalkWithIDs(t, s, "t3", 7, 8)
	wantIDs(t, s, "t3", "q0", "a0", "q7", "a7")
	snap, err := s.For("").Snapshot(t.Context(), "t3", "r7")
	if err != nil || snap.Turn != 2 || snap.Parent != "r0" {
		t.Errorf("Snapshot = %+v, %v", snap, err)
	}

	// What a fork refers to outlives the thread it came from, and no longer.
	for _, gone := range []string{"t1", "t2"} {
		if err := s.For("").Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	wantIDs(t, s, "t3", "q0", "a0", "q7", "a7")
	artifacts, err := s.For("").Artifacts(t.Context(), "t3")
	if err != nil || len(artifacts) != 1 {
		t.Fatalf("Artifacts = %+v, %v", artifacts, err)
	}
	if _, err := s.For("").Artifact(t.Context(), "t3", artifacts[0].Digest); err != nil {
		t.Errorf("Artifact = %v", err)
	}
	if err := s.For("").Delete(t.Context(), "t3"); err != nil {
		t.Fatal(err)
	}
	if left := threadtest.KeysOf(t, d, threads.DefaultTenant); len(left) > 0 {
		t.Errorf("%d keys are left, among them %s", len(left), left[0])
	}
}

func TestForkRefuses(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	threadtest.TalkWithIDs(t, s, "t2", 0, 1)
	for name, test := range map[string]struct {
		from string
		opts threads.ForkOptions
		want host.Code
	}{
		"an unknown thread":       {"t9", threads.ForkOptions{}, host.NotFound},
		"an unknown snapshot":     {"t1", threads.ForkOptions{At: threads.At{Snapshot: "r9"}}, host.NotFound},
		"an unknown branch":       {"t1", threads.ForkOptions{At: threads.At{Branch: "b9"}}, host.NotFound},
		"an unknown message":      {"t1", threads.ForkOptions{At: threads.At{Message: "q9"}}, host.NotFound},
		"two moments":             {"t1", threads.ForkOptions{At: threads.At{Snapshot: "r0", Branch: "b1"}}, host.InvalidArgument},
		"before nothing":          {"t1", threads.ForkOptions{At: threads.At{Before: true}}, host.InvalidArgument},
		"into one that there is":  {"t1", threads.ForkOptions{ID: "t2"}, host.AlreadyExists},
		"into an impossible id":   {"t1", threads.ForkOptions{ID: "a\x00b"}, host.InvalidArgument},
		"metadata that is no one": {"t1", threads.ForkOptions{Metadata: threads.Metadata{"a": json.RawMessage("{")}}, host.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.For("").Fork(t.Context(), test.from, &test.opts)
			threadtest.WantCode(t, "Fork", err, test.want)
		})
	}
	_, err := s.For("").Rewind(t.Context(), "t1", threads.At{}, nil)
	threadtest.WantCode(t, "Rewind to nothing", err, host.InvalidArgument)
}

// A thread that is deleted while it is forked lends nothing.
func TestForkOfAThreadThatIsDeletedMeanwhile(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	var once sync.Once
	d.before = func(tx kv.Tx) error {
		var err error
		once.Do(func() { err = threads.New(d.Driver, nil).For("").Delete(t.Context(), "t1") })
		return err
	}
	_, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "t2"})
	threadtest.WantCode(t, "Fork", err, host.NotFound)
	if left := threadtest.KeysOf(t, d, threads.DefaultTenant); len(left) > 0 {
		t.Errorf("%d keys are left, among them %s", len(left), left[0])
	}
}

// A deletion that is interrupted is gone on with by the next, whatever refers to
// what.
func TestInterruptedDeletionOfForks(t *testing.T) {
	for stop := 1; stop < 12; stop++ {
		d := &spy{Driver: testdriver.New(t)}
		s := threads.New(d, nil)
		threadtest.TalkWithIDs(t, s, "t1", 0, 2)
		threadtest.Fork(t, s, "t1", "t2", threads.At{})
		threadtest.Rewind(t, s, "t2", threads.At{Snapshot: "r0"})
		threadtest.Fork(t, s, "t2", "t3", threads.At{})
		n := 0
		d.before = func(kv.Tx) error {
			if n++; n >= stop {
				return errDisk
			}
			return nil
		}
		failed := errors.Join(s.For("").Delete(t.Context(), "t1"), s.For("").Delete(t.Context(), "t2"))
		d.before = nil
		if stop < 4 && failed == nil {
			t.Errorf("Delete with a failing disk = nil")
		}
		for _, id := range []string{"t1", "t2"} {
			if err := s.For("").Delete(t.Context(), id); err != nil && host.CodeOf(err) != host.NotFound {
				t.Fatal(err)
			}
		}
		wantIDs(t, s, "t3", "q0", "a0")
		if err := s.For("").Delete(t.Context(), "t3"); err != nil {
			t.Fatal(err)
		}
		if left := threadtest.KeysOf(t, d, threads.DefaultTenant); len(left) > 0 {
			t.Errorf("stopped at %d: %d keys are left, among them %s", stop, len(left), left[0])
		}
	}
}

// An edit writes the edit, and a fork refers: neither writes the conversation.
func TestHeadsCostTheSameOnALongThread(t *testing.T) {
	type cost struct{ edit, forked, rewound, turn int }
	costs := map[int]cost{}
	for _, n := range []int{10, 10_000} {
		d := &spy{Driver: testdriver.New(t)}
		s := threads.New(d, nil)
		threadtest.Fill(t, s, "t1", n)
		aTurn(t, s, "t1", 10_000_000)
		var c cost
		c.edit, _, _ = d.measure(func() { threadtest.Edit(t, s, "t1", "f5", threadtest.WithID("new", strings.Repeat("n", 100))) })
		c.forked, _, _ = d.measure(func() { threadtest.Fork(t, s, "t1", "the fork", threads.At{}) })
		c.rewound, _, _ = d.measure(func() { threadtest.Rewind(t, s, "t1", threads.At{Message: "f7"}) })
		c.turn, _, _ = d.measure(func() { aTurn(t, s, "the fork", 1) })
		costs[n] = c
		t.Logf("on a thread of %d messages: %+v bytes", n, c)
	}
	short, long := costs[10], costs[10_000]
	if long.forked > 1000 {
		t.Errorf("a fork writes %d bytes, more than 1 kB", long.forked)
	}
	for _, pair := range [][2]int{{short.edit, long.edit}, {short.forked, long.forked}, {short.rewound, long.rewound}, {short.turn, long.turn}} {
		if pair[1]*10 > pair[0]*11 {
			t.Errorf("%d bytes on a long thread, %d on a short one: more than 10 %% apart", pair[1], pair[0])
		}
	}
}

// A thread without lineage is stored as it was before there was any, and one with
// it is refused by whoever would show what was deleted.
func TestOnlyThreadsWithViewsAreOfTheNewLayout(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	record := func() map[string]any {
		var out map[string]any
		for e, err := range kv.All(t.Context(), kv.Checked(d), threads.DefaultTenant, kv.Range{Prefix: kv.NewKey("threads", "thread")}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := kv.DecodeRecord(e.Value, &out); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	was := record()
	for _, name := range []string{"view", "root", "heads", "hidden_messages"} {
		if _, ok := was[name]; ok {
			t.Errorf("record of a plain thread has %q", name)
		}
	}
	if fmt.Sprint(was["v"]) != "1" {
		t.Errorf("record of a plain thread has version %v", was["v"])
	}
	threadtest.Rewind(t, s, "t1", threads.At{Message: "q0"})
	if got := record()["v"]; fmt.Sprint(got) != "2" {
		t.Errorf("record of a rewound thread has version %v", got)
	}
}
