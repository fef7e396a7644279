package kvtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// The sizes of the rules of erasures. Engines keep a value of largeValue apart from others.
const (
	eraseKeys  = 20
	largeValue = 300 << 10
)

// other is a partition beside the one that is erased, which is tenant.
const other = "globex"

// eraserRules check a driver that is a [kv.Eraser]. Run skips them for another one.
var eraserRules = []rule{
	{"a partition that is being erased is empty and takes no writes", func(t *testing.T, s Store) {
		d := open(t, s)
		e := fillToErase(t, d)
		for range 2 { // marking it again is no error
			if err := e.BeginErase(t.Context(), tenant); err != nil {
				t.Fatalf("BeginErase: %v", err)
			}
		}
		wantBeingErased(t, d)
	}},
	{"an erasure removes its partition and no other", func(t *testing.T, s Store) {
		d := open(t, s)
		e := fillToErase(t, d)
		if p, err := e.Prove(t.Context(), tenant); err != nil || p.Gone() || p.Readable != eraseKeys {
			t.Errorf("Prove before = %+v, %v, want %d readable entries", p, err, eraseKeys)
		}
		wantErased(t, d)
		put(t, d, "again", "v")
		wantValue(t, d, "again", "v")
		if page := scan(t, d, tenant, kv.Range{}); len(page.Entries) != 1 {
			t.Errorf("the partition has %d entries, want the one that was written since", len(page.Entries))
		}
	}},
	{"erasures of one partition at once all end", func(t *testing.T, s Store) {
		d := open(t, s)
		e := fillToErase(t, d)
		var erasures sync.WaitGroup
		for range 3 {
			erasures.Go(func() {
				if err := e.Erase(t.Context(), tenant); err != nil {
					t.Errorf("Erase: %v", err)
				}
			})
		}
		erasures.Wait()
		wantErased(t, d)
	}},
	{"completing an erasure that has ended removes nothing", func(t *testing.T, s Store) {
		d := open(t, s)
		e := fillToErase(t, d)
		if err := e.BeginErase(t.Context(), tenant); err != nil {
			t.Fatalf("BeginErase: %v", err)
		}
		complete := func() { // by one of two processes, between which the partition is made again
			t.Helper()
			if err := e.CompleteErase(t.Context(), tenant); err != nil {
				t.Fatalf("CompleteErase: %v", err)
			}
		}
		complete()
		put(t, d, "again", "v")
		complete()
		wantValue(t, d, "again", "v")
		if page := scan(t, d, tenant, kv.Range{}); len(page.Entries) != 1 {
			t.Errorf("the partition has %d entries, want the one that was written since", len(page.Entries))
		}
		if err := e.CompleteErase(t.Context(), "none"); err != nil {
			t.Errorf("CompleteErase of no partition: %v", err)
		}
		wantOther(t, d)
	}},
	{"callers beside erasures find a partition erased or not", func(t *testing.T, s Store) {
		callersBesideErasures(t, s, 30, 1)
	}},
	{"callers with large values beside erasures find a partition erased or not", func(t *testing.T, s Store) {
		callersBesideErasures(t, s, 8, largeValue)
	}},
}

// durableEraserRules check erasures after Close and Open.
var durableEraserRules = []rule{
	{"an erasure that has begun stays begun after reopening", func(t *testing.T, s Store) {
		d := open(t, s)
		if err := fillToErase(t, d).BeginErase(t.Context(), tenant); err != nil {
			t.Fatalf("BeginErase: %v", err)
		}
		d = reopen(t, s, d)
		wantBeingErased(t, d)
		wantErased(t, d)
		wantErased(t, reopen(t, s, d))
	}},
}

// fillToErase writes to the partition that is to be erased and to another one.
func fillToErase(t *testing.T, d kv.Driver) kv.Eraser {
	t.Helper()
	for _, partition := range []string{tenant, other} {
		for i := range uint64(eraseKeys) {
			value := []byte("v")
			if i == 0 {
				value = bytes.Repeat(value, largeValue)
			}
			apply(t, d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(keyToErase(i), value)}})
		}
	}
	return d.(kv.Eraser)
}

func keyToErase(i uint64) kv.Key { return kv.NewKey("k").WithUint(i % eraseKeys) }

func wantBeingErased(t *testing.T, d kv.Driver) {
	t.Helper()
	e := d.(kv.Eraser)
	wantAbsent(t, d, keyToErase(1))
	if page := scan(t, d, tenant, kv.Range{}); len(page.Entries) > 0 {
		t.Errorf("Scan finds %d entries, want none", len(page.Entries))
	}
	for _, tx := range []kv.Tx{
		{Partition: tenant, Writes: []kv.Write{kv.Put("k", nil)}},
		{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}},
	} {
		_, err := kv.Apply(t.Context(), d, tx)
		wantIs(t, "a commit to a partition that is being erased", err, kv.ErrErasing)
	}
	if names, err := e.Erasing(t.Context()); err != nil || !slices.Equal(names, []string{tenant}) {
		t.Errorf("Erasing = %q, %v, want %q", names, err, tenant)
	}
	if p, err := e.Prove(t.Context(), tenant); err != nil || p.Gone() || p.Readable > 0 || !p.Erasing {
		t.Errorf("Prove = %+v, %v, want one that is being erased, of which nothing is readable", p, err)
	}
	wantOther(t, d)
}

// wantErased erases the partition.
func wantErased(t *testing.T, d kv.Driver) {
	t.Helper()
	e := d.(kv.Eraser)
	if err := e.Erase(t.Context(), tenant); err != nil {
		t.Fatalf("Erase: %v", err)
	}
	if p, err := e.Prove(t.Context(), tenant); err != nil || !p.Gone() || p.ErasedAt == nil {
		t.Errorf("Prove after = %+v, %v, want nothing of it and the time", p, err)
	}
	wantAbsent(t, d, keyToErase(1))
	if names, err := e.Erasing(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("Erasing = %q, %v, want none", names, err)
	}
	wantOther(t, d)
}

func wantOther(t *testing.T, d kv.Driver) {
	t.Helper()
	if page := scan(t, d, other, kv.Range{}); len(page.Entries) != eraseKeys {
		t.Errorf("the other partition has %d entries, want %d", len(page.Entries), eraseKeys)
	}
}

// callersBesideErasures has callers read and write a partition that is erased again and
// again, and another one in the same commits: writes are refused as long as it is being
// erased, and for no other reason, and what is read is what was written.
func callersBesideErasures(t *testing.T, s Store, rounds, size int) {
	d := open(t, s)
	e := d.(kv.Eraser)
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	value := bytes.Repeat([]byte("v"), size)
	for range 3 {
		callers.Go(func() {
			for i := uint64(0); ctx.Err() == nil; i++ {
				writes := []kv.Write{kv.Put(keyToErase(i), value)}
				results := d.Commit(context.Background(), kv.Tx{Partition: tenant, Writes: writes}, kv.Tx{Partition: other, Writes: writes})
				if err := results[0].Err; err != nil && !errors.Is(err, kv.ErrErasing) {
					t.Errorf("a write to the partition that is erased: %v, want none or kv.ErrErasing", err)
					return
				}
				if err := results[1].Err; err != nil {
					t.Errorf("a write to another partition: %v", err)
					return
				}
			}
		})
	}
	callers.Go(func() {
		for i := uint64(0); ctx.Err() == nil; i++ {
			if _, err := d.Get(context.Background(), tenant, keyToErase(i)); err != nil && !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("Get: %v, want an entry or kv.ErrNotFound", err)
				return
			}
			page, err := d.Scan(context.Background(), tenant, kv.Range{})
			if err != nil {
				t.Errorf("Scan: %v", err)
				return
			}
			for _, entry := range page.Entries {
				if _, written := entry.Key.CutPrefix(kv.NewKey("k")); !written || len(bytes.Trim(entry.Value, "v")) > 0 {
					t.Errorf("Scan finds %q, which no caller has written", entry.Key)
					return
				}
			}
		}
	})
	for range rounds {
		if err := e.Erase(t.Context(), tenant); err != nil {
			t.Errorf("Erase: %v", err)
		}
	}
	stop()
	callers.Wait()
}
