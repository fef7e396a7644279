package kvtest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

var scanRules = []rule{
	{"scan is in byte order", func(t *testing.T, s Store) {
		d := open(t, s)
		for _, k := range slices.Backward(hostileKeys) {
			put(t, d, k, "")
		}
		wantScan(t, d, kv.Range{}, hostileKeys, false)
		backward := slices.Clone(hostileKeys)
		slices.Reverse(backward)
		wantScan(t, d, kv.Range{Reverse: true}, backward, false)
	}},
	{"scan keeps to the prefix", func(t *testing.T, s Store) {
		d := open(t, s)
		putAll(t, d, hostileKeys)
		for _, prefix := range append(slices.Clone(hostileKeys), "c", "a\xff\xff\xff", "\xff\xff\xff\xff") {
			var want []kv.Key
			for _, k := range hostileKeys {
				if strings.HasPrefix(string(k), string(prefix)) {
					want = append(want, k)
				}
			}
			wantScan(t, d, kv.Range{Prefix: prefix}, want, false)
			slices.Reverse(want)
			wantScan(t, d, kv.Range{Prefix: prefix, Reverse: true}, want, false)
		}
	}},
	{"scan begins with From or after After", func(t *testing.T, s Store) {
		d := open(t, s)
		putAll(t, d, []kv.Key{"a", "b", "c", "d"})
		wantScan(t, d, kv.Range{From: "b"}, []kv.Key{"b", "c", "d"}, false)
		wantScan(t, d, kv.Range{After: "b"}, []kv.Key{"c", "d"}, false)
		wantScan(t, d, kv.Range{From: "bb"}, []kv.Key{"c", "d"}, false)
		wantScan(t, d, kv.Range{After: "bb"}, []kv.Key{"c", "d"}, false)
		wantScan(t, d, kv.Range{From: "e"}, nil, false)
		wantScan(t, d, kv.Range{After: "d"}, nil, false)
		wantScan(t, d, kv.Range{From: "c", Reverse: true}, []kv.Key{"c", "b", "a"}, false)
		wantScan(t, d, kv.Range{After: "c", Reverse: true}, []kv.Key{"b", "a"}, false)
		wantScan(t, d, kv.Range{From: "bb", Reverse: true}, []kv.Key{"b", "a"}, false)
		wantScan(t, d, kv.Range{From: "A", Reverse: true}, nil, false)
		wantScan(t, d, kv.Range{After: "a", Reverse: true}, nil, false)
	}},
	{"From outside the prefix is where both hold", func(t *testing.T, s Store) {
		d := open(t, s)
		putAll(t, d, []kv.Key{"a", "b1", "b2", "c"})
		wantScan(t, d, kv.Range{Prefix: "b", From: "a"}, []kv.Key{"b1", "b2"}, false)
		wantScan(t, d, kv.Range{Prefix: "b", From: "c"}, nil, false)
		wantScan(t, d, kv.Range{Prefix: "b", From: "c", Reverse: true}, []kv.Key{"b2", "b1"}, false)
		wantScan(t, d, kv.Range{Prefix: "b", From: "a", Reverse: true}, nil, false)
		wantScan(t, d, kv.Range{Prefix: "b", After: "b2", Reverse: true}, []kv.Key{"b1"}, false)
	}},
	{"a page ends at the limit and says whether there is more", func(t *testing.T, s Store) {
		d := open(t, s)
		putAll(t, d, []kv.Key{"a", "b", "c"})
		wantScan(t, d, kv.Range{Limit: 2}, []kv.Key{"a", "b"}, true)
		wantScan(t, d, kv.Range{Limit: 3}, []kv.Key{"a", "b", "c"}, false)
		wantScan(t, d, kv.Range{Limit: 4}, []kv.Key{"a", "b", "c"}, false)
		wantScan(t, d, kv.Range{Limit: 2, Reverse: true}, []kv.Key{"c", "b"}, true)
		wantScan(t, d, kv.Range{Limit: 1, Prefix: "a"}, []kv.Key{"a"}, false)
		wantScan(t, d, kv.Range{Limit: 1, Prefix: "c", Reverse: true}, []kv.Key{"c"}, false)
	}},
	{"a range without limit has the default limit", func(t *testing.T, s Store) {
		d := open(t, s)
		var all []kv.Key
		for i := range uint64(kv.DefaultScanLimit + 1) {
			all = append(all, kv.Key("").WithUint(i))
		}
		putAll(t, d, all)
		wantScan(t, d, kv.Range{}, all[:kv.DefaultScanLimit], true)
		wantScan(t, d, kv.Range{Limit: kv.MaxScanLimit}, all, false)
	}},
	{"a page ends when its bytes do", bytesEndPage},
	{"the last entries of a log are one page", func(t *testing.T, s Store) {
		d := open(t, s)
		log, other := kv.NewKey("thread", "a", "log"), kv.NewKey("thread", "ab", "log")
		for i := range uint64(300) {
			putAll(t, d, []kv.Key{log.WithUint(i), other.WithUint(i)})
		}
		want := make([]kv.Key, 0, 50)
		for i := uint64(299); i >= 250; i-- {
			want = append(want, log.WithUint(i))
		}
		wantScan(t, d, kv.Range{Prefix: log, Reverse: true, Limit: 50}, want, true)
		wantScan(t, d, kv.Range{Prefix: log, Reverse: true, Limit: 50, From: log.WithUint(299)}, want, true)
		wantScan(t, d, kv.Range{Prefix: log, Reverse: true, Limit: 1, After: log.WithUint(250)}, []kv.Key{log.WithUint(249)}, true)
	}},
	{"thousands of keys in any order are found in order", manyKeys},
	{"pages joined are the whole", func(t *testing.T, s Store) {
		d := open(t, s)
		putAll(t, d, hostileKeys)
		for _, limit := range []int{1, 2, 7, len(hostileKeys), len(hostileKeys) + 1} {
			for _, reverse := range []bool{false, true} {
				var got []kv.Key
				for e, err := range kv.All(t.Context(), d, tenant, kv.Range{Limit: limit, Reverse: reverse}) {
					if err != nil {
						t.Fatalf("All: %v", err)
					}
					got = append(got, e.Key)
				}
				if reverse {
					slices.Reverse(got)
				}
				if !slices.Equal(got, hostileKeys) {
					t.Errorf("All with limit %d, reverse=%v = %q, want %q", limit, reverse, got, hostileKeys)
				}
			}
		}
	}},
	{"a loop over all may commit", func(t *testing.T, s Store) {
		d := open(t, s)
		putAll(t, d, hostileKeys)
		for e, err := range kv.All(t.Context(), d, tenant, kv.Range{Limit: 3}) {
			if err != nil {
				t.Fatalf("All: %v", err)
			}
			del(t, d, e.Key)
		}
		wantScan(t, d, kv.Range{}, nil, false)
	}},
}

// manyKeys writes keys in random order, deletes and replaces some, and compares every
// key and pages from random positions with a sorted list.
func manyKeys(t *testing.T, s Store) {
	const n = 3000
	d := open(t, s)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	key := func(i int) kv.Key { return kv.NewKey("k").WithUint(uint64(i)) }
	present := make([]bool, n)
	order := append(rnd.Perm(n), rnd.Perm(n)...)
	for batch := range slices.Chunk(order, 500) {
		tx := kv.Tx{Partition: tenant}
		for _, i := range slices.Compact(slices.Sorted(slices.Values(batch))) {
			present[i] = rnd.IntN(3) > 0
			w := kv.Put(key(i), nil)
			w.Delete = !present[i]
			tx.Writes = append(tx.Writes, w)
		}
		apply(t, d, tx)
	}
	var want []kv.Key
	for i, ok := range present {
		if ok {
			want = append(want, key(i))
		}
	}
	wantScanFrom(t, d, want, 0, n)
	for range 50 {
		wantScanFrom(t, d, want, rnd.IntN(len(want)), rnd.IntN(kv.MaxScanLimit)+1)
	}
}

// wantScanFrom checks pages that begin with want[i], in both directions.
func wantScanFrom(t *testing.T, d kv.Driver, want []kv.Key, i, limit int) {
	t.Helper()
	limit = min(limit, kv.MaxScanLimit)
	up := want[i:min(i+limit, len(want))]
	wantScan(t, d, kv.Range{From: want[i], Limit: limit}, up, i+limit < len(want))
	down := slices.Clone(want[max(0, i+1-limit) : i+1])
	slices.Reverse(down)
	wantScan(t, d, kv.Range{From: want[i], Limit: limit, Reverse: true}, down, i+1 > limit)
}

// bytesEndPage fills more than a page with the largest values.
func bytesEndPage(t *testing.T, s Store) {
	d := open(t, s)
	const n = kv.MaxScanBytes/kv.MaxValueBytes + 4
	value := strings.Repeat("v", kv.MaxValueBytes)
	var all []kv.Key
	for i := range uint64(n) {
		k := kv.Key("").WithUint(i)
		put(t, d, k, value)
		all = append(all, k)
	}
	page := scan(t, d, tenant, kv.Range{Limit: n})
	size := 0
	for _, e := range page.Entries {
		size += len(e.Key) + len(e.Value)
	}
	last := len(page.Entries[len(page.Entries)-1].Value) + len(all[0])
	if size < kv.MaxScanBytes || size-last >= kv.MaxScanBytes || !page.More {
		t.Errorf("page has %d entries of %d bytes, more=%v, want the entry that reaches %d bytes to be the last",
			len(page.Entries), size, page.More, kv.MaxScanBytes)
	}
	rest := scan(t, d, tenant, kv.Range{Limit: n}.Next(page))
	if got := append(keys(page), keys(rest)...); !slices.Equal(got, all) || rest.More {
		t.Errorf("two pages have %d keys, more=%v, want all %d", len(got), rest.More, len(all))
	}
}

// putAll stores keys of tenant with empty values in one Tx.
func putAll(t *testing.T, d kv.Driver, ks []kv.Key) {
	t.Helper()
	tx := kv.Tx{Partition: tenant}
	for _, k := range ks {
		tx.Writes = append(tx.Writes, kv.Put(k, nil))
	}
	apply(t, d, tx)
}

func wantScan(t *testing.T, d kv.Driver, r kv.Range, want []kv.Key, more bool) {
	t.Helper()
	page := scan(t, d, tenant, r)
	if got := keys(page); !slices.Equal(got, want) || page.More != more {
		t.Errorf("Scan(%+v) = %q more=%v, want %q more=%v", r, got, page.More, want, more)
	}
}

var partitionRules = []rule{
	{"a partition has its own keys", func(t *testing.T, s Store) {
		d := open(t, s)
		names := hostilePartitions()
		for _, p := range names {
			apply(t, d, kv.Tx{Partition: p, Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("k", []byte(p))}})
		}
		for _, p := range names {
			all := everything(t, d, p)
			if len(all) != 1 || all[0].Key != "k" || string(all[0].Value) != p {
				t.Errorf("partition %.30q has %d entries, want its own alone", p, len(all))
			}
		}
		apply(t, d, kv.Tx{Partition: names[0], Writes: []kv.Write{kv.Delete("k")}})
		for _, p := range names[1:] {
			if len(everything(t, d, p)) != 1 {
				t.Errorf("partition %.30q lost its entry to a delete in %q", p, names[0])
			}
		}
	}},
	{"where a partition ends is not in doubt", func(t *testing.T, s Store) {
		d := open(t, s)
		joined := "a\x00b\x01c\xffd"
		for i := 1; i < len(joined); i++ {
			p, k := joined[:i], kv.Key(joined[i:])
			apply(t, d, kv.Tx{Partition: p, Conds: []kv.Cond{kv.Absent(k)}, Writes: []kv.Write{kv.Put(k, []byte(p))}})
		}
		for i := 1; i < len(joined); i++ {
			p, k := joined[:i], kv.Key(joined[i:])
			for _, reverse := range []bool{false, true} {
				page := scan(t, d, p, kv.Range{Reverse: reverse})
				if len(page.Entries) != 1 || page.Entries[0].Key != k || string(page.Entries[0].Value) != p {
					t.Errorf("Scan of partition %q, reverse=%v, = %q, want %q", p, reverse, keys(page), k)
				}
			}
		}
	}},
	{"an unknown partition is empty", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		_, err := d.Get(t.Context(), "nobody", "k")
		wantIs(t, "Get", err, kv.ErrNotFound)
		if page := scan(t, d, "nobody", kv.Range{}); len(page.Entries) != 0 || page.More {
			t.Errorf("Scan = %q more=%v, want an empty page", keys(page), page.More)
		}
	}},
}

// hostilePartitions are names that an encoding could take for each other.
func hostilePartitions() []string {
	return []string{
		"a", "A", "a ", "ab", "abc", "a\x00", "a\x00\x00", "a\x00b", "a/b", "a/", "/", ".", "..", "\x00", "\x00\x00",
		"\x01", "\x01\x01a", "\xff", "\xff\xff", "é", "e\u0301", "%", "_", "k", "ak",
		strings.Repeat("a", kv.MaxPartitionBytes), strings.Repeat("a", kv.MaxPartitionBytes-1),
		strings.Repeat("\xff", kv.MaxPartitionBytes), strings.Repeat("\x00", kv.MaxPartitionBytes),
	}
}
