package kvtest

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// The sizes of Benchmark.
const (
	benchWriters = 64
	benchValue   = 1 << 10
	benchLog     = 2000 // entries of the log to read
	benchPage    = 50
	benchGroup   = 64 // Txs in one Commit
)

// Benchmark measures the host's most frequent operations: appending a message to one of
// many logs under the revision of its head, committed alone and together with others;
// reading a key; reading the end of a log. newStore returns an empty store for each.
func Benchmark(b *testing.B, newStore func(b *testing.B) kv.Driver) {
	b.Run("append/writers=64", func(b *testing.B) { benchAppend(b, newStore(b)) })
	b.Run("append/grouped=64", func(b *testing.B) { benchGrouped(b, newStore(b)) })
	b.Run("get", func(b *testing.B) { benchGet(b, newStore(b)) })
	b.Run("scan/last=50", func(b *testing.B) { benchScan(b, newStore(b)) })
}

// benchThread is the head and the log of one thread.
type benchThread struct {
	head, log     kv.Key
	seq, revision uint64
}

func newBenchThread(n uint64) *benchThread {
	thread := kv.NewKey("thread", fmt.Sprintf("0199f3a2-%012d", n))
	return &benchThread{head: thread.With("head"), log: thread.With("log")}
}

// message is a value that compresses about as well as text does.
var message = bytes.Repeat([]byte("Where is order 1042? It was to come on Monday. "), benchValue/47+1)[:benchValue]

func (th *benchThread) next() kv.Tx {
	th.seq++
	return kv.Tx{
		Partition: tenant,
		Conds:     []kv.Cond{kv.AtRevision(th.head, th.revision)},
		Writes:    []kv.Write{kv.Put(th.head, fmt.Append(nil, th.seq)), kv.Put(th.log.WithUint(th.seq), message)},
	}
}

func benchAppend(b *testing.B, d kv.Driver) {
	var writers atomic.Uint64
	b.SetParallelism(max(1, benchWriters/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		th := newBenchThread(writers.Add(1))
		for pb.Next() {
			rev, err := kv.Apply(b.Context(), d, th.next())
			if err != nil {
				b.Error(err)
				return
			}
			th.revision = rev
		}
	})
	reportRate(b)
}

func benchGrouped(b *testing.B, d kv.Driver) {
	threads := make([]*benchThread, benchGroup)
	for i := range threads {
		threads[i] = newBenchThread(uint64(i))
	}
	txs := make([]kv.Tx, benchGroup)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += benchGroup {
		for i, th := range threads {
			txs[i] = th.next()
		}
		for i, res := range d.Commit(b.Context(), txs...) {
			if res.Err != nil {
				b.Fatal(res.Err)
			}
			threads[i].revision = res.Revision
		}
	}
	reportRate(b)
}

func reportRate(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// fillLog writes a log for reading.
func fillLog(b *testing.B, d kv.Driver) *benchThread {
	th := newBenchThread(0)
	for th.seq < benchLog {
		fill := kv.Tx{Partition: tenant}
		for range benchGroup {
			fill.Writes = append(fill.Writes, th.next().Writes[1])
		}
		apply(b, d, fill)
	}
	return th
}

func benchGet(b *testing.B, d kv.Driver) {
	th := fillLog(b, d)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n = n%th.seq + 1
		if _, err := d.Get(b.Context(), tenant, th.log.WithUint(n)); err != nil {
			b.Fatal(err)
		}
	}
}

func benchScan(b *testing.B, d kv.Driver) {
	th := fillLog(b, d)
	b.ReportAllocs()
	for b.Loop() {
		page, err := d.Scan(b.Context(), tenant, kv.Range{Prefix: th.log, Reverse: true, Limit: benchPage})
		if err != nil || len(page.Entries) != benchPage {
			b.Fatalf("Scan = %d entries, %v, want %d", len(page.Entries), err, benchPage)
		}
	}
}
