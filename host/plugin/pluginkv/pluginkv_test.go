package pluginkv_test

// Scenario: stores in memory and on disk, several of them on one driver, serve plugins
// through restarts, write batches and driver errors.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/internal/testdir"
)

func TestMain(m *testing.M) {
	testdir.InMemory()
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		plugintest.TestStore(t, func(t *testing.T) plugin.Store { return pluginkv.New(memory(t), nil) })
	})
	t.Run("badger", func(t *testing.T) {
		plugintest.TestStore(t, func(t *testing.T) plugin.Store {
			return pluginkv.New(openBadger(t, t.TempDir()), nil)
		})
	})
}

func memory(t testing.TB) kv.Driver {
	d := kv.NewMemory()
	t.Cleanup(func() { closeDriver(t, d) })
	return d
}

func openBadger(t testing.TB, dir string) kv.Driver {
	t.Helper()
	d, err := badgerkv.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := kv.Group(d)
	t.Cleanup(func() { closeDriver(t, g) })
	return g
}

func closeDriver(t testing.TB, d kv.Driver) {
	if err := d.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

var (
	acme = plugin.Owner{Tenant: "acme", Plugin: "p"}
	room = plugin.PutOptions{Quota: 1 << 20}
)

// What was put before a restart is there after it, with its revision, its time
// and its share of the quota.
func TestRestart(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	first := openBadger(t, dir)
	s := pluginkv.New(first, nil)
	quota := plugin.PutOptions{Quota: 2 * plugin.ItemBytes("a", []byte("1"))}
	revision, err := s.Put(ctx, acme, "a", []byte("1"), quota)
	if err != nil {
		t.Fatal(err)
	}
	passed := quota
	passed.Expires = time.Now().Add(-time.Second)
	if _, err := s.Put(ctx, acme, "b", []byte("2"), passed); err != nil {
		t.Fatal(err)
	}
	closeDriver(t, first)

	s = pluginkv.New(openBadger(t, dir), nil)
	if it, err := s.Get(ctx, acme, "a"); err != nil || string(it.Value) != "1" || it.Revision != revision {
		t.Errorf("after a restart: %+v, %v; want 1 at revision %d", it, err, revision)
	}
	if _, err := s.Get(ctx, acme, "b"); host.CodeOf(err) != host.NotFound {
		t.Errorf("what had expired before the restart: %v", err)
	}
	if _, err := s.Put(ctx, acme, "c", []byte("3"), quota); err != nil {
		t.Errorf("put where something has expired: %v", err)
	}
	if _, err := s.Put(ctx, acme, "d", []byte("4"), quota); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("put beyond the quota: %v", err)
	}
}

// faultyDriver counts transactions and answers commits with an error.
type faultyDriver struct {
	kv.Driver
	txs    atomic.Int64
	before func() // each commit
	err    atomic.Pointer[error]
}

func (d *faultyDriver) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	d.txs.Add(int64(len(txs)))
	if d.before != nil {
		d.before()
	}
	if err := d.err.Load(); err != nil {
		return []kv.Result{{Err: *err}}
	}
	return d.Driver.Commit(ctx, txs...)
}

// What many write for one owner while one write is under way is one transaction.
func TestWritesAreBatched(t *testing.T) {
	const writers = 50
	begun, goOn := make(chan struct{}), make(chan struct{})
	d := &faultyDriver{Driver: memory(t)}
	var once sync.Once
	d.before = func() { once.Do(func() { close(begun); <-goOn }) }
	s := pluginkv.New(d, nil)
	var wg sync.WaitGroup
	put := func(key string) {
		wg.Go(func() {
			if _, err := s.Put(t.Context(), acme, key, []byte("v"), room); err != nil {
				t.Error(err)
			}
		})
	}
	put("first")
	<-begun
	for i := range writers {
		put(fmt.Sprint(i))
	}
	for s.Waiting(acme) < writers {
		runtime.Gosched() // until all stand in line
	}
	close(goOn)
	wg.Wait()
	if n := d.txs.Load(); n != 2 {
		t.Errorf("%d writes took %d transactions, want 2", writers+1, n)
	}
	if items, _, err := s.List(t.Context(), acme, plugin.ListOptions{Limit: 100, MaxBytes: 1 << 20}); len(items) != writers+1 || err != nil {
		t.Errorf("there are %d items, %v", len(items), err)
	}
	if n := s.Lines(); n != 0 {
		t.Errorf("%d owners are remembered", n)
	}
}

// Two stores on one driver, as two processes may be, do not lose each other's
// writes, and the quota holds over both.
func TestSeveralStores(t *testing.T) {
	d := memory(t)
	var wg sync.WaitGroup
	var fitted atomic.Int64
	quota := plugin.PutOptions{Quota: 100 * plugin.ItemBytes("0-00", nil)}
	for i := range 4 {
		s := pluginkv.New(d, nil)
		wg.Go(func() {
			for n := range 40 {
				_, err := s.Put(t.Context(), acme, fmt.Sprintf("%d-%02d", i, n), nil, quota)
				switch {
				case err == nil:
					fitted.Add(1)
				case host.CodeOf(err) != host.ResourceExhausted && host.CodeOf(err) != host.Unavailable:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	items, _, err := pluginkv.New(d, nil).List(t.Context(), acme, plugin.ListOptions{Limit: 1000, MaxBytes: 1 << 20})
	if int64(len(items)) != fitted.Load() || len(items) > 100 || err != nil {
		t.Errorf("%d puts were acknowledged, and there are %d items, %v; the quota is 100", fitted.Load(), len(items), err)
	}
}

// An error of the driver is one of a plugin's store, to everybody who waits, and
// the next write goes on.
func TestDriverErrors(t *testing.T) {
	for _, row := range []struct {
		err  error
		want host.Code
	}{
		{kv.ErrNoSpace, host.Unavailable}, {kv.ErrInDoubt, host.Unavailable}, {kv.ErrClosed, host.Unavailable},
		{kv.ErrPrecondition, host.Unavailable}, {kv.ErrReadOnly, host.FailedPrecondition}, {errors.New("?"), host.Internal},
	} {
		d := &faultyDriver{Driver: memory(t)}
		s := pluginkv.New(d, nil)
		failing := fmt.Errorf("commit: %w", row.err)
		d.err.Store(&failing)
		if _, err := s.Put(t.Context(), acme, "a", []byte("v"), room); host.CodeOf(err) != row.want {
			t.Errorf("%v is %v, want %s", row.err, err, row.want)
		}
		d.err.Store(nil)
		if _, err := s.Put(t.Context(), acme, "a", []byte("v"), room); err != nil {
			t.Errorf("after %v: %v", row.err, err)
		}
	}
}

func TestNamesThatAreTooLong(t *testing.T) {
	s := pluginkv.New(memory(t), nil)
	for _, o := range []plugin.Owner{{Tenant: strings.Repeat("x", 300), Plugin: "p"}, {Tenant: "t", Plugin: strings.Repeat("\x00", 300)}} {
		if _, err := s.Put(t.Context(), o, "a", nil, room); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("put: %v", err)
		}
		if _, err := s.Get(t.Context(), o, "a"); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("get: %v", err)
		}
		if _, _, err := s.List(t.Context(), o, plugin.ListOptions{Limit: 1}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("list: %v", err)
		}
	}
}

// Whoever leaves an owner's items leaves nothing in the store.
func TestNothingIsLeft(t *testing.T) {
	d := memory(t)
	now := time.Now()
	s := pluginkv.New(d, &pluginkv.Options{Now: func() time.Time { return now }})
	timed := room
	for i := range 500 {
		timed.Expires = now.Add(time.Duration(i) * time.Second)
		if _, err := s.Put(t.Context(), acme, fmt.Sprint(i), []byte("v"), timed); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	if items, more, err := s.List(t.Context(), acme, plugin.ListOptions{Limit: 10, MaxBytes: 1 << 20}); len(items) > 0 || more || err != nil {
		t.Errorf("after their time there are %d items, %v, %v", len(items), more, err)
	}
	for e, err := range kv.All(t.Context(), d, "acme", kv.Range{}) {
		t.Errorf("%s is left (%v)", e.Key, err)
	}
}

// BenchmarkStore is writes of many at the same time, of one owner and of many,
// beside the driver itself.
func BenchmarkStore(b *testing.B) {
	value := make([]byte, 1000)
	for _, owners := range []int{1, 64} {
		b.Run(fmt.Sprintf("put by 64 for %d", owners), func(b *testing.B) {
			s := pluginkv.New(openBadger(b, b.TempDir()), nil)
			var n atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					owner := plugin.Owner{Tenant: fmt.Sprint(i % int64(owners)), Plugin: "p"}
					if _, err := s.Put(b.Context(), owner, fmt.Sprint(i%1000), value, plugin.PutOptions{Quota: 1 << 30}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
	b.Run("driver by 64", func(b *testing.B) {
		d := openBadger(b, b.TempDir())
		var n atomic.Int64
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := n.Add(1)
				if _, err := kv.Apply(b.Context(), d, kv.Tx{Partition: fmt.Sprint(i % 64), Writes: []kv.Write{kv.Put(kv.NewKey(fmt.Sprint(i%1000)), value)}}); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
