package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

var _ threads.Locks = (*cluster.Locks)(nil)

func TestALockIsOneMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		a, b := join(t, store, nil), join(t, store, nil)
		observe(t, a)
		observe(t, b)
		ofA, ofB := cluster.NewLocks(a), cluster.NewLocks(b)
		fence, unlock, err := ofA.Lock(t.Context(), "acme", "t1", true)
		if err != nil || len(fence) != 1 {
			t.Fatalf("Lock = %v, %v", fence, err)
		}
		if _, _, err := ofB.Lock(t.Context(), "acme", "t1", false); !errors.Is(err, kv.ErrBusy) {
			t.Errorf("another member's Lock without wait: %v, want busy", err)
		}
		if _, _, err := ofA.Lock(t.Context(), "acme", "t1", false); !errors.Is(err, kv.ErrBusy) {
			t.Errorf("a second Lock of the member: %v, want busy", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := ofB.Lock(short, "acme", "t1", true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait with a deadline: %v", err)
		}
		if _, other, err := ofB.Lock(t.Context(), "acme", "t2", false); err != nil {
			t.Errorf("Lock of another name: %v", err)
		} else {
			other()
		}
		time.AfterFunc(3*time.Second, unlock)
		began := time.Now()
		_, unlockB, err := ofB.Lock(t.Context(), "acme", "t1", true)
		if took := time.Since(began); err != nil || took < 3*time.Second || took > 4*time.Second {
			t.Fatalf("the wait for the lock took %s, %v", took, err)
		}
		if _, err := kv.Apply(t.Context(), store, kv.Tx{Partition: "acme", Conds: fence}); !errors.Is(err, kv.ErrPrecondition) {
			t.Errorf("the fence of the earlier holder: %v, want that it does not hold", err)
		}
		unlock() // again: the lock is b's
		if _, _, err := ofA.Lock(t.Context(), "acme", "t1", false); !errors.Is(err, kv.ErrBusy) {
			t.Errorf("Lock after a second unlock: %v, want busy", err)
		}
		unlockB()
	})
}

func TestALockOfADeadMemberIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		a, b := join(t, of, nil), join(t, store, nil)
		observe(t, a)
		observe(t, b)
		if _, _, err := cluster.NewLocks(a).Lock(t.Context(), "acme", "t1", true); err != nil {
			t.Fatal(err)
		}
		of.stopped.Store(true)
		began := time.Now()
		_, unlock, err := cluster.NewLocks(b).Lock(t.Context(), "acme", "t1", true)
		if took := time.Since(began); err != nil || took > cluster.DefaultLease+3*b.Interval() {
			t.Fatalf("the lock of a dead member was free after %s, %v", took, err)
		}
		unlock()
	})
}

func TestAMemberAloneLocksWithoutTheStore(t *testing.T) {
	store := kv.NewMemory()
	a := join(t, store, nil)
	fence, unlock, err := cluster.NewLocks(a).Lock(t.Context(), "acme", "t1", true)
	if err != nil || len(fence) > 0 {
		t.Fatalf("Lock = %v, %v", fence, err)
	}
	unlock()
	if page, err := store.Scan(t.Context(), "acme", kv.Range{Limit: 1}); err != nil || len(page.Entries) > 0 {
		t.Errorf("the store has %d entries, %v", len(page.Entries), err)
	}
}

// Turns of two hosts on one thread run one after the other, and the turn of a host that
// was paused stores nothing after another one's.
func TestTurnsOfTwoHostsOnOneThreadQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		a, b := join(t, of, nil), join(t, store, nil)
		observe(t, a)
		observe(t, b)
		ofA := threads.New(of, &threads.Options{Locks: cluster.NewLocks(a)})
		ofB := threads.New(store, &threads.Options{Locks: cluster.NewLocks(b)})
		request := func(text string) *host.HistoryRequest {
			return &host.HistoryRequest{Tenant: "acme", Thread: "t1", Run: host.NewID(), Input: chat.UserText(text)}
		}
		unlock, err := ofA.LockThread(t.Context(), request(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ofA.AppendUserMessage(t.Context(), request("from a")); err != nil {
			t.Fatal(err)
		}
		conflict := request("")
		conflict.Racing = host.RaceConflict
		if _, err := ofB.LockThread(t.Context(), conflict); host.CodeOf(err) != host.Conflict {
			t.Errorf("a turn of b that does not wait: %v, want conflict", err)
		}
		of.stopped.Store(true)
		unlockB, err := ofB.LockThread(t.Context(), request(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ofB.AppendUserMessage(t.Context(), request("from b")); err != nil {
			t.Fatal(err)
		}
		of.stopped.Store(false)
		if _, err := ofA.AppendUserMessage(t.Context(), request("late")); host.CodeOf(err) != host.Conflict {
			t.Errorf("a write of the host that was paused: %v, want conflict", err)
		}
		unlock()
		unlockB()
		var texts []string
		for m, err := range ofB.For("acme").Messages(t.Context(), "t1", threads.At{}) {
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, m.Text())
		}
		if len(texts) != 2 || texts[0] != "from a" || texts[1] != "from b" {
			t.Errorf("the thread is %q", texts)
		}
	})
}

// A lock that was released while the store could not be reached is free for other members
// once it can be reached again, though its holder lives.
func TestALockReleasedInAnOutageIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		a, b := join(t, of, nil), join(t, store, nil)
		observe(t, a)
		observe(t, b)
		_, unlock, err := cluster.NewLocks(a).Lock(t.Context(), "acme", "t1", true)
		if err != nil {
			t.Fatal(err)
		}
		of.stopped.Store(true)
		unlock()
		of.stopped.Store(false)
		time.Sleep(cluster.DefaultLease) // a writes heartbeats
		observe(t, b)
		if !b.Lives(a.ID()) {
			t.Fatal("the holder is dead")
		}
		_, unlockB, err := cluster.NewLocks(b).Lock(t.Context(), "acme", "t1", false)
		if err != nil {
			t.Fatalf("Lock by another member: %v", err)
		}
		unlockB()
	})
}

// A member that was alone has locks without entries: another one that comes waits for them.
func TestALockOfAMemberThatWasAloneIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		a := join(t, store, nil)
		err := a.Subscribe(t.Context(), cluster.JoinedTopic, func() { observe(t, a) })
		if err != nil {
			t.Fatal(err)
		}
		ofA := cluster.NewLocks(a)
		_, unlock, err := ofA.Lock(t.Context(), "acme", "t1", true)
		if err != nil {
			t.Fatal(err)
		}
		_, released, err := ofA.Lock(t.Context(), "acme", "t2", true)
		if err != nil {
			t.Fatal(err)
		}
		released()
		b := join(t, store, nil)
		observe(t, b)
		time.Sleep(time.Second) // a is told of it
		ofB := cluster.NewLocks(b)
		if _, _, err := ofB.Lock(t.Context(), "acme", "t1", false); !errors.Is(err, kv.ErrBusy) {
			t.Errorf("Lock by the one that came: %v, want busy", err)
		}
		if _, unlockB, err := ofB.Lock(t.Context(), "acme", "t2", false); err != nil {
			t.Errorf("Lock of what was released before: %v", err)
		} else {
			unlockB()
		}
		unlock()
		_, unlockB, err := ofB.Lock(t.Context(), "acme", "t1", false)
		if err != nil {
			t.Fatalf("Lock after the release: %v", err)
		}
		unlockB()
		if page, err := store.Scan(t.Context(), "acme", kv.Range{Limit: 1}); err != nil || len(page.Entries) > 0 {
			t.Errorf("the store has %d entries, %v", len(page.Entries), err)
		}
	})
}

// unsure is a driver that writes locks, calls release meanwhile, and does not say what
// became of them.
type unsure struct {
	kv.Driver
	release func()
}

func (d *unsure) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	release := d.release
	if release == nil || txs[0].Partition != "acme" {
		return d.Driver.Commit(ctx, txs...)
	}
	d.release = nil
	release()
	results := d.Driver.Commit(ctx, txs...)
	for i := range results {
		results[i] = kv.Result{Err: errors.Join(results[i].Err, kv.ErrInDoubt)}
	}
	return results
}

// A lock that is released while its entry is written is free for others also if it is not
// known whether the entry was written.
func TestALockReleasedBesideADoubtfulEntryIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &unsure{Driver: store}
		a := join(t, of, nil)
		_, unlock, err := cluster.NewLocks(a).Lock(t.Context(), "acme", "t1", true)
		if err != nil {
			t.Fatal(err)
		}
		of.release = unlock
		b := join(t, store, nil)
		observe(t, a)
		observe(t, b)
		_, unlockB, err := cluster.NewLocks(b).Lock(t.Context(), "acme", "t1", false)
		if err != nil {
			t.Fatalf("Lock by the one that came: %v", err)
		}
		unlockB()
	})
}
