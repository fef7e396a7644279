package kv_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
)

func TestCheckedDriverIsADriver(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kvtest.Store {
		return kvtest.Store{Open: func() (kv.Driver, error) { return kv.Checked(kv.NewMemory()), nil }}
	})
}

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
