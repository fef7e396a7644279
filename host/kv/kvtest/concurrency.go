package kvtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// The numbers of goroutines and repetitions. Every commit of a durable store is a sync.
const (
	goroutines = 8
	increments = 20
	pairReads  = 300
)

var concurrencyRules = []rule{
	{"increments under revisions lose nothing", func(t *testing.T, s Store) {
		d := open(t, s)
		hammer(t, func(int) error {
			return increment(t.Context(), d, func(e kv.Entry) kv.Cond { return kv.AtRevision("counter", e.Revision) })
		})
		wantValue(t, d, "counter", fmt.Sprint(goroutines*increments))
	}},
	{"increments under fences lose nothing", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "counter", "0")
		hammer(t, func(int) error {
			return increment(t.Context(), d, func(e kv.Entry) kv.Cond { return kv.Fence("counter", e.Value) })
		})
		wantValue(t, d, "counter", fmt.Sprint(goroutines*increments))
	}},
	{"of writers that want the same absent key one wins", func(t *testing.T, s Store) {
		d := open(t, s)
		var won [increments]atomic.Int32
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range increments {
					key := kv.NewKey("lock").WithUint(uint64(i))
					_, err := kv.Apply(t.Context(), d, kv.Tx{
						Partition: tenant, Conds: []kv.Cond{kv.Absent(key)}, Writes: []kv.Write{kv.Put(key, fmt.Append(nil, g))},
					})
					if err == nil {
						won[i].Add(1)
					} else if !errors.Is(err, kv.ErrPrecondition) {
						t.Errorf("goroutine %d, key %d: %v", g, i, err)
					}
				}
			})
		}
		wg.Wait()
		for i := range won {
			if n := won[i].Load(); n != 1 {
				t.Errorf("key %d was won %d times, want once", i, n)
			}
		}
	}},
	{"revisions of a key written by many are all different", func(t *testing.T, s Store) {
		d := open(t, s)
		var seen sync.Map
		hammer(t, func(int) error {
			rev, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("k", nil)}})
			if _, again := seen.LoadOrStore(rev, true); again && err == nil {
				t.Errorf("revision %d was given twice", rev)
			}
			return err
		})
	}},
	{"readers see a Tx whole", readersSeeWhole},
	{"a commit that has returned is seen", func(t *testing.T, s Store) {
		d := open(t, s)
		hammer(t, func(g int) error {
			key := kv.NewKey("own").WithUint(uint64(g))
			rev, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put(key, nil)}})
			if err != nil {
				return err
			}
			e, err := d.Get(t.Context(), tenant, key)
			if err == nil && e.Revision != rev {
				t.Errorf("goroutine %d reads revision %d after its commit of %d", g, e.Revision, rev)
			}
			page, err2 := d.Scan(t.Context(), tenant, kv.Range{Prefix: key})
			if err2 == nil && (len(page.Entries) != 1 || page.Entries[0].Revision != rev) {
				t.Errorf("goroutine %d scans %v after its commit of %d", g, page.Entries, rev)
			}
			return errors.Join(err, err2)
		})
	}},
}

// hammer calls f from many goroutines, increments times each. They begin together and
// yield between calls, because on a fast store the first would end before the last
// begins.
func hammer(t *testing.T, f func(goroutine int) error) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for g := range goroutines {
		wg.Go(func() {
			<-start
			for range increments {
				runtime.Gosched()
				if err := f(g); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
}

// increment adds one to the counter under the condition that guard makes of the
// entry it read (the zero Entry for a missing one), and repeats while others are
// faster. Of concurrent attempts one always succeeds, so this ends.
func increment(ctx context.Context, d kv.Driver, guard func(kv.Entry) kv.Cond) error {
	for {
		e, err := d.Get(ctx, tenant, "counter")
		if errors.Is(err, kv.ErrNotFound) {
			e = kv.Entry{Value: []byte("0")}
		} else if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(e.Value))
		if err != nil {
			return err
		}
		runtime.Gosched() // another goroutine may now write the entry
		_, err = kv.Apply(ctx, d, kv.Tx{
			Partition: tenant,
			Conds:     []kv.Cond{guard(e)},
			Writes:    []kv.Write{kv.Put("counter", fmt.Append(nil, n+1))},
		})
		if !errors.Is(err, kv.ErrPrecondition) {
			return err
		}
	}
}

// readersSeeWhole writes two keys always together, while other goroutines read them
// many times: a page never has one without the other.
func readersSeeWhole(t *testing.T, s Store) {
	d := open(t, s)
	done := make(chan struct{})
	var wrote, readers, writers sync.WaitGroup
	for w := range 2 {
		wrote.Add(1)
		writers.Go(func() {
			begun := sync.OnceFunc(wrote.Done)
			defer begun()
			if err := writePairs(t.Context(), d, begun, done); err != nil {
				t.Errorf("writer %d: %v", w, err)
			}
		})
	}
	wrote.Wait() // on a fast store the readers would end before the writers begin
	for range 2 {
		readers.Go(func() {
			for range pairReads {
				runtime.Gosched()
				page, err := d.Scan(t.Context(), tenant, kv.Range{})
				if err != nil {
					t.Errorf("Scan: %v", err)
					return
				}
				if n := len(page.Entries); n != 0 && (n != 2 || page.Entries[0].Revision != page.Entries[1].Revision) {
					t.Errorf("Scan found %v, want both keys of one Tx or none", page.Entries)
					return
				}
			}
		})
	}
	readers.Wait()
	close(done)
	writers.Wait()
}

// writePairs writes, and now and then deletes, two keys until done is closed. It calls begun after
// each write.
func writePairs(ctx context.Context, d kv.Driver, begun func(), done <-chan struct{}) error {
	for n := 1; ; n++ {
		select {
		case <-done:
			return nil
		default:
		}
		tx := kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("left", nil), kv.Put("right", nil)}}
		if n%5 == 0 {
			tx.Writes = []kv.Write{kv.Delete("left"), kv.Delete("right")}
		}
		if _, err := kv.Apply(ctx, d, tx); err != nil {
			return err
		}
		begun()
		runtime.Gosched()
	}
}
