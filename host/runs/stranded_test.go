package runs_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// The store takes no writes when the run ends, as on a device that is full; later it does.
func TestADurableRunWhoseLastCommitFailedContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		driver := &pausing{Driver: store}
		release := make(chan struct{})
		model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			<-release
			return hosttest.Say("done")
		})
		r, agent := alone(t, driver, model, &runs.Options{})
		startDurable(t, r, agent, "r1", "t1")
		driver.failing.Store(true)
		close(release)
		if _, err := r.Wait(t.Context(), "acme", "r1"); err == nil {
			t.Fatal("the run has ended well, and nothing of it could be stored")
		}
		time.Sleep(time.Minute)
		if got := answers(t, store); len(got) > 0 {
			t.Fatalf("the thread has %q", got)
		}
		driver.failing.Store(false)
		time.Sleep(65 * time.Second) // the longest time between two tries
		if got := answers(t, store); len(got) != 1 || got[0] != "done" {
			t.Errorf("the thread's answers are %q, want the one of the run", got)
		}
		if run, err := r.Get(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed {
			t.Errorf("the run: %+v, %v", run, err)
		}
		checkNumbers(t, eventsFrom(t, r, "r1", 0), 0)
	})
}

// A run that failed for another reason has ended, and is not made again.
func TestADurableRunThatFailedIsNotContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			calls++
			return hosttest.Fail(host.Errorf(host.InvalidArgument, "no"))
		})
		r, agent := alone(t, kv.NewMemory(), model, &runs.Options{})
		startDurable(t, r, agent, "r1", "t1")
		time.Sleep(30 * time.Second)
		if run, err := r.Get(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Failed || calls != 1 {
			t.Errorf("the run: %+v, %v after %d calls", run, err, calls)
		}
	})
}

// dialogue returns the texts of a thread.
func dialogue(t *testing.T, driver kv.Driver, thread string) (out []string) {
	t.Helper()
	for m, err := range threads.New(driver, nil).For("acme").Messages(t.Context(), thread, threads.At{}) {
		if err != nil {
			t.Fatal(err)
		}
		if text := m.Text(); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// asked answers each question with its number, when release is closed.
func asked(release <-chan struct{}) host.Model {
	return hosttest.ModelFunc(func(ctx context.Context, req *llm.Request) hosttest.Reply {
		select {
		case <-release:
			return hosttest.Say("to " + req.Messages[len(req.Messages)-1].Text())
		case <-ctx.Done():
			return hosttest.Fail(ctx.Err())
		}
	})
}

func startTurn(t *testing.T, r *runs.Registry, agent *host.Agent, run string, racing host.Racing) {
	t.Helper()
	_, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: run, Thread: "t1", Text: "later", Racing: racing}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// interrupted returns the store of a host that was killed some time after it had begun the
// durable run r1, whose model does not answer.
func interrupted(t *testing.T, after time.Duration) kv.Driver {
	t.Helper()
	store := kv.NewMemory()
	driver := &pausing{Driver: store}
	r, agent := alone(t, driver, asked(nil), &runs.Options{})
	startDurable(t, r, agent, "r1", "t1")
	time.Sleep(after)
	synctest.Wait()
	driver.stop()
	t.Cleanup(driver.wake)
	return store
}

// Decisions 9, 10 and 44: the process of a durable run was killed, and a turn asks for its
// thread before the program that starts again has continued any run.
func TestATurnOfARestartedHostComesAfterTheInterruptedRunOfItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := interrupted(t, 0)
		release := make(chan struct{})
		second, agent := alone(t, store, asked(release), &runs.Options{})
		startTurn(t, second, agent, "r2", "")
		time.Sleep(time.Minute) // the model takes its time, and the turn waits longer than for a host
		startTurn(t, second, agent, "r3", host.RaceWait)
		close(release)
		for _, run := range []string{"r1", "r2", "r3"} {
			if got, err := second.Wait(t.Context(), "acme", run); err != nil || got.Status != runs.Completed {
				t.Errorf("run %s: %+v, %v", run, got, err)
			}
		}
		if got, want := dialogue(t, store, "t1"), []string{"go", "to go", "later", "to later", "later", "to later"}; !slices.Equal(got, want) {
			t.Errorf("the thread is %q, want %q", got, want)
		}
	})
}

// A turn that does not wait is refused, and the run continues.
func TestATurnThatDoesNotWaitHasAnInterruptedRunContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := interrupted(t, 0)
		release := make(chan struct{})
		close(release)
		second, agent := alone(t, store, asked(release), &runs.Options{})
		_, err := second.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: "r2", Thread: "t1", Text: "later", Racing: host.RaceConflict}, nil)
		if host.CodeOf(err) != host.Conflict {
			t.Errorf("the turn: %v, want a conflict", err)
		}
		if got, err := second.Wait(t.Context(), "acme", "r1"); err != nil || got.Status != runs.Completed {
			t.Errorf("the run: %+v, %v", got, err)
		}
		if got, want := dialogue(t, store, "t1"), []string{"go", "to go"}; !slices.Equal(got, want) {
			t.Errorf("the thread is %q, want %q", got, want)
		}
	})
}

// The agent of the run is gone from the configuration, so no turn waits for it.
func TestATurnGoesFirstIfNoHostCanContinueTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := interrupted(t, 0)
		release := make(chan struct{})
		close(release)
		second, agent := alone(t, store, asked(release), &runs.Options{Target: func(name string) (host.Target, error) {
			return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
		}})
		began := time.Now()
		startTurn(t, second, agent, "r2", "")
		if got, err := second.Wait(t.Context(), "acme", "r2"); err != nil || got.Status != runs.Completed || time.Since(began) > time.Second {
			t.Errorf("the turn: %+v, %v after %s", got, err, time.Since(began))
		}
	})
}

// The store takes no writes at the end of a run, and the next turn comes before the registry
// tries the run again.
func TestATurnComesAfterARunWhoseLastCommitFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		driver := &pausing{Driver: store}
		release := make(chan struct{})
		r, agent := alone(t, driver, asked(release), &runs.Options{})
		startDurable(t, r, agent, "r1", "t1")
		driver.failing.Store(true)
		close(release)
		if _, err := r.Wait(t.Context(), "acme", "r1"); err == nil {
			t.Fatal("the run has ended well, and nothing of it could be stored")
		}
		driver.failing.Store(false)
		startTurn(t, r, agent, "r2", "")
		if got, err := r.Wait(t.Context(), "acme", "r2"); err != nil || got.Status != runs.Completed {
			t.Errorf("the turn: %+v, %v", got, err)
		}
		if got, want := dialogue(t, store, "t1"), []string{"go", "to go", "later", "to later"}; !slices.Equal(got, want) {
			t.Errorf("the thread is %q, want %q", got, want)
		}
	})
}

// silentJournal does not answer while it is silent.
type silentJournal struct {
	*threads.Store
	silent atomic.Bool
}

func (j *silentJournal) ReadRun(ctx context.Context, tenant, run string) (*host.RunRecord, error) {
	if j.silent.Load() {
		return nil, host.Errorf(host.Unavailable, "the journal does not answer")
	}
	return j.Store.ReadRun(ctx, tenant, run)
}

// The journal does not answer when a run fails: the run can be read, and continues once the
// journal has it as open.
func TestAFailedRunCanBeReadWhileTheJournalDoesNotAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		model  bool // the run fails because of its model, and not of the store
		status runs.Status
	}{
		{"and ended there", true, runs.Failed},
		{"and is open there", false, runs.Completed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := kv.NewMemory()
				driver := &pausing{Driver: store}
				release := make(chan struct{})
				model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
					<-release
					if tt.model {
						return hosttest.Fail(host.Errorf(host.InvalidArgument, "no"))
					}
					return hosttest.Say("done")
				})
				journal := &silentJournal{}
				r, agent := alone(t, driver, model, &runs.Options{Journal: journal})
				startDurable(t, r, agent, "r1", "t1")
				journal.silent.Store(true)
				driver.failing.Store(!tt.model)
				close(release)
				if _, err := r.Wait(t.Context(), "acme", "r1"); err == nil {
					t.Fatal("the run has ended well")
				}
				synctest.Wait()
				if run, err := r.Get(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Failed {
					t.Errorf("the run: %+v, %v; want it to be read as failed", run, err)
				}
				driver.failing.Store(false)
				journal.silent.Store(false)
				time.Sleep(10 * time.Second)
				if run, err := r.Get(t.Context(), "acme", "r1"); err != nil || run.Status != tt.status {
					t.Errorf("the run: %+v, %v; want it %s", run, err, tt.status)
				}
				_ = r.Close()
				next, _ := alone(t, store, words(1), &runs.Options{})
				if run, err := next.Get(t.Context(), "acme", "r1"); err != nil || run.Status != tt.status {
					t.Errorf("the run in the store: %+v, %v; want it %s", run, err, tt.status)
				}
			})
		})
	}
}

// failingJournal is a journal whose records of runs cannot be read.
type failingJournal struct {
	*threads.Store
	err   atomic.Pointer[host.Error]
	hangs atomic.Bool
	reads atomic.Int32
}

func (j *failingJournal) ReadRun(ctx context.Context, tenant, run string) (*host.RunRecord, error) {
	j.reads.Add(1)
	if j.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := j.err.Load(); err != nil {
		return nil, err
	}
	return j.Store.ReadRun(ctx, tenant, run)
}

// stranded returns a registry with durable runs whose last commits failed.
func stranded(t *testing.T, number int) (*runs.Registry, *failingJournal) {
	t.Helper()
	driver := &pausing{Driver: kv.NewMemory()}
	release := make(chan struct{})
	journal := &failingJournal{}
	r, agent := alone(t, driver, asked(release), &runs.Options{Journal: journal})
	for i := range number {
		startDurable(t, r, agent, fmt.Sprint("r", i), fmt.Sprint("t", i))
	}
	synctest.Wait()
	driver.failing.Store(true)
	close(release)
	synctest.Wait()
	return r, journal
}

func TestARunThatCannotBeContinuedIsTriedEverLessOften(t *testing.T) {
	for code, most := range map[host.Code]int32{host.DataLoss: 1, host.Unavailable: 64} {
		synctest.Test(t, func(t *testing.T) {
			_, journal := stranded(t, 1)
			journal.err.Store(host.Errorf(code, "the record cannot be read"))
			journal.reads.Store(0)
			time.Sleep(time.Hour)
			if n := journal.reads.Load(); n < 1 || n > most {
				t.Errorf("%s: the run is tried %d times in an hour, want 1 to %d", code, n, most)
			}
		})
	}
}

func TestDrainDoesNotWaitForAJournalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, journal := stranded(t, 20)
		journal.hangs.Store(true)
		time.Sleep(6 * time.Second) // the tries hang
		begun := time.Now()
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Drain takes %s", took)
		}
	})
}
