package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

func join(t *testing.T, driver kv.Driver, opts *cluster.Options) *cluster.Member {
	t.Helper()
	m, err := cluster.New(driver, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func observe(t *testing.T, m *cluster.Member) (deaths int64) {
	t.Helper()
	deaths, err := m.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return deaths
}

// paused is a driver whose process can be stopped: no write of it reaches the store.
type paused struct {
	kv.Driver
	stopped atomic.Bool
}

func (p *paused) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if !p.stopped.Load() {
		return p.Driver.Commit(ctx, txs...)
	}
	out := make([]kv.Result, len(txs))
	for i := range out {
		out[i].Err = kv.ErrUnavailable
	}
	return out
}

func TestAMemberIsDeadAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		a := join(t, of, &cluster.Options{ID: "a", Address: "10.0.0.1:7", Version: "1"})
		b := join(t, store, &cluster.Options{ID: "b"})
		for range 30 {
			if observe(t, b) != 0 || !b.Lives("a") || !b.Lives("b") {
				t.Fatal("a member that writes heartbeats is taken for dead")
			}
			time.Sleep(b.Interval())
		}
		if peers := b.Peers(); len(peers) != 1 || peers[0].ID != "a" || peers[0].Address != "10.0.0.1:7" || peers[0].Version != "1" {
			t.Errorf("Peers = %+v, want a with its address", peers)
		}
		of.stopped.Store(true)
		died := time.Now()
		for observe(t, b) == 0 {
			time.Sleep(b.Interval())
		}
		if took := time.Since(died); took < cluster.DefaultLease-time.Second || took > cluster.DefaultLease+3*b.Interval() {
			t.Errorf("a death was seen after %s, with a lease of %s", took, cluster.DefaultLease)
		}
		if gone, err := b.Gone(t.Context(), "a"); err != nil || !gone || b.Lives("a") || len(b.Peers()) > 0 {
			t.Errorf("Gone = %t, %v; Lives = %t", gone, err, b.Lives("a"))
		}
		of.stopped.Store(false) // the process runs again, and is a member again
		time.Sleep(2 * a.Interval())
		if observe(t, b); !b.Lives("a") {
			t.Error("a member that came back is not seen")
		}
	})
}

func TestAMemberThatLeavesIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		a, b := join(t, store, nil), join(t, store, nil)
		if observe(t, b); !b.Lives(a.ID()) || !b.Shared() {
			t.Fatal("b does not see a")
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if deaths := observe(t, b); deaths != 1 || b.Lives(a.ID()) {
			t.Errorf("%d deaths, lives %t; want that a has left", deaths, b.Lives(a.ID()))
		}
		if err := a.Register(t.Context()); fault.CodeOf(err) != fault.Unavailable || !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Register after Close: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// A member of an earlier process whose record is old is dead if it writes none in the time
// of two heartbeats, which is sooner than its lease.
func TestAnOldRecordIsOfADeadMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		join(t, of, &cluster.Options{ID: "a"})
		of.stopped.Store(true)
		time.Sleep(time.Minute)
		b := join(t, store, nil)
		if gone, err := b.Gone(t.Context(), "a"); err != nil || gone {
			t.Errorf("before Observe: Gone = %t, %v; want that nothing is known", gone, err)
		}
		observe(t, b)
		time.Sleep(2*b.Interval() + time.Millisecond)
		observe(t, b)
		if gone, err := b.Gone(t.Context(), "a"); err != nil || !gone {
			t.Errorf("Gone = %t, %v; want true", gone, err)
		}
	})
}

// A member whose clock differs by an hour lives for one that begins after it.
func TestClocksThatDifferMakeNoMemberDead(t *testing.T) {
	for _, offset := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := kv.NewMemory()
			of := &paused{Driver: store}
			join(t, of, &cluster.Options{ID: "a", Now: func() time.Time { return time.Now().Add(offset) }})
			b := join(t, store, &cluster.Options{ID: "b"})
			for range 30 {
				if deaths := observe(t, b); deaths != 0 || !b.Lives("a") {
					t.Fatalf("a clock that differs by %s: %d deaths, lives %t", offset, deaths, b.Lives("a"))
				}
				time.Sleep(b.Interval())
			}
			of.stopped.Store(true)
			died := time.Now()
			for observe(t, b) == 0 {
				time.Sleep(b.Interval())
			}
			if took := time.Since(died); took > cluster.DefaultLease+3*b.Interval() {
				t.Errorf("a clock that differs by %s: a death was seen after %s", offset, took)
			}
		})
	}
}

func TestNewRefusesANegativeLease(t *testing.T) {
	if _, err := cluster.New(kv.NewMemory(), &cluster.Options{Lease: -1}); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("New: %v, want invalid_argument", err)
	}
}

// scans counts the readings of a driver.
type scans struct {
	kv.Driver
	n atomic.Int64
}

func (s *scans) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	s.n.Add(1)
	return s.Driver.Scan(ctx, partition, r)
}

func TestPartsThatWatchForDeathsReadTheHeartbeatsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of, counted := &paused{Driver: store}, &scans{Driver: store}
		a, b := join(t, of, nil), join(t, counted, nil)
		observe(t, b)
		var died [3]atomic.Int64 // when each part saw it
		stop := make(chan struct{})
		for i := range died {
			go func() {
				time.Sleep(time.Duration(i) * 77 * time.Millisecond)
				for {
					deaths, err := b.Deaths(t.Context())
					if err != nil {
						t.Error(err)
					}
					if deaths > 0 {
						died[i].CompareAndSwap(0, time.Now().UnixNano())
					}
					select {
					case <-stop:
						return
					case <-time.After(b.WatchInterval()):
					}
				}
			}()
		}
		before := counted.n.Load()
		time.Sleep(time.Minute)
		if n := counted.n.Load() - before; n > 81 {
			t.Errorf("%d readings in a minute by three parts, want at most 81: one in three quarters of an interval", n)
		}
		of.stopped.Store(true)
		begun := time.Now()
		time.Sleep(10 * time.Second)
		close(stop)
		synctest.Wait()
		for i := range died {
			took := time.Duration(died[i].Load() - begun.UnixNano())
			if most := cluster.DefaultLease + 2*b.Interval(); took <= 0 || took > most {
				t.Errorf("part %d saw the death of %s after %s, want at most %s", i, a.ID(), took, most)
			}
		}
	})
}
