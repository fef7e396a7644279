package runs_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// checkGivenUp checks that a run has ended with a reason for each reader of a registry: its
// events from the first on, its description and the list of runs.
func checkGivenUp(t *testing.T, r *runs.Registry, code host.Code) {
	t.Helper()
	run, err := r.Get(t.Context(), "acme", "r1")
	if err != nil || run.Status != runs.Failed || host.CodeOf(run.Error) != code || run.Error.Hint == "" {
		t.Fatalf("the run: %+v, %v; want it failed with %s and a hint", run, err, code)
	}
	var events []host.Event
	var failure error
	for ev, err := range r.Events(t.Context(), "acme", "r1", 0) {
		if failure = err; err == nil {
			events = append(events, ev)
		}
	}
	checkNumbers(t, events, 0)
	if n := len(events); n < 2 {
		t.Fatalf("the run has %d events, want those of its process and the end", n)
	}
	end, ok := events[len(events)-1].Data.(*runevent.RunFinished)
	if !ok || host.CodeOf(end.Error) != code || host.CodeOf(failure) != code {
		t.Errorf("the events end with %+v and %v, want the reason %s", events[len(events)-1].Data, failure, code)
	}
}

func checkListed(t *testing.T, r *runs.Registry) {
	t.Helper()
	page, err := r.List(t.Context(), &runs.ListRequest{Tenant: "acme", Status: runs.Failed})
	if err != nil || !slices.ContainsFunc(page.Runs, func(run *runs.Run) bool { return run.ID == "r1" && run.Error != nil }) {
		t.Errorf("the list has %+v, %v; want the run that was given up", page, err)
	}
}

func checkGone(t *testing.T, driver kv.Driver) {
	t.Helper()
	if rec, err := threads.New(driver, nil).ReadRun(t.Context(), "acme", "r1"); host.CodeOf(err) != host.NotFound {
		t.Errorf("the journal has %+v, %v; want that the run has ended", rec, err)
	}
}

// abandoned returns a store with the run r1, whose hosts have all died.
func abandoned(t *testing.T) kv.Driver {
	t.Helper()
	store := kv.NewMemory()
	a := newNode(t, store, "a", nil)
	a.begin(t, "r1")
	time.Sleep(2 * time.Second) // its events are stored
	takeOften(t, store)
	a.driver.stop()
	return store
}

func TestARunThatEndsItsHostsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := abandoned(t)
		b := newNode(t, store, "b", nil)
		time.Sleep(20 * time.Second)
		checkGivenUp(t, b.registry, host.ResourceExhausted)
		checkListed(t, b.registry)
		checkGone(t, store)
		c := newNode(t, store, "c", nil)
		checkGivenUp(t, c.registry, host.ResourceExhausted) // from the store: the hosts have no addresses
	})
}

// A host is killed while it gives a run up: the next one ends the run, with one last event.
func TestAHostThatIsKilledWhileItGivesARunUpLeavesThatToAnother(t *testing.T) {
	for name, key := range map[string]kv.Key{
		"before it has the events":     kv.NewKey("runs", "owner", "r1"),
		"before it shows the end":      kv.NewKey("runs", "event", "r1"),
		"before the journal has ended": kv.NewKey("threads", "step", "r1"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := abandoned(t)
				b := newNode(t, store, "b", nil)
				at := string(key)
				b.driver.stopAt.Store(&at)
				time.Sleep(20 * time.Second)
				if b.driver.stopped.Load() == nil {
					t.Fatal("the host was not killed")
				}
				c := newNode(t, store, "c", nil)
				time.Sleep(40 * time.Second)
				checkGivenUp(t, c.registry, host.ResourceExhausted)
				checkGone(t, store)
				n := 0
				for ev := range c.registry.Events(t.Context(), "acme", "r1", 0) {
					if _, ok := ev.Data.(*runevent.RunFinished); ok {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the run has %d last events", n)
				}
			})
		})
	}
}

// takeOften has the run r1 of host a taken by as many hosts as may have a run.
func takeOften(t *testing.T, store kv.Driver) {
	t.Helper()
	journal := threads.New(store, nil)
	for {
		rec, err := journal.ReadRun(t.Context(), "acme", "r1")
		if err != nil {
			t.Fatal(err)
		}
		if rec.Fence == runs.MaxOwners {
			return
		}
		ref := rec.Ref
		ref.Host = "a"
		if _, err := journal.TakeRun(t.Context(), ref, len(rec.Steps)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARunWhoseTargetStaysAwayIsGivenUp(t *testing.T) {
	t.Run("in a cluster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := kv.NewMemory()
			a, b := newNode(t, store, "a", nil), newNode(t, store, "b", nil)
			b.lost.Store(true)
			a.begin(t, "r1")
			time.Sleep(2 * time.Second)
			a.driver.stop()
			time.Sleep(runs.MaxRefusal)
			if _, err := b.registry.Get(t.Context(), "acme", "r1"); host.CodeOf(err) != host.Unavailable {
				t.Fatalf("within the time for another host: %v, want that the run waits for one", err)
			}
			time.Sleep(time.Minute)
			checkGivenUp(t, b.registry, host.FailedPrecondition)
			checkListed(t, b.registry)
			checkGone(t, store)
		})
	})
	t.Run("of a host that is alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			second, store := targetless(t)
			time.Sleep(runs.MaxRefusal - time.Minute)
			if _, err := second.Get(t.Context(), "acme", "r1"); host.CodeOf(err) != host.Unavailable {
				t.Fatalf("within the time for another configuration: %v, want that the run waits for it", err)
			}
			time.Sleep(2*time.Minute + time.Second) // the longest time between two tries
			checkGivenUp(t, second, host.FailedPrecondition)
			checkListed(t, second)
			checkGone(t, store)
			_ = second.Close()
			third, _ := alone(t, store, words(1), &runs.Options{})
			checkGivenUp(t, third, host.FailedPrecondition)
		})
	})
}

// targetless returns the registry of a host that has started again without the agent of a
// durable run of its store.
func targetless(t *testing.T) (*runs.Registry, kv.Driver) {
	t.Helper()
	store := interrupted(t, 2*time.Second)
	second, _ := alone(t, store, words(1), &runs.Options{Target: func(name string) (host.Target, error) {
		return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
	}})
	rec, err := threads.New(store, nil).ReadRun(t.Context(), "acme", "r1")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Continue(t.Context(), rec); host.CodeOf(err) != host.NotFound {
		t.Fatalf("Continue: %v, want that the agent is missing", err)
	}
	return second, store
}

// Its agent was there again when a turn had gone first: the thread has moved on.
func TestARunThatATurnHasOvertakenEndsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := interrupted(t, 2*time.Second)
		var there atomic.Pointer[host.Agent]
		second, agent := alone(t, store, words(1), &runs.Options{Target: func(name string) (host.Target, error) {
			if agent := there.Load(); agent != nil {
				return agent, nil
			}
			return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
		}})
		startTurn(t, second, agent, "r2", "")
		if got, err := second.Wait(t.Context(), "acme", "r2"); err != nil || got.Status != runs.Completed {
			t.Fatalf("the turn: %+v, %v", got, err)
		}
		there.Store(agent)
		time.Sleep(10 * time.Second)
		checkGivenUp(t, second, host.Conflict)
		checkListed(t, second)
		checkGone(t, store)
	})
}
