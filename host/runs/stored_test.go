package runs_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testhost"
)

// eventsFrom reads the events of a run from a number to its end.
func eventsFrom(t *testing.T, r *runs.Registry, run string, from int64) (out []host.Event) {
	t.Helper()
	for ev, err := range r.Events(t.Context(), "acme", run, from) {
		if err != nil {
			t.Fatalf("event %d of %s: %v", from+int64(len(out)), run, err)
		}
		out = append(out, ev)
	}
	return out
}

// checkNumbers fails unless events are numbered from a number on and the last ends the run.
func checkNumbers(t *testing.T, events []host.Event, from int64) {
	t.Helper()
	for i, ev := range events {
		if ev.Seq != from+int64(i) {
			t.Fatalf("event %d of the reader has the number %d, want %d", i, ev.Seq, from+int64(i))
		}
		if _, last := ev.Data.(*runevent.RunFinished); last != (i == len(events)-1) {
			t.Errorf("event %d of %d is %T", i, len(events), ev.Data)
		}
	}
	if len(events) == 0 {
		t.Error("the reader got no event")
	}
}

// storedRows returns the keys of what the store has of the events of runs.
func storedRows(t *testing.T, driver kv.Driver) (keys []string) {
	t.Helper()
	for e, err := range kv.All(t.Context(), driver, "acme", kv.Range{Prefix: kv.NewKey("runs")}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key.String())
	}
	return keys
}

func TestEventNumbersContinueAfterATakeover(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stored bool // the events were stored before the host was paused
	}{
		{"of events that are stored", true},
		{"of events that are not stored yet", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, a, b, releaseA, releaseB := twoNodes(t)
				a.begin(t, "r1")
				if tt.stored {
					time.Sleep(2 * time.Second)
				}
				run, err := a.registry.Get(t.Context(), "acme", "r1")
				if err != nil {
					t.Fatal(err)
				}
				seen := run.Events // by a reader of a
				a.driver.stop()
				b.waitFor(t, "r1", 10*time.Second)
				synctest.Wait()
				took, err := b.registry.Get(t.Context(), "acme", "r1")
				if err != nil {
					t.Fatal(err)
				}
				first := int64(0) // of b
				if tt.stored {
					first = seen
				}
				resumed := eventsUntil(t, b.registry, first)
				if _, ok := resumed.Data.(*runevent.RunStarted); !ok || took.Events <= first {
					t.Fatalf("event %d is %T, of %d", first, resumed.Data, took.Events)
				}
				close(releaseB)
				if _, err := b.registry.Wait(t.Context(), "acme", "r1"); err != nil {
					t.Fatal(err)
				}
				all := eventsFrom(t, b.registry, "r1", 0)
				checkNumbers(t, all, 0)
				for from := range int64(len(all)) {
					checkNumbers(t, eventsFrom(t, b.registry, "r1", from), from)
				}
				// The host that was paused adds nothing to what the run has become.
				close(releaseA)
				a.driver.wake()
				time.Sleep(3 * time.Second)
				_ = b.registry.Close()
				c := newNode(t, store, "c", nil)
				got := eventsFrom(t, c.registry, "r1", 0)
				checkNumbers(t, got, 0)
				if len(got) != len(all) {
					t.Errorf("the store has %d events, want %d", len(got), len(all))
				}
				if info, err := c.registry.Wait(t.Context(), "acme", "r1"); err != nil || info.Status != runs.Completed || info.Events != int64(len(all)) {
					t.Errorf("the run that is in the store alone: %+v, %v", info, err)
				}
			})
		})
	}
}

// eventsUntil returns one event of run r1.
func eventsUntil(t *testing.T, r *runs.Registry, number int64) host.Event {
	t.Helper()
	for ev, err := range r.Events(t.Context(), "acme", "r1", number) {
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	t.Fatalf("there is no event %d", number)
	return host.Event{}
}

// A reader that has seen more than the host could store reads on where the next host began.
func TestAReaderAheadOfTheStoreReadsWhatIsProducedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		releaseB := make(chan struct{})
		a, b := newNode(t, store, "a", nil), newNode(t, store, "b", releaseB)
		first := make(chan struct{})
		a.calls.Store(0)
		go func() {
			defer close(first)
			time.Sleep(2 * time.Second)
		}()
		a.begin(t, "r1")
		<-first
		stored, err := a.registry.Get(t.Context(), "acme", "r1")
		if err != nil {
			t.Fatal(err)
		}
		a.driver.stop()
		b.waitFor(t, "r1", 10*time.Second)
		close(releaseB)
		if _, err := b.registry.Wait(t.Context(), "acme", "r1"); err != nil {
			t.Fatal(err)
		}
		ahead := eventsFrom(t, b.registry, "r1", 1000)
		checkNumbers(t, ahead, stored.Events)
		time.Sleep(2 * time.Second)
		_ = b.registry.Close()
		c := newNode(t, store, "c", nil)
		checkNumbers(t, eventsFrom(t, c.registry, "r1", 1000), stored.Events)
	})
}

// alone is a registry whose journal is a store that no other process has.
func alone(t *testing.T, driver kv.Driver, model host.Model, opts *runs.Options) (*runs.Registry, *host.Agent) {
	t.Helper()
	var registry *runs.Registry
	store := threads.New(driver, &threads.Options{Interrupted: func(ctx context.Context, rec *host.RunRecord) error {
		return registry.Continue(ctx, rec)
	}})
	history := testhost.NewHistory(t, store)
	agent := newAgent(t, "clerk", &host.AgentOptions{Model: model})
	own := *opts
	switch journal := own.Journal.(type) {
	case *silentJournal:
		journal.Store = store
	case *failingJournal:
		journal.Store = store
	default:
		own.Journal = store
	}
	if own.Target == nil {
		own.Target = func(string) (host.Target, error) { return agent, nil }
	}
	registry = newRegistry(t, newHost(t, &host.Options{History: history}), &own)
	return registry, agent
}

func startDurable(t *testing.T, r *runs.Registry, agent *host.Agent, run, thread string) {
	t.Helper()
	if _, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: run, Thread: thread, Text: "go", Durable: true}, nil); err != nil {
		t.Fatal(err)
	}
}

// counted counts the commits of events.
type counted struct {
	kv.Driver
	mu    sync.Mutex
	times []time.Time
}

func (c *counted) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	event := string(kv.NewKey("runs", "event"))
	if slices.ContainsFunc(txs, func(tx kv.Tx) bool {
		return slices.ContainsFunc(tx.Writes, func(w kv.Write) bool { return strings.HasPrefix(string(w.Key), event) && !w.Delete })
	}) {
		c.mu.Lock()
		c.times = append(c.times, time.Now())
		c.mu.Unlock()
	}
	return c.Driver.Commit(ctx, txs...)
}

func TestEventsOfAllRunsAreStoredOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &counted{Driver: kv.NewMemory()}
		model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			time.Sleep(300 * time.Millisecond)
			return hosttest.Say("done")
		})
		r, agent := alone(t, driver, model, &runs.Options{})
		for i := range 20 {
			thread := string(rune('a' + i))
			startDurable(t, r, agent, "run-"+thread, thread)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		driver.mu.Lock()
		defer driver.mu.Unlock()
		if n := len(driver.times); n < 2 || n > 7 {
			t.Errorf("%d commits of events in 5 s of runs", n)
		}
		for i, at := range driver.times[1:] {
			if since := at.Sub(driver.times[i]); since < time.Second {
				t.Errorf("commit %d of events came %s after the one before", i+1, since)
			}
		}
	})
}

// doubting makes the first commit of events without knowing it.
type doubting struct {
	kv.Driver
	doubted bool
}

func (d *doubting) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := d.Driver.Commit(ctx, txs...)
	event := string(kv.NewKey("runs", "event"))
	for i, tx := range txs {
		if !d.doubted && slices.ContainsFunc(tx.Writes, func(w kv.Write) bool { return strings.HasPrefix(string(w.Key), event) }) {
			d.doubted, results[i] = true, kv.Result{Err: kv.ErrInDoubt}
		}
	}
	return results
}

// The registry has made the id of the run, so that it looks for no earlier run of that id.
func TestEventsAreStoredAfterACommitInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		driver := &doubting{Driver: store}
		slow := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			time.Sleep(3 * time.Second)
			return hosttest.Say("done")
		})
		first, agent := alone(t, driver, slow, &runs.Options{})
		run, err := first.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go", Durable: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Wait(t.Context(), "acme", run.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if !driver.doubted {
			t.Fatal("no commit was in doubt")
		}
		second, _ := alone(t, store, slow, &runs.Options{})
		checkNumbers(t, eventsFrom(t, second, run.ID, 0), 0)
	})
}

func TestAProcessThatRestartsContinuesTheNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		driver := &pausing{Driver: store}
		waits := hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
			<-ctx.Done()
			return hosttest.Fail(ctx.Err())
		})
		first, agent := alone(t, driver, waits, &runs.Options{})
		startDurable(t, first, agent, "r1", "t1")
		time.Sleep(2 * time.Second)
		before, err := first.Get(t.Context(), "acme", "r1")
		if err != nil {
			t.Fatal(err)
		}
		driver.stop() // it was killed
		second, agent := alone(t, store, hosttest.NewModel(hosttest.Say("done")), &runs.Options{})
		if _, err := second.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: "r1", Resume: "r1"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Wait(t.Context(), "acme", "r1"); err != nil {
			t.Fatal(err)
		}
		checkNumbers(t, eventsFrom(t, second, "r1", 0), 0)
		if ev := eventsUntil(t, second, before.Events); ev.Data.Type() != (&runevent.RunStarted{}).Type() {
			t.Errorf("event %d is %T, want the start of the process that continues", before.Events, ev.Data)
		}
		driver.wake()
	})
}

func TestStoredEventsGoWithTheirRun(t *testing.T) {
	say := func() host.Model { return hosttest.NewModel(hosttest.Say("done"), hosttest.Say("done")) }
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, store *kv.Memory, r *runs.Registry)
	}{
		{"when its time is over", func(t *testing.T, _ *kv.Memory, _ *runs.Registry) { time.Sleep(runs.DefaultKeptFor + 3*time.Second) }},
		{"with its thread", func(t *testing.T, store *kv.Memory, _ *runs.Registry) {
			own := threads.New(store, &threads.Options{Deleted: func(ctx context.Context, tenant, id string) error { return runs.EraseThread(ctx, store, tenant, id) }})
			if err := own.For("acme").Delete(t.Context(), "t1"); err != nil {
				t.Fatal(err)
			}
		}},
		{"with its tenant", func(t *testing.T, store *kv.Memory, r *runs.Registry) {
			memory := erasure.Func{What: "memory", EraseFunc: r.DropTenant, FindFunc: func(context.Context, string) (int, error) { return 0, nil }}
			tenants := erasure.New(store, memory)
			if err := tenants.Delete(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			if report, err := tenants.Prove(t.Context(), "acme"); err != nil || !report.Gone {
				t.Errorf("Prove: %+v, %v", report, err)
			}
			time.Sleep(3 * time.Second) // nothing is stored afterwards
		}},
		{"after the process was killed at its end", func(t *testing.T, store *kv.Memory, r *runs.Registry) {
			_ = r.Close()
			next, agent := alone(t, store, say(), &runs.Options{})
			time.Sleep(runs.DefaultKeptFor)
			startDurable(t, next, agent, "r2", "t1")
			time.Sleep(runs.DefaultKeptFor + 5*time.Second)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := kv.NewMemory()
				r, agent := alone(t, store, say(), &runs.Options{})
				startDurable(t, r, agent, "r1", "t1")
				time.Sleep(2 * time.Second)
				if rows := storedRows(t, store); len(rows) < 4 {
					t.Fatalf("the store has %q of the run", rows)
				}
				tt.end(t, store, r)
				if rows := storedRows(t, store); len(rows) > 0 {
					t.Errorf("the store has %q", rows)
				}
			})
		})
	}
}

// A host that dies after a run has ended leaves its events to be removed by another.
func TestEventsOfADeadHostsEndedRunsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		release := make(chan struct{})
		close(release)
		a := newNode(t, store, "a", release)
		newNode(t, store, "b", nil)
		a.begin(t, "r1")
		time.Sleep(2 * time.Second)
		a.driver.stop()
		time.Sleep(30 * time.Second)
		if rows := storedRows(t, store); len(rows) == 0 {
			t.Error("the events went with their host, before their time")
		}
		time.Sleep(runs.DefaultKeptFor + 30*time.Second)
		if rows := storedRows(t, store); len(rows) > 0 {
			t.Errorf("the store has %q", rows)
		}
		if all, err := cluster.NewOwners(store, "runs").All(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("the index of hosts has %v, %v", all, err)
		}
	})
}

func TestStoredEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		r, agent := alone(t, store, words(runs.MaxStoredEvents+2000), &runs.Options{Kept: 100})
		startDurable(t, r, agent, "r1", "t1")
		time.Sleep(2 * time.Second)
		for _, err := range r.Events(t.Context(), "acme", "r1", 0) {
			if host.CodeOf(err) != host.ResourceExhausted {
				t.Fatalf("the first event: %v; want one that is not kept", err)
			}
		}
		info, err := r.Get(t.Context(), "acme", "r1")
		if err != nil || info.Events < runs.MaxStoredEvents {
			t.Fatalf("the run: %+v, %v", info, err)
		}
		checkNumbers(t, eventsFrom(t, r, "r1", info.Events-runs.MaxStoredEvents/2), info.Events-runs.MaxStoredEvents/2) // the memory has 100
	})
}

// paced is a model whose first deltas come one after the other.
type paced struct {
	host.Model
	slow  int // how many of them
	pause time.Duration
}

func (m paced) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		n := 0
		for chunk, err := range m.Model.Generate(ctx, req) {
			if n++; n < m.slow {
				time.Sleep(m.pause)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// lateScans is a store whose scans take so long that events are stored meanwhile.
type lateScans struct{ kv.Driver }

func (d lateScans) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	page, err := d.Driver.Scan(ctx, partition, r)
	if strings.HasPrefix(string(r.Prefix), string(kv.NewKey("runs", "event"))) {
		time.Sleep(2 * time.Second)
	}
	return page, err
}

// The memory has ten events, and each commit stores twenty.
func TestAReaderMissesNoEventThatIsStoredWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, agent := alone(t, lateScans{kv.NewMemory()}, paced{words(400), 400, 50 * time.Millisecond}, &runs.Options{Kept: 10})
		startDurable(t, r, agent, "r1", "t1")
		time.Sleep(5*time.Second + 900*time.Millisecond)
		checkNumbers(t, eventsFrom(t, r, "r1", 0), 0)
	})
}

// The entries of a run that was slow for long are more than one transaction may remove,
// and all of them are too old when the run is fast at last.
func TestManyOldEntriesAreRemovedByMoreThanOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		const slow = kv.MaxTxWrites + 200
		history := threads.New(store, nil)
		adapter := testhost.NewHistory(t, history)
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: paced{words(slow + 2*runs.MaxStoredEvents), slow, time.Second}})
		r := newRegistry(t, newHost(t, &host.Options{History: adapter, Limits: host.Limits{RunTimeout: time.Hour}}),
			&runs.Options{Kept: 100, Journal: history, Target: func(string) (host.Target, error) { return agent, nil }})
		startDurable(t, r, agent, "r1", "t1")
		if _, err := r.Wait(t.Context(), "acme", "r1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		info, err := r.Get(t.Context(), "acme", "r1")
		if err != nil {
			t.Fatal(err)
		}
		last := info.Events - runs.MaxStoredEvents/2
		checkNumbers(t, eventsFrom(t, r, "r1", last), last)
		if rows := storedRows(t, store); len(rows) >= slow {
			t.Errorf("the store has %d rows", len(rows))
		}
	})
}

// The store does not answer for a while: no event is lost, and none is stored twice.
func TestEventsAreStoredWhenTheStoreAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		driver := &pausing{Driver: store}
		release := make(chan struct{})
		model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			<-release
			return hosttest.Say("one two three")
		})
		r, agent := alone(t, driver, model, &runs.Options{})
		startDurable(t, r, agent, "r1", "t1")
		driver.failing.Store(true)
		time.Sleep(5 * time.Second)
		if rows := storedRows(t, store); len(rows) > 0 {
			t.Fatalf("the store has %q", rows)
		}
		driver.failing.Store(false)
		close(release)
		if _, err := r.Wait(t.Context(), "acme", "r1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		_ = r.Close()
		next, _ := alone(t, store, words(1), &runs.Options{})
		checkNumbers(t, eventsFrom(t, next, "r1", 0), 0)
	})
}

// The id of a run that has ended may be used again.
func TestARunOfAnEarlierRunsIdHasItsOwnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		first, agent := alone(t, store, words(100), &runs.Options{})
		startDurable(t, first, agent, "r1", "t1")
		time.Sleep(2 * time.Second)
		_ = first.Close()
		time.Sleep(time.Second)
		second, agent := alone(t, store, hosttest.NewModel(hosttest.Say("other")), &runs.Options{})
		startDurable(t, second, agent, "r1", "t2")
		time.Sleep(2 * time.Second)
		live := eventsFrom(t, second, "r1", 0)
		_ = second.Close()
		third, _ := alone(t, store, words(1), &runs.Options{})
		if got := eventsFrom(t, third, "r1", 0); len(got) != len(live) {
			t.Errorf("the store has %d events, want the %d of the second run", len(got), len(live))
		}
	})
}

// A thread is deleted before the first commit of the events of its run, which has ended.
func TestEventsAreNotStoredBehindTheDeletionOfTheirThread(t *testing.T) {
	for _, tt := range []struct {
		name  string
		again bool // a thread of the same id begins before that commit
	}{
		{"that is gone", false},
		{"of whose id another one has begun", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := kv.NewMemory()
				r, agent := alone(t, store, words(10), &runs.Options{})
				startDurable(t, r, agent, "r1", "t1")
				if _, err := r.Wait(t.Context(), "acme", "r1"); err != nil {
					t.Fatal(err)
				}
				own := threads.New(store, &threads.Options{Deleted: func(ctx context.Context, tenant, id string) error { return runs.EraseThread(ctx, store, tenant, id) }})
				if err := own.For("acme").Delete(t.Context(), "t1"); err != nil {
					t.Fatal(err)
				}
				if tt.again {
					if _, _, err := own.For("acme").Create(t.Context(), &threads.CreateOptions{ID: "t1"}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(3 * time.Second)
				if rows := storedRows(t, store); len(rows) > 0 {
					t.Errorf("the store has %q", rows)
				}
			})
		})
	}
}

// One host removes the events of a run that has ended, while another has begun a run of the
// same id.
func TestTheRemovalOfARunsEventsSparesALaterRunOfItsId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		first, agent := alone(t, store, words(100), &runs.Options{KeptFor: 10 * time.Second})
		startDurable(t, first, agent, "r1", "t1")
		time.Sleep(3 * time.Second)
		second, agent := alone(t, store, words(5), &runs.Options{KeptFor: time.Minute})
		startDurable(t, second, agent, "r1", "t2")
		time.Sleep(2 * time.Second)
		live := eventsFrom(t, second, "r1", 0)
		time.Sleep(10 * time.Second) // the first host removes what it knows of
		_ = second.Close()
		third, _ := alone(t, store, words(1), &runs.Options{})
		checkNumbers(t, eventsFrom(t, third, "r1", 0), 0)
		if got := eventsFrom(t, third, "r1", 0); len(got) != len(live) {
			t.Errorf("the store has %d events, want the %d of the second run", len(got), len(live))
		}
		if err := runs.EraseThread(t.Context(), store, "acme", "t1"); err != nil {
			t.Fatal(err)
		}
		if got := eventsFrom(t, third, "r1", 0); len(got) != len(live) {
			t.Errorf("after the deletion of the first run's thread there are %d events", len(got))
		}
	})
}

// A process is killed while it removes the events of a run, and a run of the same id begins.
func TestARunBeginsAmongTheRestOfARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		driver := &pausing{Driver: store}
		first, agent := alone(t, driver, words(100), &runs.Options{KeptFor: 5 * time.Second})
		startDurable(t, first, agent, "r1", "t1")
		time.Sleep(3 * time.Second)
		stored := len(storedRows(t, store))
		at := string(kv.NewKey("runs", "event"))
		driver.stopAt.Store(&at) // after the removal has begun
		time.Sleep(10 * time.Second)
		if driver.stopped.Load() == nil || len(storedRows(t, store)) != stored {
			t.Fatalf("the removal does not stop at its second commit: %q", storedRows(t, store))
		}
		second, agent := alone(t, store, words(5), &runs.Options{})
		startDurable(t, second, agent, "r1", "t2")
		time.Sleep(2 * time.Second)
		driver.wake()
		time.Sleep(2 * time.Second)
		live := eventsFrom(t, second, "r1", 0)
		_ = second.Close()
		third, _ := alone(t, store, words(1), &runs.Options{})
		if got := eventsFrom(t, third, "r1", 0); len(got) != len(live) {
			t.Errorf("the store has %d events, want the %d of the second run", len(got), len(live))
		}
	})
}

// The answer to a start says whether a durable run would survive its process.
func TestADurableRunIsWaitingUntilTheJournalHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		release := make(chan struct{})
		r, agent := alone(t, store, asked(release), &runs.Options{})
		journal := threads.New(store, nil)
		for _, tt := range []struct {
			run     string
			waiting bool
		}{{"r1", false}, {"r2", true}} {
			run, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: tt.run, Thread: "t1", Text: "go", Durable: true}, nil)
			if err != nil || run.Waiting != tt.waiting {
				t.Errorf("Start = %+v, %v; want waiting %t", run, err, tt.waiting)
			}
			if _, err := journal.ReadRun(t.Context(), "acme", tt.run); (host.CodeOf(err) == host.NotFound) != tt.waiting {
				t.Errorf("the journal has run %s: %v", tt.run, err)
			}
		}
		close(release)
		if run, err := r.Wait(t.Context(), "acme", "r2"); err != nil || run.Waiting {
			t.Errorf("the run at its end: %+v, %v", run, err)
		}
	})
}
