package threads_test

// Scenario: a child process stores turns of many threads through the group committer on
// Badger and is killed at random; no acknowledged turn is lost.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// A child process stores turns of many threads through the group committer, on
// Badger, and prints what was acknowledged; it is killed at random, and the next
// one goes on from what it finds.

const (
	turnsDir   = "AGENTHOST_CRASH_TURNS_DIR"
	turnsCount = "AGENTHOST_CRASH_TURNS"
	turnsLimit = "AGENTHOST_CRASH_TURNS_LIMIT" // a child blocks after so many acknowledgements; 0: no limit
	turnsEach  = 50                            // turns of a thread
)

func crashThread(i int) string         { return fmt.Sprint("talk", i) }
func crashRunID(i, n int) string       { return fmt.Sprintf("run-%d-%d", i, n) }
func crashQuestionID(i, n int) string  { return fmt.Sprintf("question-%d-%d", i, n) }
func crashAnswerID(i, n int) string    { return fmt.Sprintf("answer-%d-%d", i, n) }
func crashState(i, n int) string       { return fmt.Sprintf(`{"thread":%d,"turn":%d}`, i, n) }
func crashArtifact(n int) bool         { return n%10 == 3 }
func crashLarge(n int) bool            { return n%25 == 7 } // written ahead in pieces
func crashText(what string, n int) int { return 50 + len(what) + n%400 }

// turnsChild stores turns until all threads have theirs, or somebody kills it.
func turnsChild(dir string) error {
	count, err := strconv.Atoi(os.Getenv(turnsCount))
	if err != nil {
		return err
	}
	limit, err := strconv.ParseInt(os.Getenv(turnsLimit), 10, 64)
	if err != nil {
		return err
	}
	d, err := badgerkv.Open(dir, nil)
	if err != nil {
		return err
	}
	s, acks := threads.New(kv.Group(d), nil), &acknowledgements{limit: limit}
	ctx := context.Background()
	from := make([]int, count/turnsEach)
	for i := range from {
		info, err := s.For("").Thread(ctx, crashThread(i))
		if err != nil && host.CodeOf(err) != host.NotFound {
			return err
		}
		if err == nil {
			from[i] = info.Turns
			fmt.Printf("has %d %d %d\n", i, info.Turns, info.Messages)
		}
	}
	fmt.Println("goes on")
	failed := make([]error, len(from))
	var writers sync.WaitGroup
	for i := range from {
		writers.Go(func() {
			for n := max(from[i]-1, 0); n < turnsEach && failed[i] == nil; n++ { // the last one again: its answer may have got lost
				failed[i] = crashTurn(ctx, s, acks, i, n)
			}
		})
	}
	writers.Wait()
	return errors.Join(append(failed, d.Close())...)
}

// acknowledgements prints each acknowledged step of a turn. After limit steps the process blocks until
// its parent kills it: a slow parent would find it ended.
type acknowledgements struct {
	limit int64
	count atomic.Int64
}

func (a *acknowledgements) print(what string, thread, turn int) {
	if a.count.Add(1) > a.limit && a.limit > 0 {
		select {} // until it is killed
	}
	fmt.Println(what, thread, turn)
}

// crashTurn stores a turn as a run does, and prints when it is acknowledged.
func crashTurn(ctx context.Context, s *threads.Store, acks *acknowledgements, i, n int) error {
	question := host.UserText(strings.Repeat("q", crashText("question", n)))
	question.ID = crashQuestionID(i, n)
	req := &host.HistoryRequest{Thread: crashThread(i), Run: crashRunID(i, n), Input: question}
	head, err := s.AppendUserMessage(ctx, req)
	if err != nil {
		return err
	}
	acks.print("said", i, n)
	answer := host.AssistantText(strings.Repeat("a", crashText("answer", n)))
	answer.ID = crashAnswerID(i, n)
	turn := threadtest.TurnOf(head, answer)
	turn.State = []byte(crashState(i, n))
	if crashArtifact(n) {
		turn.Artifacts = []host.Artifact{{Name: "note", Parts: []host.Part{&host.Text{Text: fmt.Sprint(n)}}}}
	}
	if crashLarge(n) {
		turn.Artifacts = []host.Artifact{{Name: "large", Parts: []host.Part{&host.Text{Text: strings.Repeat(fmt.Sprint(n), 300_000)}}}}
	}
	if err := s.AppendResults(ctx, req, turn); err != nil {
		return err
	}
	acks.print("done", i, n)
	return nil
}

// promised is what was acknowledged, by thread.
type promised struct {
	said, done []int // how many
}

// run runs a child, and kills it when so much has been acknowledged in all, but
// not before it has begun to write itself; with 0, not at all.
func (p *promised) run(t *testing.T, dir string, at, least int) (killed bool) {
	t.Helper()
	limit := 0
	if at > 0 { // a child repeats at most four acknowledgements of each thread, those of its last two turns
		limit = max(least, at-p.total()+4*len(p.done)) + crashSlack
	}
	child := testchild.Start(t, "TestMain", turnsDir+"="+dir, turnsCount+"="+strconv.Itoa(len(p.done)*turnsEach), turnsLimit+"="+strconv.Itoa(limit))
	found, acks := make([]int, len(p.done)), 0
	for line := range child.Lines() {
		var i, n, messages int
		switch {
		case line == "goes on":
			p.compare(t, found)
		case scans(line, "has %d %d %d", &i, &n, &messages):
			found[i] = n
			if messages < 2*n || messages > 2*n+1 {
				t.Errorf("thread %d has %d messages of %d turns", i, messages, n)
			}
		case scans(line, "said %d %d", &i, &n):
			p.said[i] = max(p.said[i], n+1)
			acks++
		case scans(line, "done %d %d", &i, &n):
			p.done[i] = max(p.done[i], n+1)
			acks++
		}
		if at > 0 && !killed && acks >= least && p.total() >= at {
			killed = child.Cmd.Process.Kill() == nil
		}
	}
	if err := child.Wait(); err != nil && !killed {
		t.Fatalf("the child fails: %v", err)
	}
	return killed
}

func scans(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// compare checks that what was acknowledged is there.
func (p *promised) compare(t *testing.T, found []int) {
	t.Helper()
	for i, n := range p.done {
		if found[i] < n {
			t.Errorf("of thread %d, %d turns were acknowledged and %d are there", i, n, found[i])
		}
	}
}

// Nothing that was acknowledged is lost, nothing is stored twice, and every
// snapshot can be gone on from, wherever the process is killed.
func TestKilledProcessesLoseNoTurn(t *testing.T) {
	turns, kills := 5000, 100
	if !longtest.Enabled() {
		turns, kills = 500, 8
	}
	dir := filepath.Join(t.TempDir(), "db")
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	p := &promised{said: make([]int, turns/turnsEach), done: make([]int, turns/turnsEach)}
	points := append(killPoints(rnd, kills, 2*turns), 0)
	killed := 0
	for again := true; again; {
		if again = p.run(t, dir, points[killed], 1+rnd.IntN(20)); again {
			killed++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d turns, killed %d times", turns, killed)
	if killed != kills {
		t.Errorf("killed %d times before all was done, want %d", killed, kills)
	}
	p.judge(t, dir)
}

func (p *promised) total() (n int) {
	for i := range p.done {
		n += p.said[i] + p.done[i]
	}
	return n
}

// judge compares every thread with what was stored, and goes on from snapshots.
func (p *promised) judge(t *testing.T, dir string) {
	t.Helper()
	s, done := openBadger(t, dir)
	defer done()
	for i := range p.done {
		id := crashThread(i)
		var want []string
		for n := range turnsEach {
			want = append(want, crashQuestionID(i, n), crashAnswerID(i, n))
		}
		if got := threadtest.IDs(threadtest.Load(t, s, id).Messages); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("thread %s has the messages %v", id, got)
		}
		if _, err := s.For("").Verify(t.Context(), id); err != nil {
			t.Errorf("Verify(%s) = %v", id, err)
		}
		n := 0
		for snap, err := range s.For("").Snapshots(t.Context(), id) {
			if err != nil {
				t.Fatal(err)
			}
			if snap.ID != crashRunID(i, n) || snap.From != 2*n+1 || snap.To != 2*n+2 || snap.Status != threads.Completed {
				t.Errorf("thread %s: snapshot %d is %+v", id, n, snap)
			}
			resumes(t, s, i, n)
			n++
		}
		if n != turnsEach {
			t.Errorf("thread %s has %d snapshots, want %d", id, n, turnsEach)
		}
	}
}

// resumes checks that a snapshot is the conversation as it was, that can be gone
// on with.
func resumes(t *testing.T, s *threads.Store, i, n int) {
	t.Helper()
	then, err := s.For("").ShowAt(t.Context(), crashThread(i), threads.At{Snapshot: crashRunID(i, n)}, 1)
	if err != nil {
		t.Errorf("snapshot %s: %v", crashRunID(i, n), err)
		return
	}
	if len(then.Messages) != 1 || then.Messages[0].ID != crashAnswerID(i, n) || string(then.State) != crashState(i, n) {
		t.Errorf("snapshot %s has the state %s and ends with %v", crashRunID(i, n), then.State, threadtest.IDs(then.Messages))
	}
	if n%10 != 9 {
		return
	}
	fork, err := s.For("").Fork(t.Context(), crashThread(i), &threads.ForkOptions{At: threads.At{Snapshot: crashRunID(i, n)}})
	if err != nil {
		t.Errorf("fork at %s: %v", crashRunID(i, n), err)
		return
	}
	threadtest.Talk(t, s, fork.ID, 1)
	if got := len(threadtest.Load(t, s, fork.ID).Messages); got != 2*n+4 {
		t.Errorf("a fork at %s has %d messages, want %d", crashRunID(i, n), got, 2*n+4)
	}
}
