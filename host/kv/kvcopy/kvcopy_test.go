package kvcopy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvcopy"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
	"github.com/agenthost/agenthost/internal/testdir"
)

func TestMain(m *testing.M) {
	testdir.InMemory()
	goleak.VerifyTestMain(m)
}

// listed is memory that lists its partitions, and fails when it is asked to.
type listed struct {
	kv.Driver
	mu      sync.Mutex
	names   map[string]bool
	commits int // that are left before they fail; 0 is no bound
}

func newMemory() *listed { return &listed{Driver: kv.NewMemory(), names: map[string]bool{}} }

var errBroken = errors.New("the power is cut")

func (l *listed) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits > 0 {
		if l.commits--; l.commits == 0 {
			l.commits = 1
			return slices.Repeat([]kv.Result{{Err: errBroken}}, len(txs))
		}
	}
	for _, tx := range txs {
		l.names[tx.Partition] = true
	}
	return l.Driver.Commit(ctx, txs...)
}

func (l *listed) Partitions(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(l.names)) {
			page, err := l.Scan(ctx, name, kv.Range{Limit: 1})
			if err == nil && len(page.Entries) == 0 {
				continue
			}
			if !yield(name, err) || err != nil {
				return
			}
		}
	}
}

// fill writes entries of several partitions, sizes and kinds of keys.
func fill(t *testing.T, d kv.Driver) {
	t.Helper()
	checked := kv.Checked(d)
	put := func(d kv.Driver, partition string, key kv.Key, value []byte) {
		t.Helper()
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(key, value)}}); err != nil {
			t.Fatal(err)
		}
	}
	putMany := func(partition string, n int, value func(i int) []byte) {
		t.Helper()
		tx := kv.Tx{Partition: partition}
		for i := range n {
			tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("thread", "t").WithUint(uint64(i)), value(i)))
		}
		if _, err := kv.Apply(t.Context(), checked, tx); err != nil {
			t.Fatal(err)
		}
	}
	for _, partition := range []string{"acme", "b\x00c", "zoe"} {
		putMany(partition, 700, func(i int) []byte { return fmt.Appendf(nil, "message %d of %s", i, partition) })
		put(d, partition, kv.Key("raw\xff\x00"), []byte("without a digest"))
		put(d, partition, kv.NewKey("empty"), nil)
		for i := range 9 {
			put(checked, partition, kv.NewKey("blob").WithUint(uint64(i)), bytes.Repeat([]byte{byte(i), 7}, kv.MaxCheckedBytes/2-i))
		}
	}
}

// stored is everything that a store has.
func stored(t *testing.T, s kvcopy.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, err := range s.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.All(t.Context(), s, name, kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			out[name+"\x00\x00"+string(e.Key)] = string(e.Value)
		}
	}
	return out
}

func openBadger(t *testing.T, key []byte) kvcopy.Store {
	t.Helper()
	s, err := badgerkv.Open(t.TempDir(), &badgerkv.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestCopyIsTheSameOnEveryDriver(t *testing.T) {
	memory := func(*testing.T) kvcopy.Store { return newMemory() }
	badger := func(t *testing.T) kvcopy.Store { return openBadger(t, nil) }
	sealed := func(t *testing.T) kvcopy.Store { return openBadger(t, bytes.Repeat([]byte{5}, 32)) }
	postgres := func(t *testing.T) kvcopy.Store { return pgkvtest.Open(t, nil) }
	for name, pair := range map[string][2]func(*testing.T) kvcopy.Store{
		"from memory to memory":               {memory, memory},
		"from a directory to a directory":     {badger, badger},
		"from plain to encrypted":             {badger, sealed},
		"from encrypted to plain":             {sealed, badger},
		"from a directory to PostgreSQL":      {badger, postgres},
		"from PostgreSQL to a directory":      {postgres, sealed},
		"from one PostgreSQL schema to other": {postgres, postgres},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := pair[0](t), pair[1](t)
			fill(t, from)
			report, err := kvcopy.Copy(t.Context(), to, from, &kvcopy.Options{Source: "here"})
			if err != nil {
				t.Fatal(err)
			}
			want := stored(t, from)
			if got := stored(t, to); !maps.Equal(got, want) {
				t.Errorf("the copy has %d entries that differ from the source's %d", len(got), len(want))
			}
			if report.Entries != len(want) || report.Written != len(want) || report.Partitions != 3 || report.Deleted != 0 || report.Bytes < int64(3*9*(kv.MaxCheckedBytes-20)) {
				t.Errorf("report is %+v", report)
			}
			if _, unfinished, err := kvcopy.Unfinished(t.Context(), to); unfinished || err != nil {
				t.Errorf("the copy is unfinished: %v, %v", unfinished, err)
			}
		})
	}
}

// A copy whose target fails after any number of commits is resumed by copying again, and
// reports until then that it has not ended. What the source has lost meanwhile goes.
func TestCopyIsResumed(t *testing.T) {
	from, to := newMemory(), newMemory()
	fill(t, from)
	written, attempts := 0, 0
	for ; ; attempts++ {
		to.commits = 4
		report, err := kvcopy.Copy(t.Context(), to, from, &kvcopy.Options{Source: "here"})
		if err == nil {
			written = report.Written
			break
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		if source, unfinished, err := kvcopy.Unfinished(t.Context(), to); !unfinished || source != "here" || err != nil {
			t.Fatalf("after %d attempts the copy is unfinished: %v, of %q, %v", attempts+1, unfinished, source, err)
		}
		if attempts == 1 {
			lost := kv.NewKey("thread", "t").WithUint(0)
			if _, err := kv.Apply(t.Context(), from, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Delete(lost)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if attempts < 3 || written == 0 {
		t.Errorf("the copy needed %d attempts, and the last wrote %d entries", attempts, written)
	}
	if got, want := stored(t, to), stored(t, from); !maps.Equal(got, want) {
		t.Errorf("the copy has %d entries that differ from the source's %d", len(got), len(want))
	}
}

// A process that is killed after its copy has ended did not say so: the next copy does.
func TestCopyThatHasEndedIsComparedAgain(t *testing.T) {
	from, to := newMemory(), newMemory()
	fill(t, from)
	first, err := kvcopy.Copy(t.Context(), to, from, &kvcopy.Options{Source: "here"})
	if err != nil {
		t.Fatal(err)
	}
	to.commits = 1 // none
	second, err := kvcopy.Copy(t.Context(), to, from, &kvcopy.Options{Source: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if first.Written = 0; *second != *first {
		t.Errorf("the second copy reports %+v, and the first %+v", second, first)
	}
}

func TestCopyRefusesATargetWithData(t *testing.T) {
	from := newMemory()
	fill(t, from)
	for name, write := range map[string]kv.Tx{
		"another value":     {Partition: "zoe", Writes: []kv.Write{kv.Put(kv.NewKey("empty"), []byte("x"))}},
		"one entry more":    {Partition: "zoe", Writes: []kv.Write{kv.Put("zz", nil)}},
		"one entry less":    {Partition: "zoe", Writes: []kv.Write{kv.Delete(kv.NewKey("empty"))}},
		"another partition": {Partition: "zz", Writes: []kv.Write{kv.Put("zz", nil)}},
	} {
		to := newMemory()
		fill(t, to)
		if _, err := kv.Apply(t.Context(), to, write); err != nil {
			t.Fatal(err)
		}
		before := stored(t, to)
		if _, err := kvcopy.Copy(t.Context(), to, from, nil); !errors.Is(err, kvcopy.ErrNotEmpty) {
			t.Errorf("a target with %s: %v", name, err)
		}
		if !maps.Equal(stored(t, to), before) {
			t.Errorf("a target with %s was changed", name)
		}
	}
	other := newMemory()
	other.commits = 3
	if _, err := kvcopy.Copy(t.Context(), other, from, &kvcopy.Options{Source: "here"}); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	other.commits = 0
	if _, err := kvcopy.Copy(t.Context(), other, from, &kvcopy.Options{Source: "there"}); !errors.Is(err, kvcopy.ErrNotEmpty) {
		t.Errorf("a target with an unfinished copy of another source: %v", err)
	}
}

// A source that is written to while it is compared is found, and copying again takes over
// what was written.
func TestCopyFindsAWriterOfTheSource(t *testing.T) {
	from, to := newMemory(), newMemory()
	fill(t, from)
	write := sync.OnceFunc(func() {
		if _, err := kv.Apply(context.Background(), from, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("late", []byte("x"))}}); err != nil {
			t.Error(err)
		}
	})
	opts := &kvcopy.Options{Source: "here", Progress: func(p kvcopy.Progress) {
		if p.Entries > 700 { // the partition of the entry was copied
			write()
		}
	}}
	if _, err := kvcopy.Copy(t.Context(), to, from, opts); !errors.Is(err, kvcopy.ErrDiffers) {
		t.Errorf("a source that was written to: %v", err)
	}
	if _, unfinished, _ := kvcopy.Unfinished(t.Context(), to); !unfinished {
		t.Error("the copy counts as finished")
	}
	report, err := kvcopy.Copy(t.Context(), to, from, opts)
	if err != nil || report.Written != 1 {
		t.Errorf("copying again: %+v, %v", report, err)
	}
}

func TestCopyRefusesADamagedEntry(t *testing.T) {
	from, to := newMemory(), newMemory()
	fill(t, from)
	key := kv.NewKey("thread", "t").WithUint(5)
	e, err := from.Get(t.Context(), "zoe", key)
	if err != nil {
		t.Fatal(err)
	}
	e.Value[len(e.Value)-1] ^= 1
	if _, err := kv.Apply(t.Context(), from, kv.Tx{Partition: "zoe", Writes: []kv.Write{kv.Put(key, e.Value)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := kvcopy.Copy(t.Context(), to, from, nil); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a damaged entry: %v", err)
	}
}

func TestCopyEndsWithItsContext(t *testing.T) {
	from, to := newMemory(), newMemory()
	fill(t, from)
	ctx, cancel := context.WithCancel(t.Context())
	opts := &kvcopy.Options{Progress: func(kvcopy.Progress) { cancel() }}
	if _, err := kvcopy.Copy(ctx, to, from, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled copy: %v", err)
	}
}

var _ kvcopy.Store = (*pgkv.Store)(nil)
