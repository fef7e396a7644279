package badgerkv_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdir"
)

// mergeCounter is a log handler that counts the merges that the store asks Badger for,
// and calls exceeded once there are more than max.
type mergeCounter struct {
	merges, drops atomic.Int64
	max           int64
	exceeded      func()
}

func (c *mergeCounter) Enabled(context.Context, slog.Level) bool { return true }
func (c *mergeCounter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *mergeCounter) WithGroup(string) slog.Handler            { return c }

func (c *mergeCounter) Handle(_ context.Context, r slog.Record) error {
	switch {
	case strings.HasPrefix(r.Message, "Attempting to compact with "):
		if c.merges.Add(1) == c.max+1 {
			c.exceeded()
		}
	case strings.HasPrefix(r.Message, "DropPrefix called "):
		c.drops.Add(1)
	}
	return nil
}

// writeWithoutRest writes as fast as the store takes it, over the whole range of the
// keys of some partitions, until the caller calls the returned function.
func writeWithoutRest(t *testing.T, s kv.Driver) (stop func()) {
	stopped, writers := make(chan struct{}), sync.WaitGroup{}
	d, value := kv.Group(s), words(8000)
	for w := range uint64(8) {
		writers.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
				}
				key := kv.NewKey("w").WithUint(rand.Uint64N(10_000))
				if _, err := kv.Apply(context.Background(), d, kv.Tx{Partition: fmt.Sprintf("stays %d", w), Writes: []kv.Write{kv.Put(key, value)}}); err != nil {
					t.Errorf("a commit of another partition fails: %v", err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stopped)
		writers.Wait()
	})
}

// Writers that fill level 0 again before the tables below are merged keep neither an
// erasure nor a purge from its end.
func TestMergesEndWhileOthersWriteWithoutRest(t *testing.T) {
	longtest.Need(t, "it writes for a minute")
	const atMost = 300
	for name, remove := range map[string]func(context.Context, *badgerkv.Store) error{
		"an erasure": func(ctx context.Context, s *badgerkv.Store) error { return s.Erase(ctx, "leaves") },
		"a purge": func(ctx context.Context, s *badgerkv.Store) error {
			if err := kv.Remove(ctx, s, "leaves", kv.NewKey("k")); err != nil {
				return err
			}
			return s.Purge(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			count := &mergeCounter{max: atMost, exceeded: cancel}
			dir := testdir.OnDisk(t) // in memory, writers are faster than any disk lets them be
			s := mustOpen(t, dir, &badgerkv.Options{PurgeInterval: -1, Logger: slog.New(count)})
			fillTenants(t, s, 20_000, "leaves", "stays 0", "stays 1")
			stop := writeWithoutRest(t, s)
			defer stop()
			if err := remove(ctx, s); err != nil {
				t.Errorf("it ends with %v after %d merges", err, count.merges.Load())
			}
			t.Logf("%d merges, %d drops", count.merges.Load(), count.drops.Load())
			stop()
			if n := countMarkers(t, dir); n != 0 {
				t.Errorf("the files hold %d markers", n)
			}
		})
	}
}
