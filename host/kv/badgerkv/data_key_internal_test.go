package badgerkv

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// The vectors are those of the specification of XAES-256-GCM (c2sp.org/XAES-256-GCM).
func TestASealIsThatOfItsSpecification(t *testing.T) {
	nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
	for _, v := range []struct {
		key           byte
		place, sealed string
	}{
		{0x01, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{0x03, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k := newPartitionKey(bytes.Repeat([]byte{v.key}, dataKeyBytes), false)
		sealed, err := hex.DecodeString(v.sealed)
		if err != nil {
			t.Fatal(err)
		}
		text, err := k.open(append(bytes.Clone(nonce), sealed...), []byte(v.place))
		if err != nil || string(text) != "XAES-256-GCM" {
			t.Errorf("open with key %#x = %q, %v", v.key, text, err)
		}
	}
}

func TestASealOpensWhereItWasMade(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		raw := make([]byte, dataKeyBytes)
		_, _ = rand.Read(raw)
		k := newPartitionKey(raw, narrow)
		sealed, err := k.seal([]byte("front"), []byte("text"), []byte("here"))
		if err != nil || !bytes.HasPrefix(sealed, []byte("front")) {
			t.Fatalf("seal = %q, %v", sealed, err)
		}
		sealed = sealed[len("front"):]
		if text, err := k.open(sealed, []byte("here")); err != nil || string(text) != "text" {
			t.Errorf("open = %q, %v", text, err)
		}
		if _, err := k.open(sealed, []byte("there")); err == nil {
			t.Error("a seal opens in another place")
		}
		for n := range sealed {
			changed := bytes.Clone(sealed)
			changed[n] ^= 1
			if _, err := k.open(changed, []byte("here")); err == nil {
				t.Errorf("a seal with byte %d changed opens", n)
			}
			if _, err := k.open(sealed[:n], []byte("here")); err == nil {
				t.Errorf("%d bytes of a seal open", n)
			}
		}
	}
}

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
	s.keys.put("acme", s.keys.next, newPartitionKey(raw, true))
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
	if _, key := s.keys.latestKey("acme"); key == nil || key.narrow {
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

func BenchmarkSeal(b *testing.B) {
	for name, narrow := range map[string]bool{"wide": false, "narrow": true} {
		b.Run(name, func(b *testing.B) {
			k, text := newPartitionKey(make([]byte, dataKeyBytes), narrow), make([]byte, 500)
			for b.Loop() {
				if _, err := k.seal(make([]byte, 0, 600), text, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
