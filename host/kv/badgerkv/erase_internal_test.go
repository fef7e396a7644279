package badgerkv

import (
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// Two calls erase a partition at the same time: both have marked it, and the first ends
// before the second has its turn. The partition may be written to from then on.
func TestASecondErasureLeavesWhatWasWrittenAfterTheFirst(t *testing.T) {
	s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1})
	apply(t, s, "acme", kv.Put("k", []byte("v")))
	if err := s.Erase(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, "acme", kv.Put("k", []byte("w")), kv.Put("blob", large('w')))
	if err := s.CompleteErase(t.Context(), "acme"); err != nil { // the second call continues
		t.Fatal(err)
	}
	for _, key := range []kv.Key{"k", "blob"} {
		if _, err := s.Get(t.Context(), "acme", key); err != nil {
			t.Errorf("Get of what was written after the erasure = %v", err)
		}
	}
}

// A scan has found the partition unmarked, and its snapshot is taken when the erasure has
// written its own entry.
func TestAScanDoesNotSeeTheEntryOfAnErasure(t *testing.T) {
	for name, opts := range map[string]*Options{"without a key": {}, "with a key": {Key: make([]byte, 32)}} {
		t.Run(name, func(t *testing.T) {
			opts.PurgeInterval = -1
			s := openBlobs(t, t.TempDir(), opts)
			apply(t, s, "acme", kv.Put("k", []byte("v")))
			mark := func(txn *badger.Txn) error { return txn.Set(engineKey("acme", ""), nil) }
			if err := s.engine.commitOwn(t.Context(), mark); err != nil {
				t.Fatal(err)
			}
			page, err := s.Scan(t.Context(), "acme", kv.Range{})
			if err != nil || len(page.Entries) != 1 || page.Entries[0].Key != "k" {
				t.Errorf("Scan = %+v, %v, want the caller's entry", page, err)
			}
		})
	}
}
