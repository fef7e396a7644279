package queue_test

// Scenario: a process is killed while its jobs run, and the next process does them.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// A child process leaves jobs, prints the id of each when it is acknowledged, and
// runs them; each that has run is a line in a file, which no crash takes back. It
// is killed at some moment, and the next one goes on.

const (
	crashDir    = "QUEUE_CRASH_DIR"
	crashRounds = 5
	crashLease  = 50 * time.Millisecond // so that the next process need not wait
	crashWait   = time.Minute
)

func crashQueue(dir string) (*badgerkv.Store, *queue.Queue, error) {
	store, err := badgerkv.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		return nil, nil, err
	}
	done, err := os.OpenFile(filepath.Join(dir, "done"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	q := queue.New(store, &queue.Options{Workers: 8, Lease: crashLease, Attempts: 3 * crashRounds, FirstRetry: time.Millisecond})
	q.Handle("note", func(_ context.Context, job *host.Job) error {
		if job.Attempt == 1 && strings.HasSuffix(string(job.Payload), `7"`) {
			return fmt.Errorf("not the first time")
		}
		_, err := fmt.Fprintf(done, "%s %s\n", job.ID, job.Payload)
		return err
	})
	return store, q, q.Start(context.Background())
}

// crashChild leaves jobs until it is killed.
func crashChild(dir string) {
	_, q, err := crashQueue(dir)
	for i := 0; err == nil; i++ {
		var id string
		job := &host.Job{Name: "note", Payload: []byte(fmt.Sprintf(`"%d-%d"`, os.Getpid(), i)), Scope: host.Scope{Tenant: fmt.Sprint("tenant", i%3)}}
		if i%5 == 0 {
			job.Key = fmt.Sprintf("%d-%d", os.Getpid(), i)
		}
		if id, err = q.Enqueue(context.Background(), job); err == nil {
			fmt.Println("left", id)
		}
	}
	fmt.Println("failed", err)
	os.Exit(1)
}

func TestSurvivesAKill(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir)
	}
	rounds := longtest.Rounds(2, crashRounds)
	dir := t.TempDir()
	left := map[string]bool{}
	for range rounds {
		killChild(t, dir, 20+rand.IntN(80), left)
	}
	store, q, err := crashQueue(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	defer func() { _ = q.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), crashWait)
	defer cancel()
	tick := time.NewTicker(crashLease / 5)
	defer tick.Stop()
	for waits := 1; waits > 0; <-tick.C { // what ran when the last one was killed is due when its lease ends
		if err := q.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		waits = 0
		for i := range 3 {
			n, err := q.Waiting(ctx, fmt.Sprint("tenant", i))
			if err != nil {
				t.Fatal(err)
			}
			waits += n
		}
	}
	checkDone(t, dir, left, rounds)
}

// killChild runs a child until it has acknowledged so many jobs.
func killChild(t *testing.T, dir string, acks int, left map[string]bool) {
	t.Helper()
	child, n := testchild.Start(t, "TestSurvivesAKill", crashDir+"="+dir), 0
	for line := range child.Lines() {
		id, ok := strings.CutPrefix(line, "left ")
		if !ok {
			t.Fatalf("child: %s", line)
		}
		left[id] = true
		if n++; n > acks {
			child.Kill()
		}
	}
	_ = child.Cmd.Wait() // it was killed
}

// checkDone holds what was done to what was left.
func checkDone(t *testing.T, dir string, left map[string]bool, rounds int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "done"))
	if err != nil {
		t.Fatal(err)
	}
	times, payloads := map[string]int{}, map[string]string{}
	for line := range strings.Lines(string(raw)) {
		id, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		times[id]++
		if other := payloads[payload]; other != "" && other != id {
			t.Errorf("%s is the job %s and the job %s", payload, other, id)
		}
		payloads[payload] = id
	}
	twice := 0
	for id := range left {
		switch n := times[id]; {
		case n == 0:
			t.Errorf("job %s was acknowledged and never ran", id)
		case n > rounds+1:
			t.Errorf("job %s ran %d times in %d processes", id, n, rounds+1)
		case n > 1:
			twice++
		}
	}
	if twice > 8*rounds {
		t.Errorf("%d jobs ran more than once: more than can have run when a process was killed", twice)
	}
	t.Logf("%d jobs in %d processes, %d of them twice", len(left), rounds+1, twice)
}
