package threads_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// Where the device matters, set TMPDIR to what is to be measured: a directory in
// memory (/dev/shm) shows what is left without syncs. testdata/genkit has the same
// turns on Genkit's file store.

// benchDrivers are what a benchmark runs on.
func benchDrivers(b *testing.B, bench func(b *testing.B, d kv.Driver)) {
	b.Run("memory", func(b *testing.B) { bench(b, kv.NewMemory()) })
	b.Run("badger", func(b *testing.B) { bench(b, kv.Group(benchBadger(b))) })
	if os.Getenv(pgkvtest.Variable) != "" {
		b.Run("postgres", func(b *testing.B) { bench(b, kv.Group(benchPostgres(b))) })
	}
}

func benchBadger(b *testing.B) kv.Driver {
	b.Helper()
	d, err := badgerkv.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// benchPostgres returns a store that reports its statements.
func benchPostgres(b *testing.B) kv.Driver {
	b.Helper()
	return pgkvtest.Open(b, &pgkv.Options{OnStatement: func(string) { statements.Add(1) }})
}

// statements counts those that stores in PostgreSQL have sent.
var statements atomic.Int64

// BenchmarkTurn stores a question of 200 bytes, and its answer of 1 kB with state,
// on threads of different lengths. With load, the turn also reads its window of
// 2,000 messages first, as a run does.
func BenchmarkTurn(b *testing.B) {
	for _, c := range []struct {
		after int
		load  bool
	}{{10, false}, {100_000, false}, {2_000, true}, {100_000, true}} {
		b.Run(fmt.Sprintf("after=%d/load=%v", c.after, c.load), func(b *testing.B) {
			benchDrivers(b, func(b *testing.B, driver kv.Driver) {
				d := &spy{Driver: driver}
				s := threads.New(d, nil)
				threadtest.Fill(b, s, "t1", c.after)
				b.ReportAllocs()
				i := 0
				sent := statements.Load()
				bytes, _, _ := d.measure(func() {
					for b.Loop() {
						if c.load {
							threadtest.Load(b, s, "t1")
						}
						aTurn(b, s, "t1", i)
						i++
					}
				})
				b.ReportMetric(float64(bytes)/float64(i), "kvbytes/op")
				if sent = statements.Load() - sent; sent > 0 {
					b.ReportMetric(float64(sent)/float64(i), "statements/op")
				}
			})
		})
	}
}

// BenchmarkFirstTurn is BenchmarkTurn with a window of 2,000 messages that no turn has used
// since the store was opened.
func BenchmarkFirstTurn(b *testing.B) {
	benchDrivers(b, func(b *testing.B, d kv.Driver) {
		threadtest.Fill(b, threads.New(d, nil), "t1", 2000)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			s := threads.New(d, nil)
			threadtest.Load(b, s, "t1")
			aTurn(b, s, "t1", i)
			i++
		}
	})
}

// BenchmarkLast50 reads the end of a thread.
func BenchmarkLast50(b *testing.B) {
	for _, n := range []int{50, 100_000} {
		b.Run(fmt.Sprintf("of=%d", n), func(b *testing.B) {
			benchDrivers(b, func(b *testing.B, d kv.Driver) {
				s := threads.New(d, &threads.Options{Window: 50})
				threadtest.Fill(b, s, "t1", n)
				b.ReportAllocs()
				for b.Loop() {
					if got := len(threadtest.Load(b, s, "t1").Messages); got != 50 {
						b.Fatal(got)
					}
				}
			})
		})
	}
}

// BenchmarkFork forks a thread of 100,000 messages.
func BenchmarkFork(b *testing.B) {
	benchDrivers(b, func(b *testing.B, driver kv.Driver) {
		d := &spy{Driver: driver}
		s := threads.New(d, nil)
		threadtest.Fill(b, s, "t1", 100_000)
		i := 0
		bytes, _, _ := d.measure(func() {
			for b.Loop() {
				threadtest.Fork(b, s, "t1", fmt.Sprint(i), threads.At{})
				i++
			}
		})
		b.ReportMetric(float64(bytes)/float64(i), "kvbytes/op")
	})
}

// BenchmarkAppend has 64 threads append messages of 1 kB, synced: each commit by
// itself, and in the groups that the driver is given everywhere.
func BenchmarkAppend(b *testing.B) {
	const writers = 64
	text := strings.Repeat("x", 1024)
	for _, c := range []struct {
		name  string
		group func(kv.Driver) kv.Driver
	}{{"each by itself", func(d kv.Driver) kv.Driver { return d }}, {"in groups", kv.Group}} {
		b.Run(c.name, func(b *testing.B) {
			s := threads.New(c.group(benchBadger(b)), nil)
			var names atomic.Int64
			b.SetParallelism(max(1, writers/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				thread := fmt.Sprint("t", names.Add(1))
				for n := 0; pb.Next(); n++ {
					if _, err := s.AppendUserMessage(b.Context(), threadtest.Request(thread, "r", threadtest.WithID(fmt.Sprint(n), text))); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
