package threads_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// aTurn stores a question and an answer of 1 kB with state and an artifact.
func aTurn(t testing.TB, s *threads.Store, thread string, i int) {
	t.Helper()
	run := fmt.Sprintf("run-%08d", i)
	head := threadtest.Say(t, s, thread, run, threadtest.WithID(fmt.Sprintf("question-%08d", i), strings.Repeat("q", 200)))
	turn := threadtest.TurnOf(head, threadtest.WithID(fmt.Sprintf("answer-%08d", i), strings.Repeat("a", 1000)))
	turn.State = []byte(fmt.Sprintf(`{"n":%08d}`, 10_000_000+i))
	if err := s.AppendResults(t.Context(), threadtest.Request(thread, run, nil), turn); err != nil {
		t.Fatalf("AppendResults = %v", err)
	}
}

// A turn writes what the turn added: the length of the thread does not matter,
// neither to what is written nor to how often the store reads.
func TestTurnCostsTheSameOnALongThread(t *testing.T) {
	type cost struct{ bytes, commits, reads int }
	costs := map[int]cost{}
	far := longtest.Rounds(10_000, 100_000)
	for _, n := range []int{10, far} {
		d := &spy{Driver: testdriver.New(t)}
		s := threads.New(d, nil)
		threadtest.Fill(t, s, "t1", n)
		var c cost
		c.bytes, c.commits, c.reads = d.measure(func() { aTurn(t, s, "t1", 0) })
		costs[n] = c
		t.Logf("a turn on a thread of %d messages: %+v", n, c)
	}
	short, long := costs[10], costs[far]
	if diff := long.bytes - short.bytes; diff*10 > short.bytes {
		t.Errorf("a turn writes %d bytes on a long thread, %d on a short one: more than 10 %% apart", long.bytes, short.bytes)
	}
	if long.commits != 2 || short.commits != 2 || long.reads != short.reads {
		t.Errorf("a turn costs %+v on a long thread, %+v on a short one, want two commits and equal reads", long, short)
	}
	const overhead = 3500 // keys, two records, a snapshot, conditions
	if short.bytes > 1200+overhead {
		t.Errorf("a turn of 1,200 bytes of text writes %d", short.bytes)
	}
}

func TestUnchangedStateAndArtifactsCostNothing(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	turn := threadtest.TurnOf("", threadtest.WithID("m", "x"))
	turn.State = []byte(`{"a":"` + strings.Repeat("s", 100_000) + `"}`)
	turn.Artifacts = []host.Artifact{{Name: "a", Parts: []host.Part{&host.Text{Text: strings.Repeat("a", 900_000)}}}}
	for i, limit := range []int{1_100_000, 3_000, 3_000} {
		bytes, _, _ := d.measure(func() {
			turn.Results[0].Messages = []*host.Message{threadtest.WithID(fmt.Sprint(i), "x")}
			if err := s.AppendResults(t.Context(), threadtest.Request("t1", fmt.Sprint(i), nil), turn); err != nil {
				t.Fatalf("AppendResults = %v", err)
			}
		})
		if bytes > limit {
			t.Errorf("turn %d writes %d bytes, more than %d", i, bytes, limit)
		}
	}
}

// A read is a statement that waits for a database. A turn reads nothing on a thread that
// this store has written last, and otherwise the thread's record.
func TestTurnWithASmallStateReadsOnceAtMost(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	aTurn(t, s, "t1", 0)
	for i, c := range []struct {
		store *threads.Store
		reads int
	}{{s, 0}, {threads.New(d, nil), 1}} {
		_, commits, reads := d.measure(func() { aTurn(t, c.store, "t1", i+1) })
		if reads != c.reads || commits != 2 {
			t.Errorf("turn %d makes %d reads and %d commits, want %d and 2", i+1, reads, commits, c.reads)
		}
	}
}

func TestStateMayReturnToAnEarlierOne(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	for i, state := range []string{`{"a":1}`, `{"a":2}`, `{"a":1}`} {
		turn := threadtest.TurnOf("", threadtest.WithID(fmt.Sprint("m", i), "x"))
		turn.State = []byte(state)
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", fmt.Sprint("r", i), nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
		if got := string(threadtest.Load(t, s, "t1").State); got != state {
			t.Errorf("after turn %d the state is %s, want %s", i, got, state)
		}
	}
}

// A read is a statement that waits for a database. A turn of the host that wrote the thread
// last reads the messages since its window. That of a host which knows nothing of the thread
// reads the record, the window and the state. One that knows an earlier record finds by a
// commit that it is old, and whether its message is stored already.
func TestATurnReadsItsWindowWithFewStatements(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	first := threads.New(d, nil)
	threadtest.Fill(t, first, "t1", 2000)
	other := threads.New(d, nil)
	for i, c := range []struct {
		name           string
		store          *threads.Store
		reads, commits int
	}{
		{"the first turn of a host that wrote the thread", first, 1, 2},
		{"its next one", first, 1, 2},
		{"the first one of another host", other, 3, 2},
		{"the next one of that", other, 1, 2},
		{"one of the first host after that", first, 7, 3},
	} {
		run := fmt.Sprintf("run-%d", i)
		_, commits, reads := d.measure(func() {
			unlock, err := c.store.LockThread(t.Context(), threadtest.Request("t1", run, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			head := threadtest.Say(t, c.store, "t1", run, host.UserText("question"))
			loaded, err := c.store.Get(t.Context(), threadtest.Request("t1", run, nil))
			if err != nil || loaded.Head != head || len(loaded.Messages) != threads.DefaultWindow {
				t.Fatalf("Get = %+v, %v", loaded, err)
			}
			if want := fmt.Sprintf(`{"n":%d}`, i-1); i > 0 && string(loaded.State) != want {
				t.Errorf("%s: the state is %s, want %s", c.name, loaded.State, want)
			}
			turn := threadtest.TurnOf(head, host.AssistantText("answer"))
			turn.State = fmt.Appendf(nil, `{"n":%d}`, i)
			if err := c.store.AppendResults(t.Context(), threadtest.Request("t1", run, nil), turn); err != nil {
				t.Fatal(err)
			}
		})
		if reads != c.reads || commits != c.commits {
			t.Errorf("%s makes %d reads and %d commits, want %d and %d", c.name, reads, commits, c.reads, c.commits)
		}
	}
}
