package kvtest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

var readWriteRules = []rule{
	{"get finds what was put", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		wantValue(t, d, "k", "v")
		wantAbsent(t, d, "other")
		wantAbsent(t, d, "k\x00")
	}},
	{"put replaces", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "long value")
		put(t, d, "k", "v2")
		wantValue(t, d, "k", "v2")
	}},
	{"an empty value is an entry", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "")
		wantValue(t, d, "k", "")
		if page := scan(t, d, tenant, kv.Range{}); len(page.Entries) != 1 {
			t.Errorf("Scan found %d entries, want the empty one", len(page.Entries))
		}
	}},
	{"delete removes", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		del(t, d, "k")
		wantAbsent(t, d, "k")
		if page := scan(t, d, tenant, kv.Range{}); len(page.Entries) != 0 || page.More {
			t.Errorf("Scan after delete = %v more=%v, want nothing", keys(page), page.More)
		}
	}},
	{"deleting what is not there is no error", func(t *testing.T, s Store) {
		d := open(t, s)
		del(t, d, "k")
		wantAbsent(t, d, "k")
	}},
	{"any bytes are a key and a value", func(t *testing.T, s Store) {
		d := open(t, s)
		for i, k := range hostileKeys {
			put(t, d, k, fmt.Sprint(i, k))
		}
		for i, k := range hostileKeys {
			wantValue(t, d, k, fmt.Sprint(i, k))
		}
	}},
	{"slices stay with the caller", notAliased},
}

// hostileKeys are prefixes and neighbours of each other, in ascending order.
var hostileKeys = []kv.Key{
	"\x00", "\x00\x00", "\x00\xff", "\x01", "!badger!txn", "a", "a\x00", "a\x00\x00", "a\x00b", "a\x01",
	"aa", "ab", "a\xfe", "a\xff", "a\xff\x00", "a\xff\xff", "b", "\xfe", "\xff", "\xff\xff", "\xff\xff\xff",
}

func notAliased(t *testing.T, s Store) {
	d := open(t, s)
	value, fence := []byte("value"), []byte("value")
	apply(t, d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("k", value)}})
	value[0] = 'X'
	wantValue(t, d, "k", "value")

	apply(t, d, kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Fence("k", fence)}})
	fence[0] = 'X'
	wantValue(t, d, "k", "value")

	e, err := d.Get(t.Context(), tenant, "k")
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	page := scan(t, d, tenant, kv.Range{})
	e.Value[0], page.Entries[0].Value[1] = 'Y', 'Z'
	wantValue(t, d, "k", "value")
	if got := string(page.Entries[0].Value); got != "vZlue" {
		t.Errorf("value of the page = %q, want %q: Get and Scan share it", got, "vZlue")
	}
	put(t, d, "k", "other")
	if got := string(e.Value); got != "Yalue" {
		t.Errorf("value that Get gave = %q after a later put, want %q", got, "Yalue")
	}
}

var revisionRules = []rule{
	{"a result has the revision that get and scan report", func(t *testing.T, s Store) {
		d := open(t, s)
		for i := range 3 {
			rev := apply(t, d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("a", nil), kv.Put("b", nil), kv.Delete("c")}})
			if got := wantValue(t, d, "a", ""); got != rev {
				t.Errorf("commit %d: Get(a) has revision %d, the result %d", i, got, rev)
			}
			for _, e := range scan(t, d, tenant, kv.Range{}).Entries {
				if e.Revision != rev {
					t.Errorf("commit %d: Scan has %s at revision %d, the result %d", i, e.Key, e.Revision, rev)
				}
			}
		}
	}},
	{"a revision stays until the key is written", func(t *testing.T, s Store) {
		d := open(t, s)
		rev := put(t, d, "k", "v")
		put(t, d, "other", "v")
		if got := wantValue(t, d, "k", "v"); got != rev {
			t.Errorf("revision = %d after a write of another key, want %d", got, rev)
		}
	}},
	{"every write has a greater revision", func(t *testing.T, s Store) {
		d := open(t, s)
		last := uint64(0)
		for i := range 5 {
			rev := put(t, d, "k", "same")
			if rev <= last {
				t.Errorf("write %d has revision %d, the one before %d", i, rev, last)
			}
			last = rev
			if i%2 == 1 {
				del(t, d, "k")
			}
		}
	}},
	{"a Tx without writes has revision 0", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		if rev := apply(t, d, kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Fence("k", []byte("v"))}}); rev != 0 {
			t.Errorf("revision = %d, want 0", rev)
		}
		if rev := apply(t, d, kv.Tx{Partition: tenant}); rev != 0 {
			t.Errorf("revision of an empty Tx = %d, want 0", rev)
		}
	}},
}

var condRules = []rule{
	{"absent holds without an entry", func(t *testing.T, s Store) {
		c := newConds(t, s)
		c.holds(kv.Absent("never"))
		c.holds(kv.Absent("deleted"))
		c.holds(kv.AtRevision("never", 0))
		c.fails(kv.Absent("k"), c.current)
		c.fails(kv.Absent("empty"), c.empty)
	}},
	{"at revision holds for the write it names", func(t *testing.T, s Store) {
		c := newConds(t, s)
		c.holds(kv.AtRevision("k", c.current))
		c.fails(kv.AtRevision("k", c.replaced), c.current)
		c.fails(kv.AtRevision("k", c.current+1), c.current)
		c.fails(kv.AtRevision("k", 1<<63-1), c.current)
		c.fails(kv.AtRevision("k", 1<<64-1), c.current)
		c.fails(kv.AtRevision("deleted", c.deleted), 0)
		c.fails(kv.AtRevision("never", 1), 0)
	}},
	{"fence holds for an equal value", func(t *testing.T, s Store) {
		c := newConds(t, s)
		c.holds(kv.Fence("k", []byte("v2")))
		c.holds(kv.Fence("empty", nil))
		c.holds(kv.Fence("empty", []byte{}))
		c.fails(kv.Fence("k", []byte("v1")), c.current)
		c.fails(kv.Fence("k", []byte("v")), c.current)
		c.fails(kv.Fence("k", []byte("v22")), c.current)
		c.fails(kv.Fence("k", nil), c.current)
		c.fails(kv.Fence("never", nil), 0)
		c.fails(kv.Fence("deleted", []byte("v")), 0)
	}},
	{"a revision does not come back with the value", func(t *testing.T, s Store) {
		d := open(t, s)
		rev := put(t, d, "k", "v")
		del(t, d, "k")
		put(t, d, "k", "v")
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.AtRevision("k", rev)}})
		wantIs(t, "Commit at the revision before the delete", err, kv.ErrPrecondition)
	}},
	{"the first condition that fails is named", func(t *testing.T, s Store) {
		d := open(t, s)
		rev := put(t, d, "k", "v")
		_, err := kv.Apply(t.Context(), d, kv.Tx{
			Partition: tenant,
			Conds:     []kv.Cond{kv.AtRevision("k", rev), kv.Fence("k", []byte("secret")), kv.AtRevision("k", rev+1)},
			Writes:    []kv.Write{kv.Put("new", nil)},
		})
		var pe *kv.PreconditionError
		if !errors.As(err, &pe) {
			t.Fatalf("Commit: error %v, want a *kv.PreconditionError", err)
		}
		if pe.Index != 1 || pe.Cond.Key != "k" || pe.Cond.Kind != kv.CondFence || pe.Cond.Value != nil || pe.Found != rev {
			t.Errorf("error = %+v, want condition 1 on k without its value, found %d", pe, rev)
		}
		wantAbsent(t, d, "new")
	}},
	{"conditions are of the partition of the Tx", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		apply(t, d, kv.Tx{Partition: "other", Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("k", nil)}})
	}},
	{"conditions see the keys the Tx writes as they were", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "old", "v")
		apply(t, d, kv.Tx{
			Partition: tenant,
			Conds:     []kv.Cond{kv.Absent("new"), kv.Fence("old", []byte("v"))},
			Writes:    []kv.Write{kv.Put("new", nil), kv.Delete("old")},
		})
		wantValue(t, d, "new", "")
		wantAbsent(t, d, "old")
	}},
	{"a Tx whose condition fails writes nothing", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "a", "a")
		put(t, d, "b", "b")
		_, err := kv.Apply(t.Context(), d, kv.Tx{
			Partition: tenant,
			Conds:     []kv.Cond{kv.Absent("b")},
			Writes:    []kv.Write{kv.Put("a", []byte("changed")), kv.Delete("b"), kv.Put("c", nil)},
		})
		wantIs(t, "Commit", err, kv.ErrPrecondition)
		wantValue(t, d, "a", "a")
		wantValue(t, d, "b", "b")
		wantAbsent(t, d, "c")
	}},
}

// conds is a store with keys of every history that a condition can meet.
type conds struct {
	t        *testing.T
	d        kv.Driver
	replaced uint64 // revision of the first write of k
	current  uint64 // of the second
	empty    uint64 // of the key "empty"
	deleted  uint64 // of the key "deleted" before it was deleted
}

func newConds(t *testing.T, s Store) *conds {
	c := &conds{t: t, d: open(t, s)}
	c.replaced = put(t, c.d, "k", "v1")
	c.current = put(t, c.d, "k", "v2")
	c.empty = put(t, c.d, "empty", "")
	c.deleted = put(t, c.d, "deleted", "v")
	del(t, c.d, "deleted")
	return c
}

func (c *conds) commit(cond kv.Cond) error {
	_, err := kv.Apply(c.t.Context(), c.d, kv.Tx{
		Partition: tenant, Conds: []kv.Cond{cond}, Writes: []kv.Write{kv.Put("witness", nil)},
	})
	return err
}

// holds checks that a Tx under cond commits.
func (c *conds) holds(cond kv.Cond) {
	c.t.Helper()
	if err := c.commit(cond); err != nil {
		c.t.Errorf("Commit under %+v: %v, want no error", cond, err)
	}
	del(c.t, c.d, "witness")
}

// fails checks that a Tx under cond does not commit, and the revision that the error
// reports.
func (c *conds) fails(cond kv.Cond, found uint64) {
	c.t.Helper()
	err := c.commit(cond)
	var pe *kv.PreconditionError
	if !errors.As(err, &pe) {
		c.t.Errorf("Commit under %+v: error %v, want a *kv.PreconditionError", cond, err)
		del(c.t, c.d, "witness")
		return
	}
	if pe.Index != 0 || pe.Found != found || pe.Cond.Key != cond.Key {
		c.t.Errorf("Commit under %+v: error %+v, want index 0 and found %d", cond, pe, found)
	}
	wantAbsent(c.t, c.d, "witness")
}

var commitRules = []rule{
	{"no Txs have no results", func(t *testing.T, s Store) {
		if res := open(t, s).Commit(t.Context()); len(res) != 0 {
			t.Errorf("Commit() = %v, want no results", res)
		}
	}},
	{"a failed Tx takes no other with it", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "taken", "v")
		res := d.Commit(t.Context(),
			kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("a", nil)}},
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("taken")}, Writes: []kv.Write{kv.Put("b", nil)}},
			kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("", nil)}},
			kv.Tx{Partition: "other", Writes: []kv.Write{kv.Put("a", nil)}},
			kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("c", nil)}},
		)
		wantErrs(t, res, nil, kv.ErrPrecondition, kv.ErrInvalid, nil, nil)
		wantAbsent(t, d, "b")
		if got := wantValue(t, d, "a", ""); got != res[0].Revision {
			t.Errorf("revision of a = %d, want that of result 0, %d", got, res[0].Revision)
		}
		if got := wantValue(t, d, "c", ""); got != res[4].Revision {
			t.Errorf("revision of c = %d, want that of result 4, %d", got, res[4].Revision)
		}
		if res[1].Revision != 0 || res[2].Revision != 0 {
			t.Errorf("failed results have revisions %d and %d, want 0", res[1].Revision, res[2].Revision)
		}
	}},
	{"a Tx sees the ones before it", func(t *testing.T, s Store) {
		d := open(t, s)
		res := d.Commit(t.Context(),
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("k", []byte("1"))}},
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("k", []byte("2"))}},
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Fence("k", []byte("1"))}, Writes: []kv.Write{kv.Put("k", []byte("3"))}},
			kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Delete("k")}},
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}},
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("k", []byte("4"))}},
		)
		wantErrs(t, res, nil, kv.ErrPrecondition, nil, nil, nil, nil)
		wantValue(t, d, "k", "4")
	}},
	{"a failed Tx is not seen by the ones after it", func(t *testing.T, s Store) {
		d := open(t, s)
		res := d.Commit(t.Context(),
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Fence("x", nil)}, Writes: []kv.Write{kv.Put("k", nil)}},
			kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("l", nil)}},
		)
		wantErrs(t, res, kv.ErrPrecondition, nil)
		wantAbsent(t, d, "k")
	}},
	{"two writes of a key in one commit are two revisions", func(t *testing.T, s Store) {
		d := open(t, s)
		w := kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("k", []byte("v"))}}
		res := d.Commit(t.Context(), w, w, w)
		wantErrs(t, res, nil, nil, nil)
		if res[0].Revision >= res[1].Revision || res[1].Revision >= res[2].Revision {
			t.Errorf("revisions = %d, %d, %d, want them ascending", res[0].Revision, res[1].Revision, res[2].Revision)
		}
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.AtRevision("k", res[0].Revision)}})
		wantIs(t, "Commit at a revision that was replaced in the same commit", err, kv.ErrPrecondition)
		if got := wantValue(t, d, "k", "v"); got != res[2].Revision {
			t.Errorf("revision = %d, want that of the last, %d", got, res[2].Revision)
		}
	}},
	{"a Tx can be committed again", func(t *testing.T, s Store) {
		d := open(t, s)
		tx := kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("k", []byte("v"))}}
		apply(t, d, tx)
		_, err := kv.Apply(t.Context(), d, tx)
		wantIs(t, "second Commit", err, kv.ErrPrecondition)
		del(t, d, "k")
		apply(t, d, tx)
		wantValue(t, d, "k", "v")
	}},
}

// wantErrs checks the errors of results; nil wants none.
func wantErrs(t *testing.T, got []kv.Result, want ...error) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("Commit gave %d results, want %d", len(got), len(want))
	}
	for i := range want {
		if !errors.Is(got[i].Err, want[i]) {
			t.Errorf("result %d: error %v, want %v", i, got[i].Err, want[i])
		}
	}
}
