package runs_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testhost"
)

// pausing is a store as a process that can be stopped sees it: while it is, no call
// returns.
type pausing struct {
	kv.Driver
	stopped atomic.Pointer[chan struct{}]
	failing atomic.Bool            // commits fail
	stopAt  atomic.Pointer[string] // in a key of the commit before which the process is stopped
}

func (p *pausing) stop() { c := make(chan struct{}); p.stopped.Store(&c) }

func (p *pausing) wake() {
	if c := p.stopped.Swap(nil); c != nil {
		close(*c)
	}
}

func (p *pausing) wait() {
	if c := p.stopped.Load(); c != nil {
		<-*c
	}
}

func (p *pausing) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	p.wait()
	return p.Driver.Get(ctx, partition, key)
}

func (p *pausing) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	p.wait()
	return p.Driver.Scan(ctx, partition, r)
}

func (p *pausing) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if at := p.stopAt.Load(); at != nil && slices.ContainsFunc(txs, func(tx kv.Tx) bool {
		return slices.ContainsFunc(tx.Writes, func(w kv.Write) bool { return strings.Contains(string(w.Key), *at) })
	}) && p.stopAt.CompareAndSwap(at, nil) {
		p.stop()
	}
	p.wait()
	if !p.failing.Load() {
		return p.Driver.Commit(ctx, txs...)
	}
	out := make([]kv.Result, len(txs))
	for i := range out {
		out[i].Err = kv.ErrUnavailable
	}
	return out
}

// node is a host of a cluster.
type node struct {
	store    *threads.Store
	wrap     func(runs.JournalStore) runs.JournalStore // may be nil
	driver   *pausing
	member   *cluster.Member
	registry *runs.Registry
	agent    *host.Agent
	calls    atomic.Int64 // of its tool
	lost     atomic.Bool  // it has no agents for runs of others
	fails    atomic.Bool  // its model answers with an error
}

// newNode returns a host whose agent calls the tool pay, then answers done when release
// is closed.
func newNode(t *testing.T, driver kv.Driver, id string, release <-chan struct{}) *node {
	t.Helper()
	n := &node{driver: &pausing{Driver: driver}}
	n.join(t, &cluster.Options{ID: id}, release)
	return n
}

// twoNodes returns two hosts of a store, each with the channel whose closing lets it answer.
func twoNodes(t *testing.T) (store kv.Driver, a, b *node, releaseA, releaseB chan struct{}) {
	t.Helper()
	store, releaseA, releaseB = kv.NewMemory(), make(chan struct{}), make(chan struct{})
	return store, newNode(t, store, "a", releaseA), newNode(t, store, "b", releaseB), releaseA, releaseB
}

// losesRunTo has a host begin the run r1 and pause; the other one takes the run over.
func (n *node) losesRunTo(t *testing.T, other *node) {
	t.Helper()
	n.begin(t, "r1")
	n.driver.stop()
	other.waitFor(t, "r1", 10*time.Second)
}

// startPaused begins the run r1 on a host that pauses when it opens the run's record.
func (n *node) startPaused() (began chan error) {
	at := "open"
	n.driver.stopAt.Store(&at)
	began = make(chan error, 1)
	go func() {
		_, err := n.registry.Start(context.Background(), n.agent, &host.Request{Tenant: "acme", Run: "r1", Thread: "t1", Text: "go", Durable: true}, nil)
		began <- err
	}()
	return began
}

// startLater begins a turn of the thread that a run of another host is in.
func (n *node) startLater(t *testing.T, run string) {
	t.Helper()
	if _, err := n.registry.Start(t.Context(), n.agent, &host.Request{Tenant: "acme", Run: run, Thread: "t1", Text: "again"}, nil); err != nil {
		t.Fatal(err)
	}
}

// join makes the node a member of the cluster.
func (n *node) join(t *testing.T, opts *cluster.Options, release <-chan struct{}) {
	t.Helper()
	id := opts.ID
	var err error
	if n.member, err = cluster.New(n.driver, opts); err != nil {
		t.Fatal(err)
	}
	n.store = threads.New(n.driver, &threads.Options{Locks: cluster.NewLocks(n.member)})
	history := testhost.NewHistory(t, n.store)
	model := hosttest.ModelFunc(func(ctx context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; len(last.ToolResults()) == 0 {
			return hosttest.Call("pay", `{}`)
		}
		select {
		case <-release:
			if n.fails.Load() {
				return hosttest.Fail(host.Errorf(host.InvalidArgument, "the model of %s fails", id))
			}
			return hosttest.Say("done by " + id)
		case <-ctx.Done():
			return hosttest.Fail(ctx.Err())
		}
	})
	pay := host.NewTool("pay", "Pays.", func(context.Context, *host.Call, struct{}) (string, error) {
		n.calls.Add(1)
		return "paid", nil
	}, nil)
	n.agent = testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{pay}})
	var kept runs.JournalStore = n.store
	if n.wrap != nil {
		kept = n.wrap(kept)
	}
	journal := runs.NewJournal(kept, n.member)
	h := newHost(t, &host.Options{History: history, Journal: journal})
	n.registry, err = runs.New(h, &runs.Options{Journal: journal, Target: func(name string) (host.Target, error) {
		if n.lost.Load() {
			return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
		}
		return n.agent, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.driver.wake()
		_ = n.registry.Close()
		_ = n.member.Close()
	})
	if err := n.registry.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// begin starts a durable run and waits until its tool's result is written down.
func (n *node) begin(t *testing.T, run string) {
	t.Helper()
	startDurable(t, n.registry, n.agent, run, "t1")
	synctest.Wait() // the model waits
	if n.calls.Load() != 1 {
		t.Fatalf("the tool ran %d times, want once", n.calls.Load())
	}
}

// answers returns the texts of the thread's answers.
func answers(t *testing.T, driver kv.Driver) (out []string) {
	t.Helper()
	for m, err := range threads.New(driver, nil).For("acme").Messages(t.Context(), "t1", threads.At{}) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Role == chat.Assistant && m.Text() != "" {
			out = append(out, m.Text())
		}
	}
	return out
}

// waitFor waits until a registry has a run.
func (n *node) waitFor(t *testing.T, run string, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for time.Since(began) < limit {
		if _, err := n.registry.Get(t.Context(), "acme", run); err == nil {
			return time.Since(began)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("run %s is not taken over within %s", run, limit)
	return 0
}

func TestADeadHostsRunIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, a, b, releaseA, releaseB := twoNodes(t)
		a.begin(t, "r1")
		a.driver.stop()
		took := b.waitFor(t, "r1", 10*time.Second)
		if want := cluster.DefaultLease + 2*b.member.Interval(); took > want {
			t.Errorf("the run was taken over after %s, want at most %s", took, want)
		}
		// The host that was paused comes back, with an answer of its own.
		close(releaseA)
		time.Sleep(time.Second)
		ended := make(chan error, 1)
		go func() {
			_, err := a.registry.Wait(t.Context(), "acme", "r1")
			ended <- err
		}()
		synctest.Wait()
		a.driver.wake()
		if err := <-ended; host.CodeOf(err) != host.Conflict {
			t.Errorf("the run on the host that came back: %v; want a conflict", err)
		}
		synctest.Wait()
		if _, err := a.registry.Get(t.Context(), "acme", "r1"); host.CodeOf(err) != host.Unavailable {
			t.Errorf("the host that came back still has the run: %v", err)
		}
		close(releaseB)
		if run, err := b.registry.Wait(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed || !run.Durable {
			t.Errorf("the run on b: %+v, %v", run, err)
		}
		if got := answers(t, store); len(got) != 1 || got[0] != "done by b" {
			t.Errorf("the thread's answers are %q, want the one of b", got)
		}
		if b.calls.Load() != 0 {
			t.Errorf("the tool ran %d times more", b.calls.Load())
		}
		if n, err := runs.CountTenant(t.Context(), store, "acme"); err != nil || n == 0 {
			t.Errorf("CountTenant = %d, %v", n, err)
		}
		if err := runs.EraseTenant(t.Context(), store, "acme"); err != nil {
			t.Error(err)
		}
		if n, err := runs.CountTenant(t.Context(), store, "acme"); err != nil || n != 0 {
			t.Errorf("CountTenant after EraseTenant = %d, %v", n, err)
		}
	})
}

// A host that was paused ends a run which another has taken over, or completed, meanwhile: it
// says what the other one says of the run.
func TestAHostSaysOfARunThatItHasLostWhatItsNextOwnerSays(t *testing.T) {
	ends := map[string]func(a *node){
		"it answers":          func(*node) {},
		"its model fails":     func(a *node) { a.fails.Store(true) },
		"a client cancels it": func(a *node) { _, _ = a.registry.Cancel(context.Background(), "acme", "r1") },
	}
	for what, end := range ends {
		for when, completed := range map[string]bool{"before the other ends it": false, "after the other has ended it": true} {
			t.Run(what+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, a, b, releaseA, releaseB := twoNodes(t)
					a.losesRunTo(t, b)
					onB := func() {
						close(releaseB)
						if run, err := b.registry.Wait(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed {
							t.Fatalf("the run on b: %+v, %v", run, err)
						}
						time.Sleep(2 * time.Second) // its last event is stored
					}
					if completed {
						onB()
					}
					end(a)
					close(releaseA)
					synctest.Wait()
					a.driver.wake()
					synctest.Wait()
					if !completed {
						onB()
					}
					if run, err := a.registry.Get(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed {
						t.Errorf("the host that lost the run says %+v, %v; want that it is completed", run, err)
					}
					if got := answers(t, store); !slices.Equal(got, []string{"done by b"}) {
						t.Errorf("the thread's answers are %q, want the one of b", got)
					}
				})
			})
		}
	}
}

func TestDrainHandsDurableRunsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		release := make(chan struct{})
		a, b := newNode(t, store, "a", nil), newNode(t, store, "b", release)
		a.begin(t, "r1")
		if err := a.registry.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if _, err := a.registry.Get(t.Context(), "acme", "r1"); host.CodeOf(err) != host.Unavailable {
			t.Errorf("the host that has drained still has the run: %v", err)
		}
		if took := b.waitFor(t, "r1", 2*time.Second); took > time.Second {
			t.Errorf("the run was taken over after %s, want at most 1 s", took)
		}
		close(release)
		if run, err := b.registry.Wait(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed {
			t.Errorf("the run on b: %+v, %v", run, err)
		}
		if got := answers(t, store); len(got) != 1 || got[0] != "done by b" {
			t.Errorf("the thread's answers are %q, want the one of b", got)
		}
	})
}

// lateStep is a store in which a step of a run arrives behind each reading of the run by its
// owner: a commit that the owner had given up.
type lateStep struct {
	runs.JournalStore
	late    atomic.Bool
	arrived atomic.Int64
}

func (l *lateStep) ReadRun(ctx context.Context, tenant, run string) (*host.RunRecord, error) {
	rec, err := l.JournalStore.ReadRun(ctx, tenant, run)
	if err == nil && l.late.Load() && rec.Host == "a" {
		l.arrived.Add(1)
		err = l.AppendSteps(ctx, rec.Ref, len(rec.Steps), []json.RawMessage{json.RawMessage(`{"step":{"name":"/late","done":true,"result":1}}`)})
	}
	return rec, err
}

func TestARunWithALateStepIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, late := kv.NewMemory(), &lateStep{}
		release := make(chan struct{})
		a := &node{driver: &pausing{Driver: store}, wrap: func(kept runs.JournalStore) runs.JournalStore {
			late.JournalStore = kept
			return late
		}}
		a.join(t, &cluster.Options{ID: "a"}, nil)
		b := newNode(t, store, "b", release)
		a.begin(t, "r1")
		late.late.Store(true)
		if err := a.registry.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if late.arrived.Load() == 0 {
			t.Fatal("no step has arrived")
		}
		if took := b.waitFor(t, "r1", 2*time.Second); took > time.Second {
			t.Errorf("the run was taken over after %s, want at most 1 s", took)
		}
		close(release)
		if run, err := b.registry.Wait(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed {
			t.Errorf("the run on b: %+v, %v", run, err)
		}
	})
}

// A run whose step could not be written down continues on its own host when the store
// answers again.
func TestARunThatLostTheStoreContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		release := make(chan struct{})
		a := newNode(t, store, "a", release)
		a.begin(t, "r1")
		a.driver.failing.Store(true)
		close(release)
		if _, err := a.registry.Wait(t.Context(), "acme", "r1"); host.CodeOf(err) != host.Unavailable {
			t.Errorf("the run without a store: %v, want unavailable", err)
		}
		synctest.Wait() // the host has it no longer
		if _, err := a.registry.Get(t.Context(), "acme", "r1"); host.CodeOf(err) != host.Unavailable {
			t.Errorf("the run that is to continue: %v, want unavailable", err)
		}
		a.driver.failing.Store(false)
		time.Sleep(20 * time.Second)
		if got := answers(t, store); len(got) != 1 || got[0] != "done by a" || a.calls.Load() != 1 {
			t.Errorf("the thread's answers are %q after %d calls, want one of each", got, a.calls.Load())
		}
		if run, err := a.registry.Get(t.Context(), "acme", "r1"); err != nil || run.Status != runs.Completed {
			t.Errorf("the run: %+v, %v; want it completed", run, err)
		}
	})
}

func TestJoinNeedsAClusterAndTargets(t *testing.T) {
	r := newRegistry(t, newHost(t, nil), nil)
	if err := r.Join(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Join: %v, want failed_precondition", err)
	}
}

// A host that was paused and woke begins another run of the tenant, and dies.
func TestARunBegunAfterAPauseIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, releaseA, releaseB := twoNodes(t)
		a.losesRunTo(t, b)
		close(releaseB)
		time.Sleep(30 * time.Second) // sweeps of b
		a.driver.wake()
		time.Sleep(30 * time.Second)
		a.calls.Store(0)
		startDurable(t, a.registry, a.agent, "r2", "t2")
		synctest.Wait()
		if a.calls.Load() != 1 {
			t.Fatal("no call")
		}
		time.Sleep(30 * time.Second)
		a.driver.stop()
		b.waitFor(t, "r2", 120*time.Second)
		close(releaseA)
	})
}

// A host that was paused begins a run as soon as it wakes, and dies before it has looked at
// the others.
func TestARunBegunAtTheEndOfAPauseIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, releaseA, releaseB := twoNodes(t)
		a.losesRunTo(t, b)
		close(releaseB)
		time.Sleep(30 * time.Second) // sweeps of b
		a.driver.wake()
		synctest.Wait()
		startDurable(t, a.registry, a.agent, "r2", "t2")
		a.driver.stop()
		b.waitFor(t, "r2", 10*time.Second)
		close(releaseA)
	})
}

// A host is paused while it begins a run, after it has made sure that the run will be found;
// others look for its runs meanwhile. It wakes, says that the run has begun, and dies.
func TestARunBegunAroundAPauseIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, releaseA, releaseB := twoNodes(t)
		close(releaseB)
		began := a.startPaused()
		time.Sleep(8 * time.Second) // b sees a die and looks for its runs; a looks again after 10
		if a.driver.stopped.Load() == nil {
			t.Fatal("the host is not paused")
		}
		a.driver.wake()
		for _, err := range a.registry.Events(t.Context(), "acme", "r1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		a.driver.stop()
		if err := <-began; err != nil {
			t.Fatal(err)
		}
		b.waitFor(t, "r1", 10*time.Second)
		close(releaseA)
	})
}

// A host that was paused between the user's message and the run's record has lost the thread:
// the run, which would fail at its end because the thread has moved on, does nothing.
func TestARunDoesNothingOnAThreadThatItsHostHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, releaseA, releaseB := twoNodes(t)
		close(releaseA)
		close(releaseB)
		time.Sleep(time.Second) // each sees the other
		began := a.startPaused()
		time.Sleep(cluster.DefaultLease + time.Second)
		if a.driver.stopped.Load() == nil {
			t.Fatal("the host is not paused")
		}
		b.startLater(t, "r2")
		if run, err := b.registry.Wait(t.Context(), "acme", "r2"); err != nil || run.Status != runs.Completed {
			t.Fatalf("the turn of the other host: %+v, %v", run, err)
		}
		a.driver.wake()
		<-began // it waited no longer than StartWait
		run, err := a.registry.Wait(t.Context(), "acme", "r1")
		if host.CodeOf(err) != host.Conflict || a.calls.Load() != 0 {
			t.Errorf("the run of the paused host: %+v, %v, with %d calls of its tool; want a conflict before it does anything", run, err, a.calls.Load())
		}
		if _, err := a.store.ReadRun(t.Context(), "acme", "r1"); host.CodeOf(err) != host.NotFound {
			t.Errorf("the journal has the run: %v", err)
		}
	})
}

// A turn that waits for the thread of a host that has died comes after the run of that host,
// which would have failed otherwise: the thread had moved on.
func TestATurnWaitsForAnInterruptedRunOfItsThread(t *testing.T) {
	for _, tt := range []struct {
		name      string
		lost      bool // no host can continue the run
		completed bool
		atLeast   time.Duration // that the turn waits
		atMost    time.Duration
	}{
		{name: "another host continues it", completed: true, atMost: 8 * time.Second},
		{name: "no host continues it", lost: true, atLeast: 15 * time.Second, atMost: 25 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, a, b, releaseA, releaseB := twoNodes(t)
				time.Sleep(time.Second) // each sees the other
				b.lost.Store(tt.lost)
				a.begin(t, "r1")
				b.startLater(t, "r2")
				a.driver.stop()
				close(releaseB)
				died := time.Now()
				if run, err := b.registry.Wait(t.Context(), "acme", "r2"); err != nil || run.Status != runs.Completed {
					t.Fatalf("the turn: %+v, %v", run, err)
				}
				if took := time.Since(died); took < tt.atLeast || took > tt.atMost {
					t.Errorf("the turn ended after %s, want %s to %s", took, tt.atLeast, tt.atMost)
				}
				want := []string{"go", "done by b", "again", "done by b"}
				if !tt.completed {
					want = []string{"go", "again", "done by b"}
				}
				got := dialogue(t, store, "t1")
				if !slices.Equal(got, want) {
					t.Errorf("the thread is %q, want %q", got, want)
				}
				began := time.Now()
				b.startLater(t, "r3")
				if run, err := b.registry.Wait(t.Context(), "acme", "r3"); err != nil || run.Status != runs.Completed || time.Since(began) > time.Second {
					t.Errorf("the next turn: %+v, %v after %s", run, err, time.Since(began))
				}
				close(releaseA)
			})
		})
	}
}
