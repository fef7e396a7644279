package badgerkv

import (
	"bytes"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

// A store of an earlier version has narrow keys: what is sealed with them is read, and
// what is written is sealed with another.
func TestNarrowKeysAreReadAndNotUsed(t *testing.T) {
	dir, opts := t.TempDir(), &Options{Key: make([]byte, 32)}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, dataKeyBytes)
	s.keys.mu.Lock()
	s.keys.put("acme", s.keys.next, datakey.New(raw, true))
	s.keys.next++
	s.keys.mu.Unlock()
	if err := s.keys.saveAll(false); err != nil {
		t.Fatal(err)
	}
	old := engineKey("acme", "old")
	txn := s.engine.db.NewTransaction(true)
	sealed, err := s.keys.seal(old, txn.ReadTs()+1, []byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) != leastSealed+len("before") {
		t.Fatalf("%d bytes are sealed: this is no narrow key", len(sealed))
	}
	if err := txn.SetEntry(badger.NewEntry(old, sealed).WithMeta(sealedMeta)); err != nil {
		t.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("new", []byte("after"))}}); err != nil {
		t.Fatal(err)
	}
	if _, key := s.keys.latestKey("acme"); key == nil || key.Narrow() {
		t.Error("a narrow key seals what is written")
	}
	for key, want := range map[kv.Key]string{"old": "before", "new": "after"} {
		if e, err := s.Get(t.Context(), "acme", key); err != nil || string(e.Value) != want {
			t.Errorf("Get(%s) = %q, %v", key, e.Value, err)
		}
	}
	var backup bytes.Buffer
	if _, err := s.Backup(t.Context(), &backup, nil); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	if _, err := Restore(t.Context(), into, &backup, &RestoreOptions{Store: *opts, KeyFile: s.engine.dir + "/" + KeyFile}); err != nil {
		t.Fatal(err)
	}
}
