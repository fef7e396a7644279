package kvtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// durableRules check the entries after Close and Open. Run skips them for a store that
// is not durable.
var durableRules = []rule{
	{"what was committed is there after reopening", func(t *testing.T, s Store) {
		d := open(t, s)
		kept := put(t, d, "kept", "v")
		put(t, d, "replaced", "v1")
		put(t, d, "replaced", "v2")
		put(t, d, "deleted", "v")
		del(t, d, "deleted")
		put(t, d, "empty", "")
		large := strings.Repeat("v", kv.MaxValueBytes)
		put(t, d, "large", large)
		for range 2 {
			d = reopen(t, s, d)
			if got := wantValue(t, d, "kept", "v"); got != kept {
				t.Errorf("revision after reopening = %d, want %d", got, kept)
			}
			wantValue(t, d, "replaced", "v2")
			wantValue(t, d, "empty", "")
			wantValue(t, d, "large", large)
			wantAbsent(t, d, "deleted")
		}
	}},
	{"conditions hold across reopening", func(t *testing.T, s Store) {
		d := open(t, s)
		old := put(t, d, "k", "v1")
		rev := put(t, d, "k", "v2")
		d = reopen(t, s, d)
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.AtRevision("k", old)}})
		wantIs(t, "Commit at the old revision", err, kv.ErrPrecondition)
		next := apply(t, d, kv.Tx{
			Partition: tenant,
			Conds:     []kv.Cond{kv.AtRevision("k", rev), kv.Fence("k", []byte("v2"))},
			Writes:    []kv.Write{kv.Put("k", []byte("v3"))},
		})
		if next <= rev {
			t.Errorf("revision after reopening = %d, want more than %d", next, rev)
		}
	}},
	{"a revision does not come back after delete, compact and reopen", func(t *testing.T, s Store) {
		d := open(t, s)
		last := uint64(0)
		for i := range 3 {
			rev := put(t, d, "k", "v")
			if rev <= last {
				t.Errorf("round %d: revision %d, but the key had %d before", i, rev, last)
			}
			for range 5 { // the store's last write is a deletion
				last = put(t, d, "k", "v")
				del(t, d, "k")
			}
			d = reopen(t, s, reopen(t, s, d))
			wantAbsent(t, d, "k")
		}
	}},
	{"deleted keys do not come back after compaction", deletedStayDeleted},
	{"partitions are apart after reopening", func(t *testing.T, s Store) {
		d := open(t, s)
		names := hostilePartitions()
		for _, p := range names {
			apply(t, d, kv.Tx{Partition: p, Writes: []kv.Write{kv.Put("k", []byte(p))}})
		}
		d = reopen(t, s, d)
		for _, p := range names {
			if all := everything(t, d, p); len(all) != 1 || string(all[0].Value) != p {
				t.Errorf("partition %.30q has %d entries, want its own alone", p, len(all))
			}
		}
	}},
}

// deletedStayDeleted writes, deletes and rewrites enough keys, with reopening
// and compaction in between, that old versions and the marks of their deletion
// end up in different files of an engine that merges files, and then looks for
// keys that should be gone.
func deletedStayDeleted(t *testing.T, s Store) {
	const n, rounds = 400, 4
	d := open(t, s)
	key := func(i int) kv.Key { return kv.NewKey("k").WithUint(uint64(i)) }
	want := map[kv.Key]string{}
	for round := range rounds {
		tx := kv.Tx{Partition: tenant}
		for i := range n {
			// Each round writes a third of the keys and deletes another.
			switch (i + round) % 3 {
			case 0:
				want[key(i)] = fmt.Sprintf("%d in round %d %s", i, round, strings.Repeat("x", 500))
				tx.Writes = append(tx.Writes, kv.Put(key(i), []byte(want[key(i)])))
			case 1:
				delete(want, key(i))
				tx.Writes = append(tx.Writes, kv.Delete(key(i)))
			}
		}
		apply(t, d, tx)
		d = reopen(t, s, d)
		wantEverything(t, d, want)
	}
	wipe := kv.Tx{Partition: tenant}
	for i := range n {
		wipe.Writes = append(wipe.Writes, kv.Delete(key(i)))
	}
	apply(t, d, wipe)
	for range 2 {
		d = reopen(t, s, d)
		wantEverything(t, d, nil)
	}
}

// wantEverything checks that tenant has exactly the entries of want, by Get and by Scan
// in both directions.
func wantEverything(t *testing.T, d kv.Driver, want map[kv.Key]string) {
	t.Helper()
	for k, v := range want {
		wantValue(t, d, k, v)
	}
	for _, reverse := range []bool{false, true} {
		var got []kv.Key
		for e, err := range kv.All(t.Context(), d, tenant, kv.Range{Reverse: reverse}) {
			if err != nil {
				t.Fatalf("All: %v", err)
			}
			if v, ok := want[e.Key]; !ok || v != string(e.Value) {
				t.Fatalf("Scan, reverse=%v, has %s = %.40q, want %.40q, %v", reverse, e.Key, e.Value, v, ok)
			}
			got = append(got, e.Key)
		}
		if slices.Sort(got); len(slices.Compact(got)) != len(want) {
			t.Fatalf("Scan, reverse=%v, has %d different keys, want %d", reverse, len(got), len(want))
		}
	}
}
