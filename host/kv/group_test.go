package kv_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
)

func TestGroup(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kvtest.Store {
		return kvtest.Store{Open: func() (kv.Driver, error) { return kv.Group(kv.NewMemory()), nil }}
	})
}

// slow is a driver whose commits begin when they are let.
type slow struct {
	kv.Driver
	next   chan struct{}
	panics bool

	mu      sync.Mutex
	commits [][]string // the partitions of each
}

func newSlow() *slow { return &slow{Driver: kv.NewMemory(), next: make(chan struct{})} }

func (s *slow) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	<-s.next
	var partitions []string
	for _, tx := range txs {
		partitions = append(partitions, tx.Partition)
	}
	s.mu.Lock()
	s.commits = append(s.commits, partitions)
	s.mu.Unlock()
	if s.panics {
		panic("the driver is broken")
	}
	return s.Driver.Commit(ctx, txs...)
}

func txOf(partition string, n int) kv.Tx {
	return kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(kv.NewKey("k").WithUint(uint64(n)), []byte("v"))}}
}

func TestGroupsGatherWhileOneIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow()
		d := kv.Group(s)
		var writers sync.WaitGroup
		write := func(partition string, n int) {
			writers.Go(func() {
				if _, err := kv.Apply(t.Context(), d, txOf(partition, n)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		write("a", 0)
		for i := range kv.MaxCommitTxs + 1 {
			write("a", i+1)
		}
		write("b", 0)
		close(s.next)
		writers.Wait()
		if len(s.commits) != 3 || len(s.commits[0]) != 1 || len(s.commits[1]) != kv.MaxCommitTxs || len(s.commits[2]) != 2 {
			t.Fatalf("%d commits", len(s.commits))
		}
		if s.commits[1][1] != "b" {
			t.Errorf("the group begins with %v; partitions do not take turns", s.commits[1][:3])
		}
	})
}

func TestWhoLeavesAGroupWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow()
		d := kv.Group(s)
		var writers sync.WaitGroup
		outcome := func(ctx context.Context, n int, want error) {
			writers.Go(func() {
				if _, err := kv.Apply(ctx, d, txOf("a", n)); !errors.Is(err, want) {
					t.Errorf("write %d: %v, want %v", n, err, want)
				}
			})
			synctest.Wait()
		}
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		outcome(first, 0, nil) // it is being written
		outcome(second, 1, context.Canceled)
		outcome(t.Context(), 2, nil)
		cancelFirst()
		cancelSecond()
		synctest.Wait()
		s.next <- struct{}{}
		close(s.next)
		writers.Wait()
		for n, want := range []error{nil, kv.ErrNotFound, nil} {
			if _, err := d.Get(t.Context(), "a", kv.NewKey("k").WithUint(uint64(n))); !errors.Is(err, want) {
				t.Errorf("read %d: %v, want %v", n, err, want)
			}
		}
	})
}

// Who is told to write, and leaves, tells somebody else.
func TestGroupsGoOnWhenTheirWriterLeaves(t *testing.T) {
	driver := kv.NewMemory()
	defer driver.Close()
	d := kv.Group(driver)
	var writers sync.WaitGroup
	for i := range 64 {
		writers.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%3 == 0 {
					go cancel()
				}
				_, err := kv.Apply(ctx, d, txOf(fmt.Sprint("p", i%5), i*50+n))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	writers.Wait()
	if _, err := kv.Apply(t.Context(), d, txOf("a", 0)); err != nil {
		t.Error(err)
	}
}

func TestADriverThatPanicsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow()
		s.panics = true
		d := kv.Group(s)
		var writers sync.WaitGroup
		for n := range 5 {
			writers.Go(func() {
				defer func() { _ = recover() }()
				if _, err := kv.Apply(t.Context(), d, txOf("a", n)); !errors.Is(err, kv.ErrInDoubt) {
					t.Errorf("write %d: %v, want ErrInDoubt", n, err)
				}
			})
			synctest.Wait()
		}
		close(s.next)
		writers.Wait()
	})
}

// syncing takes a moment for a commit, as a store that syncs does, and counts them.
type syncing struct {
	kv.Driver
	commits atomic.Int64
}

func (s *syncing) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	s.commits.Add(1)
	time.Sleep(time.Millisecond)
	return s.Driver.Commit(ctx, txs...)
}

// Writers that each commit again as soon as their last commit is written form one group,
// not one of the first of them and one of the others. With one processor the order in
// which they come back is certain.
func TestWritersOfAGroupComeBackAsOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		const writers, rounds = 64, 20
		s := &syncing{Driver: kv.NewMemory()}
		d := kv.Group(s)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for n := range rounds {
					tx := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(kv.NewKey("log", fmt.Sprint(i)).WithUint(uint64(n)), []byte("x"))}}
					if _, err := kv.Apply(t.Context(), d, tx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := s.commits.Load(); n > rounds+rounds/4 {
			t.Errorf("%d rounds of %d writers are %d groups", rounds, writers, n)
		}
	})
}
