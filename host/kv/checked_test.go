package kv_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

func TestACheckedValueIsFoundChanged(t *testing.T) {
	for _, value := range []string{"x", "\x01{\"v\":1}", strings.Repeat("long ", 1000)} {
		below := kv.NewMemory()
		d := kv.Checked(below)
		putValue(t, d, "acme", "k", []byte(value))
		stored, err := below.Get(t.Context(), "acme", "k")
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(stored.Value) {
			for _, bit := range []byte{0x01, 0x03, 0x80, 0xff} {
				b := bytes.Clone(stored.Value)
				b[i] ^= bit
				wantCorrupt(t, below, "acme", "k", b)
			}
			if i > 0 {
				wantCorrupt(t, below, "acme", "k", stored.Value[:i])
			}
		}
		wantCorrupt(t, below, "acme", "other", stored.Value)
		wantCorrupt(t, below, "globex", "k", stored.Value)
		putValue(t, below, "acme", "k", stored.Value)
		if e, err := d.Get(t.Context(), "acme", "k"); err != nil || string(e.Value) != value {
			t.Errorf("Get = %q, %v", e.Value, err)
		}
	}
}

func putValue(t *testing.T, d kv.Driver, partition string, key kv.Key, value []byte) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(key, value)}}); err != nil {
		t.Fatal(err)
	}
}

func wantCorrupt(t *testing.T, below kv.Driver, partition string, key kv.Key, stored []byte) {
	t.Helper()
	putValue(t, below, partition, key, stored)
	d := kv.Checked(below)
	_, getErr := d.Get(t.Context(), partition, key)
	_, scanErr := d.Scan(t.Context(), partition, kv.Range{Prefix: key})
	for op, err := range map[string]error{"Get": getErr, "Scan": scanErr} {
		if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), key.String()) {
			t.Errorf("%s of %.40q at %s = %v, want ErrCorrupt and the key", op, stored, key, err)
		}
	}
	found := 0
	for e, err := range kv.Damaged(t.Context(), d, partition) {
		if e.Key == key && errors.Is(err, kv.ErrCorrupt) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("Damaged yields %s %d times", key, found)
	}
}

// Values that were stored before there were digests are read as they are, and have one
// when they are written again.
func TestValuesWithoutADigestAreRead(t *testing.T) {
	below := kv.NewMemory()
	d := kv.Checked(below)
	for _, value := range []string{"", "\x01{\"v\":1}", "content", strings.Repeat("\x00", 100)} {
		putValue(t, below, "acme", "k", []byte(value))
		e, err := d.Get(t.Context(), "acme", "k")
		if err != nil || string(e.Value) != value {
			t.Errorf("Get of %q = %q, %v", value, e.Value, err)
		}
		putValue(t, d, "acme", "k", e.Value)
		if again, err := d.Get(t.Context(), "acme", "k"); err != nil || string(again.Value) != value {
			t.Errorf("Get of %q, written again = %q, %v", value, again.Value, err)
		}
	}
	for e, err := range kv.Damaged(t.Context(), d, "acme") {
		t.Errorf("Damaged yields %s, %v", e.Key, err)
	}
}

// A fence compares with a value that was stored before there were digests, too: the
// lease of a run that waits is one.
func TestAFenceOfAValueWithoutADigest(t *testing.T) {
	below := kv.NewMemory()
	d := kv.Checked(below)
	putValue(t, below, "acme", "lease", []byte("1"))
	revision := func() uint64 {
		e, err := d.Get(t.Context(), "acme", "lease")
		if err != nil {
			t.Fatal(err)
		}
		return e.Revision
	}
	was := revision()
	commit := func(conds ...kv.Cond) error {
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Conds: conds, Writes: []kv.Write{kv.Put("lease", []byte("2"))}})
		return err
	}
	for what, conds := range map[string][]kv.Cond{
		"another value":                  {kv.Fence("lease", []byte("2"))},
		"no value":                       {kv.Fence("none", []byte("1"))},
		"its value, and another absent":  {kv.Fence("lease", []byte("1")), kv.AtRevision("lease", was+1)},
		"its value, and another's fence": {kv.Fence("lease", []byte("1")), kv.Fence("none", []byte("1"))},
	} {
		if err := commit(conds...); !errors.Is(err, kv.ErrPrecondition) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if revision() != was {
		t.Fatal("it was written")
	}
	if err := commit(kv.AtRevision("lease", was), kv.Fence("lease", []byte("1"))); err != nil {
		t.Errorf("its value: %v", err)
	}
	if err := commit(kv.Fence("lease", []byte("1"))); !errors.Is(err, kv.ErrPrecondition) {
		t.Errorf("the value that it had: %v", err)
	}
	if err := commit(kv.Fence("lease", []byte("2"))); err != nil {
		t.Errorf("the value that it has: %v", err)
	}
}

func TestRemoveTakesWhatIsDamaged(t *testing.T) {
	below := kv.NewMemory()
	d := kv.Checked(below)
	putValue(t, d, "acme", kv.NewKey("a", "1"), []byte("value"))
	stored, err := below.Get(t.Context(), "acme", kv.NewKey("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	putValue(t, below, "acme", kv.NewKey("a", "2"), stored.Value)
	if err := kv.Remove(t.Context(), d, "acme", kv.NewKey("a")); err != nil {
		t.Errorf("Remove = %v", err)
	}
	if page, err := below.Scan(t.Context(), "acme", kv.Range{}); err != nil || len(page.Entries) != 0 {
		t.Errorf("%d entries are left, %v", len(page.Entries), err)
	}
}

// A fence compares with what was stored, and the limits of a value are those of the
// driver below but for the digest.
func TestACheckedDriverKeepsConditionsAndLimits(t *testing.T) {
	d := kv.Checked(kv.NewMemory())
	if kv.Checked(d) != d {
		t.Error("a driver that is checked is wrapped again")
	}
	putValue(t, d, "acme", "fence", []byte("mine"))
	for fence, want := range map[string]error{"mine": nil, "yours": kv.ErrPrecondition, "": kv.ErrPrecondition} {
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Conds: []kv.Cond{kv.Fence("fence", []byte(fence))}})
		if !errors.Is(err, want) {
			t.Errorf("a fence of %q = %v, want %v", fence, err, want)
		}
	}
	for size, want := range map[int]error{kv.MaxCheckedBytes: nil, kv.MaxCheckedBytes + 1: kv.ErrTooLarge} {
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", make([]byte, size))}})
		if !errors.Is(err, want) {
			t.Errorf("a value of %d bytes = %v, want %v", size, err, want)
		}
	}
}
