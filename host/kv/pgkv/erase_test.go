package pgkv_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// fill writes n entries into a partition.
func fill(t testing.TB, d kv.Driver, partition string, n int) {
	t.Helper()
	for batch := range slices.Chunk(make([]struct{}, n), kv.MaxTxWrites) {
		tx := kv.Tx{Partition: partition}
		n -= len(batch)
		for i := range batch {
			tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("k").WithUint(uint64(n+i)), []byte("v")))
		}
		if _, err := kv.Apply(t.Context(), d, tx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEraseRemovesEveryRowOfAPartition(t *testing.T) {
	s := mustOpen(t, pgkvtest.Address(t), nil)
	fill(t, s, "leaves", 2500)
	fill(t, s, "stays", 40)
	before := mustPut(t, s, "leaves", "last", "v")
	if p, err := s.Prove(t.Context(), "leaves"); err != nil || p.Gone() || p.Found != 2501 || p.Readable != 2501 || p.Scanned != 2541 || p.Bytes == 0 || p.Tables < 5 {
		t.Fatalf("Prove before = %+v, %v", p, err)
	}
	if err := s.Erase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	p, err := s.Prove(t.Context(), "leaves")
	if err != nil || !p.Gone() || p.Scanned != 40 || p.ErasedAt == nil {
		t.Errorf("Prove after = %+v, %v, want it gone", p, err)
	}
	if p, err := s.Prove(t.Context(), "stays"); err != nil || p.Found != 40 || p.Readable != 40 || p.ErasedAt != nil {
		t.Errorf("Prove of the other = %+v, %v", p, err)
	}
	if after := mustPut(t, s, "leaves", "last", "v"); after <= before {
		t.Errorf("revision after the erasure = %d, before %d", after, before)
	}
}

func TestAnErasureThatHasBegunHidesThePartitionFromAllStores(t *testing.T) {
	address := pgkvtest.Address(t)
	s, other := mustOpen(t, address, nil), mustOpen(t, address, nil)
	fill(t, s, "leaves", 10)
	for range 2 { // marking a marked partition is no error
		if err := s.BeginErase(t.Context(), "leaves"); err != nil {
			t.Fatal(err)
		}
	}
	for name, d := range map[string]kv.Driver{"its own store": s, "another store": other} {
		if _, err := d.Get(t.Context(), "leaves", kv.NewKey("k").WithUint(1)); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s: Get = %v, want ErrNotFound", name, err)
		}
		if page, err := d.Scan(t.Context(), "leaves", kv.Range{}); err != nil || len(page.Entries) > 0 {
			t.Errorf("%s: Scan = %v, %v, want an empty page", name, page, err)
		}
		for _, tx := range []kv.Tx{
			{Partition: "leaves", Writes: []kv.Write{kv.Put("k", nil)}},
			{Partition: "leaves", Conds: []kv.Cond{kv.Absent("k")}},
		} {
			if _, err := kv.Apply(t.Context(), d, tx); !errors.Is(err, kv.ErrErasing) {
				t.Errorf("%s: Commit of %d writes = %v, want ErrErasing", name, len(tx.Writes), err)
			}
		}
	}
	if names, err := other.Erasing(t.Context()); err != nil || !slices.Equal(names, []string{"leaves"}) {
		t.Errorf("Erasing = %q, %v", names, err)
	}
	if p, err := other.Prove(t.Context(), "leaves"); err != nil || p.Gone() || !p.Erasing || p.Readable != 0 || p.Found != 10 {
		t.Errorf("Prove = %+v, %v", p, err)
	}
	if err := other.Erase(t.Context(), "leaves"); err != nil { // another process completes it
		t.Fatal(err)
	}
	if names, err := s.Erasing(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("Erasing afterwards = %q, %v", names, err)
	}
	mustPut(t, s, "leaves", "k", "again")
}

// Another erasure of the partition may end while one begins.
func TestAnErasureBeginsBesideTheEndOfAnother(t *testing.T) {
	address := pgkvtest.Address(t)
	other := mustOpen(t, address, nil)
	mustPut(t, other, "leaves", "k", "v")
	var once sync.Once
	s := mustOpen(t, address, &pgkv.Options{OnStatement: func(sql string) {
		if strings.Contains(sql, "set erasing = true") {
			once.Do(func() {
				if err := other.Erase(t.Context(), "leaves"); err != nil {
					t.Error(err)
				}
			})
		}
	}})
	if err := s.Erase(t.Context(), "leaves"); err != nil {
		t.Errorf("Erase = %v", err)
	}
	if p, err := s.Prove(t.Context(), "leaves"); err != nil || !p.Gone() {
		t.Errorf("Prove = %+v, %v", p, err)
	}
}

// Writers of two stores write while the partition is erased again and again. After each
// erasure nothing older than it is there.
func TestErasureWhileOthersWriteLeavesNothingOlder(t *testing.T) {
	address := pgkvtest.Address(t)
	s := mustOpen(t, address, nil)
	var acknowledged [4]atomic.Int64 // the last number that each writer knows to be written
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range acknowledged {
		d := mustOpen(t, address, nil)
		writers.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				_, err := kv.Apply(ctx, d, kv.Tx{Partition: "p", Writes: []kv.Write{kv.Put(kv.NewKey("w").WithUint(uint64(w)).WithUint(uint64(n)), nil)}})
				if err == nil {
					acknowledged[w].Store(n)
				}
				if err != nil && ctx.Err() == nil && !errors.Is(err, kv.ErrErasing) {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	for range 20 {
		var before [len(acknowledged)]int64
		for w := range before {
			before[w] = acknowledged[w].Load()
		}
		if err := s.BeginErase(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if err := s.Erase(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.All(t.Context(), s, "p", kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			rest, _ := e.Key.CutPrefix(kv.NewKey("w"))
			w, rest, _ := rest.CutUint()
			n, _, ok := rest.CutUint()
			if !ok || int64(n) <= before[w] {
				t.Errorf("entry %d of writer %d is left, and %d was written before the erasure", n, w, before[w])
			}
		}
	}
	stop()
	writers.Wait()
	if err := s.Erase(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Prove(t.Context(), "p"); err != nil || !p.Gone() || p.Scanned != 0 {
		t.Errorf("Prove at the end = %+v, %v", p, err)
	}
}
