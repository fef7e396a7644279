package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/kv"
)

// That some entries are read from memory cannot be seen from outside, unless they
// are not what Badger has.
func TestHeadsAreWhatBadgerHas(t *testing.T) {
	s, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	keys := []kv.Key{kv.NewKey("a"), kv.NewKey("b"), kv.NewKey("c")}
	known, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var txs []kv.Tx
		for range rapid.IntRange(1, 4).Draw(t, "transactions") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			at, err := s.Get(context.Background(), "p", key)
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				t.Fatal(err)
			}
			tx := kv.Tx{Partition: "p", Conds: []kv.Cond{kv.AtRevision(key, at.Revision)}}
			value := bytes.Repeat([]byte("x"), rapid.SampledFrom([]int{0, 3, maxHead + 1}).Draw(t, "size"))
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				tx.Writes = []kv.Write{kv.Delete(key)}
			case 1:
				tx.Conds = nil
				tx.Writes = []kv.Write{kv.Put(key, value)}
			default:
				tx.Writes = []kv.Write{kv.Put(key, value), kv.Put(keys[0]+"x", value)}
			}
			txs = append(txs, tx)
		}
		s.Commit(context.Background(), txs...)
		txn := s.engine.db.NewTransaction(false)
		defer txn.Discard()
		for _, key := range keys {
			want, _ := s.get(txn, engineKey("p", key), key)
			got, _ := s.Get(context.Background(), "p", key)
			if got.Revision != want.Revision || !bytes.Equal(got.Value, want.Value) {
				t.Fatalf("%s is read as %d, %q; Badger has %d, %q", key, got.Revision, got.Value, want.Revision, want.Value)
			}
			asked++
			if _, ok := s.heads.get(engineKey("p", key)); ok {
				known++
			}
		}
	})
	if known == 0 || known == asked {
		t.Errorf("%d of %d entries were in memory", known, asked)
	}
}

func TestHeadsAreBounded(t *testing.T) {
	h := newHeads()
	value := make([]byte, maxHead)
	tx := kv.Tx{Partition: "p", Conds: []kv.Cond{kv.AtRevision("k", 1)}, Writes: []kv.Write{kv.Put("k", value)}}
	n := 4 * maxHeadBytes / maxHead
	for i := range n {
		key := kv.NewKey("k").WithUint(uint64(i))
		tx.Conds[0].Key, tx.Writes[0].Key = key, key
		h.keep(withKeys(tx), uint64(i))
		h.get(engineKey("p", kv.NewKey("k").WithUint(0)))
	}
	if most := maxHeadBytes / maxHead; h.byKey.Len() > most || h.byKey.Bytes() > maxHeadBytes {
		t.Errorf("%d entries of %d bytes are kept, more than %d of %d", h.byKey.Len(), h.byKey.Bytes(), most, maxHeadBytes)
	}
	if _, ok := h.get(engineKey("p", kv.NewKey("k").WithUint(0))); !ok {
		t.Error("what is asked for all the time is gone")
	}
}
