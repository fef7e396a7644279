package datadir

import (
	"bytes"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// A value that is changed in the store, with all checksums of its files right, is named
// by data verify, whatever it is of.
func TestDataVerifyNamesAChangedEntry(t *testing.T) {
	dir := t.TempDir()
	db, err := badgerkv.Open(StorePath(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, key := kv.Checked(db), kv.NewKey("memory", "scope", "ada")
	write := func(d kv.Driver, value []byte) {
		t.Helper()
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(key, value)}}); err != nil {
			t.Fatal(err)
		}
	}
	write(d, []byte("what was stored"))
	s := &Dir{Driver: db, db: db}
	out, err := s.Verify(t.Context(), func(int) {})
	if err != nil || len(out.Damaged) != 0 {
		t.Fatalf("Verify = %+v, %v, want no damage", out, err)
	}
	e, err := db.Get(t.Context(), "acme", key)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(e.Value)
	changed[len(changed)-1] ^= 1
	write(db, changed)
	out, err = s.Verify(t.Context(), func(int) {})
	if err != nil || len(out.Damaged) != 1 || !strings.Contains(out.Damaged[0].Error.Message, key.String()) || out.Damaged[0].Tenant != "acme" {
		t.Errorf("Verify = %+v, %v, want the key that was changed", out, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
