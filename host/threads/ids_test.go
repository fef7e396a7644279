package threads_test

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/search"
)

// lookUp stores a turn with a call, its result and an answer, whose ids are this
// program's, and returns the run.
func lookUp(t testing.TB, s *threads.Store, thread, question, answer string) (run string) {
	t.Helper()
	run = host.NewID()
	head := threadtest.Say(t, s, thread, run, host.UserText(question))
	threadtest.Answer(t, s, thread, run, head, threadtest.Calls(host.NewID(), "c"), threadtest.Result("c"), host.AssistantText(answer))
	return run
}

// wantWhole checks that every message of a thread is found by its id, and every turn by
// its run.
func wantWhole(t testing.TB, s *threads.Store, thread string, messages, turns int) {
	t.Helper()
	v, err := s.For("").Verify(t.Context(), thread)
	if err != nil || v.Messages != messages || v.Turns != turns {
		t.Errorf("Verify of %q = %+v, %v, want %d messages and %d turns", thread, v, err, messages, turns)
	}
	for snap, err := range s.For("").Snapshots(t.Context(), thread) {
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.For("").Snapshot(t.Context(), thread, snap.ID); err != nil || got.Turn != snap.Turn {
			t.Errorf("Snapshot(%q) = %+v, %v, want turn %d", snap.ID, got, err, snap.Turn)
		}
	}
}

// A turn whose ids are this program's makes one entry for all of them.
func TestIDsOfATurnShareAnEntry(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	for range 3 {
		lookUp(t, s, "t1", "where is it?", "in Lyon")
	}
	wantWhole(t, s, "t1", 12, 3)
	for kind, want := range map[string]int{"/ids/": 3, "/message/": 0, "/run/": 0} {
		if keys := keysWith(t, d, kind); len(keys) != want {
			t.Errorf("%d entries %s of three turns, want %d", len(keys), kind, want)
		}
	}
}

// The index of a question is written with the turn that answers it. Until then the
// question is found all the same: by its id, by its words, in a fork and after the
// thread that it was asked in was deleted.
func TestAQuestionIsFoundBeforeItsTurnIsStored(t *testing.T) {
	for name, cacheBytes := range map[string]int64{"remembered": 0, "read": -1} {
		t.Run(name, func(t *testing.T) {
			s, d := threadtest.NewStore(t, &threads.Options{CacheBytes: cacheBytes})
			lookUp(t, s, "t1", "where is it?", "in Lyon")
			question := host.UserText("which parcels?")
			head := threadtest.Say(t, s, "t1", "r", question)
			other := threads.New(d, nil)
			wantWhole(t, other, "t1", 5, 1)
			wantFound(t, other, "parcel", "t1/"+question.ID)
			if again := threadtest.Say(t, other, "t1", "r", question); again != head {
				t.Error("a question that is sent again moves the head")
			}

			threadtest.Fork(t, other, "t1", "t2", threads.At{Message: question.ID})
			wantWhole(t, other, "t2", 5, 1)
			threadtest.Answer(t, s, "t1", "r", head, host.AssistantText("parcels in Lyon"))
			wantWhole(t, other, "t1", 6, 2)
			wantFound(t, other, "lyon", "t1/"+lastOf(t, other, "t1"), "t1/"+threadtest.Load(t, s, "t1").Messages[3].ID)

			last := host.UserText("and the letters?")
			threadtest.Say(t, s, "t1", "r2", last)
			threadtest.Fork(t, other, "t1", "t3", threads.At{})
			if err := other.For("").Delete(t.Context(), "t1"); err != nil {
				t.Fatal(err)
			}
			wantWhole(t, other, "t2", 5, 1)
			wantWhole(t, other, "t3", 7, 2)
			wantFound(t, other, "letter", "t3/"+last.ID)
			threadtest.Rewind(t, other, "t3", threads.At{Message: question.ID})
			wantWhole(t, other, "t3", 5, 1)
		})
	}
}

func lastOf(t testing.TB, s *threads.Store, thread string) string {
	t.Helper()
	messages := threadtest.Load(t, s, thread).Messages
	return messages[len(messages)-1].ID
}

// A turn that never came leaves its question, whose entries the next commit writes.
func TestAQuestionWithoutAnAnswerStaysFound(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	lost := host.UserText("which parcels?")
	threadtest.Say(t, s, "t1", host.NewID(), lost)
	s = threads.New(d, nil)
	lookUp(t, s, "t1", "where is it?", "in Lyon")
	wantWhole(t, s, "t1", 5, 1)
	wantFound(t, s, "parcel", "t1/"+lost.ID)
	if len(keysWith(t, d, "/ids/")) == 0 {
		t.Error("there is no entry of ids")
	}
}

// Neither a message nor a run is stored twice, whether its id comes in the order of the
// others or not, and whatever the store remembers of the thread.
func TestOrderedIDsAreStoredOnce(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	early, earlyRun := host.UserText("of an earlier time"), host.NewID()
	run := lookUp(t, s, "t1", "where is it?", "in Lyon")
	messages := threadtest.Load(t, s, "t1").Messages
	for _, s := range []*threads.Store{s, threads.New(d, nil)} {
		for range 2 {
			threadtest.Say(t, s, "t1", host.NewID(), early)
			threadtest.Say(t, s, "t1", host.NewID(), messages[0])
			head := threadtest.Load(t, s, "t1").Head
			threadtest.Answer(t, s, "t1", earlyRun, head, messages[3])
			threadtest.Answer(t, s, "t1", run, head, messages[1:]...)
			other := threadtest.TurnOf(head, host.AssistantText("something else"))
			err := s.AppendResults(t.Context(), threadtest.Request("t1", run, nil), other)
			threadtest.WantCode(t, "AppendResults of another turn of the run", err, host.AlreadyExists)
			wantWhole(t, s, "t1", 5, 2)
		}
	}
}

// Of a turn's messages that share an entry of the log, each can be destroyed alone.
func TestPruneHeadsDestroysOneMessageOfATurn(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	lookUp(t, s, "t1", "where is it?", "it is a secret in Lyon")
	messages := threadtest.Load(t, s, "t1").Messages
	threadtest.Rewind(t, s, "t1", threads.At{Message: messages[2].ID})
	lookUp(t, s, "t1", "and then?", "in Paris")
	if _, err := s.For("").PruneHeads(t.Context(), "t1", threads.PruneHeadsOptions{MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	for e, err := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(e.Value, []byte("a secret")) {
			t.Errorf("%s has the message that nothing shows", e.Key)
		}
	}
	wantWhole(t, s, "t1", 7, 1)
	threadtest.WantTexts(t, threadtest.Load(t, threads.New(d, nil), "t1").Messages,
		"where is it?", "call c", "result c", "and then?", "call c", "result c", "in Paris")
	threadtest.Say(t, s, "t1", host.NewID(), messages[3]) // nothing knows it any more
	lookUp(t, s, "t1", "more?", "no")
	wantWhole(t, s, "t1", 12, 2)
	if got, err := s.For("").Repair(t.Context(), "t1"); err != nil || len(got.Messages) > 0 {
		t.Errorf("Repair = %+v, %v, want nothing", got, err)
	}
}

// A damaged entry of a turn is repaired with the ids of its messages.
func TestRepairKeepsTheIDsOfATurn(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	lookUp(t, s, "t1", "where is it?", "in Lyon")
	threadtest.Say(t, s, "t1", host.NewID(), host.UserText("and then?"))
	want := threadtest.IDs(threadtest.Load(t, s, "t1").Messages)
	for _, key := range keysWith(t, d, "/log/") {
		damageAt(t, d, key)
	}
	got, err := s.For("").Repair(t.Context(), "t1")
	if err != nil || !slices.Equal(got.Messages, want) {
		t.Fatalf("Repair = %+v, %v, want messages %q", got, err, want)
	}
	wantWhole(t, s, "t1", 5, 1)
	lookUp(t, s, "t1", "more?", "no")
	wantWhole(t, s, "t1", 9, 2)
}

//go:embed testdata/layout2.txt
var layout2 string

// storeOfLayout2 returns a store with the threads that a version without groups of ids has
// stored: t1, of four turns with ids of this program, two with others and an edit, and t2,
// a fork of it.
func storeOfLayout2(t *testing.T) (*threads.Store, *kv.Memory) {
	t.Helper()
	s, d := threadtest.NewStore(t, nil)
	for line := range strings.Lines(layout2) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		rawKey, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		rawValue, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		write(t, d, kv.Put(kv.Key(rawKey), rawValue))
	}
	return s, d
}

// Threads of the time before ids were grouped are read, continued and searched, and what
// they have is not stored again.
func TestThreadsOfAnEarlierLayoutContinue(t *testing.T) {
	s, d := storeOfLayout2(t)
	wantWhole(t, s, "t1", 21, 6)
	wantWhole(t, s, "t2", 20, 6)
	before := threadtest.Load(t, s, "t1").Messages
	old := slices.Collect(func(yield func(string) bool) {
		for snap, err := range s.For("").Snapshots(t.Context(), "t1") {
			if err != nil || !yield(snap.ID) {
				return
			}
		}
	})
	for i, thread := range []string{"t1", "t2"} {
		lookUp(t, s, thread, "where is it?", "in Lyon")
		threadtest.Say(t, s, thread, host.NewID(), before[0])
		head := threadtest.Load(t, s, thread).Head
		threadtest.Answer(t, s, thread, host.NewID(), head, before[1:4]...)
		err := s.AppendResults(t.Context(), threadtest.Request("t1", old[0], nil), threadtest.TurnOf(head, host.AssistantText("something else")))
		threadtest.WantCode(t, "AppendResults of another turn of an old run", err, host.AlreadyExists)
		wantWhole(t, s, thread, 25-i, 8)
	}
	wantFound(t, s, "last", "t1/"+before[len(before)-1].ID)
	if _, err := s.For("").DeleteMessage(t.Context(), "t1", before[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.For("").Delete(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").PruneHeads(t.Context(), "t1", threads.PruneHeadsOptions{MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, threads.New(d, nil), "t1", 24, 8)
}

// The search of a store finds a question that waits for its turn once, also while the turn
// is being stored.
func TestAWaitingQuestionIsFoundOnce(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	question := host.UserText("which parcels?")
	run := host.NewID()
	head, answer := threadtest.Say(t, s, "t1", run, question), host.AssistantText("none")
	for range 2 {
		hits, err := search.New(s).Messages(t.Context(), "", "parcel", nil)
		if err != nil || len(hits) != 1 || hits[0].Message != question.ID {
			t.Errorf("Search = %+v, %v, want the question", hits, err)
		}
		threadtest.Answer(t, s, "t1", run, head, answer)
	}
}

// wantFound checks which messages a word finds, each as thread/message.
func wantFound(t testing.TB, s *threads.Store, query string, want ...string) {
	t.Helper()
	hits, err := search.New(s).Messages(t.Context(), "", query, nil)
	if err != nil {
		t.Fatalf("Search for %q = %v", query, err)
	}
	var got []string
	for _, h := range hits {
		got = append(got, h.Thread+"/"+h.Message)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Search for %q = %q, want %q", query, got, want)
	}
}

// aBranch returns an open branch of a thread, on which its first message is answered again.
func aBranch(t *testing.T, s *threads.Store, thread string) string {
	t.Helper()
	question := threadtest.Load(t, s, thread).Messages[0].ID
	result, err := newHost(t, s, echo).Run(t.Context(), newAgent(t, nil), &host.Request{Thread: thread, Regenerate: question, NewBranch: true})
	if err != nil {
		t.Fatal(err)
	}
	return result.Branch
}

// A branch has ids that the thread's main line has not seen. They are known to the thread
// once it goes back to the branch, and a run is one of the thread wherever it was.
func TestIDsOfABranchAreStoredOnce(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	lookUp(t, s, "t1", "where is it?", "in Lyon")
	branch, run, question := aBranch(t, s, "t1"), host.NewID(), host.UserText("and the letters?")
	head, err := s.AppendUserMessage(t.Context(), &host.HistoryRequest{Thread: "t1", Branch: branch, Run: run, Input: question})
	if err != nil {
		t.Fatal(err)
	}
	err = s.AppendResults(t.Context(), &host.HistoryRequest{Thread: "t1", Branch: branch, Run: run}, threadtest.TurnOf(head, host.AssistantText("in Paris")))
	if err != nil {
		t.Fatal(err)
	}
	other := threadtest.TurnOf(threadtest.Load(t, s, "t1").Head, host.AssistantText("in Rome"))
	err = s.AppendResults(t.Context(), threadtest.Request("t1", run, nil), other)
	threadtest.WantCode(t, "AppendResults of a run of the branch", err, host.AlreadyExists)

	threadtest.Rewind(t, s, "t1", threads.At{Branch: branch})
	threadtest.Say(t, s, "t1", host.NewID(), question)
	wantWhole(t, s, "t1", 4, 2)
	lookUp(t, s, "t1", "which parcels?", "those in Paris")
	threadtest.Say(t, s, "t1", host.NewID(), question)
	wantWhole(t, s, "t1", 8, 3)
}
