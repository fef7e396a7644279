package runs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
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
		time.Sleep(10 * time.Second)
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
