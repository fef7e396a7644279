package queue_test

// Scenario: the store fails or is silent for a moment, and no job is lost or runs twice
// at once.

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A store that fails or is silent for a moment leaves no job behind, and none that
// two run.

// unsure is a driver whose nth scan of held jobs fails, which makes a commit and
// says that nobody knows, or which does not answer.
type unsure struct {
	kv.Driver
	scans   atomic.Int64 // of held jobs until one fails
	onScan  func()       // what happens instead
	inDoubt atomic.Bool  // of the next commit
	silent  atomic.Bool
}

// Scan implements [kv.Driver].
func (u *unsure) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if r.Prefix == kv.NewKey("queue", "held") && u.scans.Add(-1) == 0 {
		if u.onScan != nil {
			u.onScan()
			return u.Driver.Scan(ctx, partition, r)
		}
		return kv.Page{}, kv.ErrClosed
	}
	return u.Driver.Scan(ctx, partition, r)
}

// Commit implements [kv.Driver].
func (u *unsure) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	var results []kv.Result
	if u.silent.Load() {
		<-ctx.Done()
		results = make([]kv.Result, len(txs))
		for i := range results {
			results[i].Err = ctx.Err()
		}
		return results
	}
	results = u.Driver.Commit(ctx, txs...)
	if u.inDoubt.Swap(false) {
		for i := range results {
			results[i] = kv.Result{Err: kv.ErrInDoubt}
		}
	}
	return results
}

func ended(context.Context, host.Scope) (host.RunStatus, error) { return host.RunEnded, nil }

// That a process is gone is seen once, and what it left cannot be read just then.
func TestWhatTheDeadLeftIsLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &unsure{Driver: testdriver.New(t)}
		died := &mortal{Driver: driver.Driver}
		left := queue.New(died, nil)
		over, finish := held(t, left)
		died.die()
		time.Sleep(2 * queue.DefaultLease)
		l := &log{}
		driver.scans.Store(2) // the first counts, the second looks for what is left
		start(t, driver, &queue.Options{RunStatus: ended}, note(l))
		time.Sleep(time.Hour)
		if driver.scans.Load() > 0 {
			t.Error("no scan has failed")
		}
		l.is(t, "after an hour", `"t1"`)
		finish()
		<-over
		_ = left.Close()
	})
}

// A process leaves its first job in a run after another has looked who lives, and
// before that one looks whose jobs wait.
func TestAProcessThatBeginsIsNotTakenForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := testdriver.New(t)
		begins := queue.New(memory, nil)
		defer func() { _ = begins.Close() }()
		var over chan struct{}
		var finish func()
		driver := &unsure{Driver: memory, onScan: func() { over, finish = held(t, begins) }}
		leave(t, begins, jobOf("acme", "1")) // so that there is the tenant
		driver.scans.Store(2)                // the first counts, the second looks for what is left
		q := start(t, driver, nil, note(&log{}))
		time.Sleep(2 * queue.DefaultHeldPoll)
		synctest.Wait()
		noDead(t, q, "acme")
		finish()
		<-over
	})
}

// The commit that makes the jobs of a run due was made, and nobody says so.
func TestJobsOfARunWhoseCommitIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &unsure{Driver: testdriver.New(t)}
		l := &log{}
		q := start(t, driver, &queue.Options{RunStatus: ended}, note(l))
		over, finish := held(t, q)
		time.Sleep(time.Second) // between signs of life
		driver.inDoubt.Store(true)
		finish()
		<-over
		if driver.inDoubt.Load() {
			t.Fatal("nothing was committed")
		}
		time.Sleep(time.Hour)
		l.is(t, "after an hour", `"t1"`)
		waiting(t, q, "acme", 0)
	})
}

// The commit that leaves a job was made, and its driver does not say so.
func TestAJobWhoseCommitIsInDoubtIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &unsure{Driver: testdriver.New(t)}
		l := &log{}
		q := start(t, driver, nil, note(l))
		leave(t, q, jobOf("acme", `"first"`)) // so that there is the tenant
		synctest.Wait()
		driver.inDoubt.Store(true)
		leave(t, q, jobOf("acme", `"at once"`))
		keyed := jobOf("acme", `"with a key"`)
		keyed.Key = "k"
		synctest.Wait()
		driver.inDoubt.Store(true)
		leave(t, q, keyed)
		synctest.Wait()
		driver.inDoubt.Store(true)
		over, finish := held(t, q)
		if driver.inDoubt.Load() {
			t.Fatal("nothing was committed")
		}
		finish()
		<-over
		synctest.Wait()
		l.is(t, "done", `"first"`, `"at once"`, `"with a key"`, `"t1"`)
		waiting(t, q, "acme", 0)
	})
}

// The handler of a job is told when its lease is over, also by a store that does not
// answer.
func TestAStoreThatIsSilentStopsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &unsure{Driver: testdriver.New(t)}
		begin := time.Now()
		var stopped time.Duration
		q := start(t, driver, nil, map[string]queue.Handler{"note": func(ctx context.Context, _ *host.Job) error {
			driver.silent.Store(true)
			<-ctx.Done()
			stopped = time.Since(begin)
			driver.silent.Store(false)
			return nil
		}})
		leave(t, q, jobOf("acme", "1"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if stopped == 0 || stopped > queue.DefaultLease {
			t.Errorf("the handler is told after %s, and its lease is over after %s", stopped, queue.DefaultLease)
		}
	})
}
