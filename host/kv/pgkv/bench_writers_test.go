package pgkv_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

const (
	benchWriters   = 64
	groupedCommits = 100 * benchWriters // of a pass; each takes a fraction of a second
	singleCommits  = 5 * benchWriters
)

// BenchmarkWriters has 64 writers append 1 kB each, every one under the condition that
// its log is as it left it: to PostgreSQL in groups and each by itself, to Badger in groups
// with each write synced, and, as the limit of the server and its disk, the same rows by
// plain statements of 64 that check nothing: "rows" by one connection, "rows4" by four at
// once. The sides take turns, so that all have the machine as it is; figures and ratios are
// medians of their passes. They say something of a server with fsync.
func BenchmarkWriters(b *testing.B) {
	server := mustOpen(b, pgkvtest.Address(b), nil)
	local, err := badgerkv.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = local.Close() })
	var rows []*rowWriter
	for range 4 {
		rows = append(rows, newRowWriter(b))
	}
	sides := []struct {
		name string
		pass func() float64 // returns commits a second
	}{
		{"grouped", newWriters(kv.Group(server), "grouped").pass(b, groupedCommits)},
		{"single", newWriters(server, "single").pass(b, singleCommits)},
		{"badger", newWriters(kv.Group(local), "badger").pass(b, groupedCommits)},
		{"rows", func() float64 { return rows[0].pass(b, groupedCommits) }},
		{"rows4", func() float64 { return passAtOnce(b, rows, groupedCommits) }},
	}
	for _, side := range sides {
		side.pass() // the first one opens connections
	}
	rates := make([][]float64, len(sides))
	b.ResetTimer()
	for b.Loop() {
		for i, side := range sides {
			rates[i] = append(rates[i], side.pass())
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, side := range sides {
		b.ReportMetric(middle(rates[i]), side.name+"/s")
		ratios := make([]float64, len(rates[i]))
		for n := range ratios {
			ratios[n] = rates[0][n] / rates[i][n]
		}
		if i > 0 {
			b.ReportMetric(middle(ratios), "×"+side.name)
		}
	}
}

func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// writer appends to a log of its own.
type writer struct {
	partition string
	head, log kv.Key
	seq       uint64
	revision  uint64
}

// writers append to a store at once.
type writers struct {
	store kv.Driver
	all   []*writer
}

func newWriters(d kv.Driver, partition string) *writers {
	w := &writers{store: d}
	for i := range benchWriters {
		thread := kv.NewKey("thread", fmt.Sprint(i))
		w.all = append(w.all, &writer{partition: partition, head: thread.With("head"), log: thread.With("log")})
	}
	return w
}

// kilobyte compresses about as well as text does.
var kilobyte = bytes.Repeat([]byte("Where is order 1042? It was to come on Monday. "), 22)[:1<<10]

func (w *writer) append(ctx context.Context, d kv.Driver) error {
	w.seq++
	revision, err := kv.Apply(ctx, d, kv.Tx{
		Partition: w.partition,
		Conds:     []kv.Cond{kv.AtRevision(w.head, w.revision)},
		Writes:    []kv.Write{kv.Put(w.head, fmt.Append(nil, w.seq)), kv.Put(w.log.WithUint(w.seq), kilobyte)},
	})
	w.revision = revision
	return err
}

func (w *writers) pass(b *testing.B, commits int64) func() float64 {
	return func() float64 {
		var left atomic.Int64
		left.Store(commits)
		var all sync.WaitGroup
		begun := time.Now()
		for _, writer := range w.all {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					if err := writer.append(b.Context(), w.store); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return float64(commits) / time.Since(begun).Seconds()
	}
}

// rowWriter writes the rows that the writers' commits write without the store: the heads of
// 64 logs, and a new entry of each.
type rowWriter struct {
	conn  *pgx.Conn
	write string
	seq   int64
}

func newRowWriter(b *testing.B) *rowWriter {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), pgkvtest.Server(b))
	if err != nil {
		b.Fatal(err)
	}
	table := fmt.Sprintf("bench_rows_%d", time.Now().UnixNano())
	if _, err := conn.Exec(b.Context(), "create table "+table+" (k bytea primary key, v bytea not null)"); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_, _ = conn.Exec(context.Background(), "drop table "+table)
		_ = conn.Close(context.Background())
	})
	return &rowWriter{conn: conn, write: "insert into " + table + " select * from unnest($1::bytea[], $2::bytea[]) on conflict (k) do update set v = excluded.v"}
}

// pass writes the rows of as many commits in statements of 64 commits by one connection, and
// returns commits a second.
func (r *rowWriter) pass(b *testing.B, commits int) float64 {
	begun := time.Now()
	if err := r.append(b.Context(), commits); err != nil {
		b.Fatal(err)
	}
	return float64(commits) / time.Since(begun).Seconds()
}

func (r *rowWriter) append(ctx context.Context, commits int) error {
	var keys, values [][]byte
	for n := 0; n < commits; n += benchWriters {
		keys, values = keys[:0], values[:0]
		r.seq++
		for i := range benchWriters {
			keys = append(keys, fmt.Appendf(nil, "thread/%d/head", i), fmt.Appendf(nil, "thread/%d/log/%d", i, r.seq))
			values = append(values, fmt.Append(nil, r.seq), kilobyte)
		}
		if _, err := r.conn.Exec(ctx, r.write, keys, values); err != nil {
			return err
		}
	}
	return nil
}

// passAtOnce is pass of several connections, which share the commits.
func passAtOnce(b *testing.B, rows []*rowWriter, commits int) float64 {
	begun := time.Now()
	var all sync.WaitGroup
	for _, r := range rows {
		all.Go(func() {
			if err := r.append(b.Context(), commits/len(rows)); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	return float64(commits) / time.Since(begun).Seconds()
}
