package kv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// fullStore takes no more commits.
type fullStore struct{ *kv.Memory }

func (fullStore) Commit(_ context.Context, txs ...kv.Tx) []kv.Result {
	results := make([]kv.Result, len(txs))
	for i := range results {
		results[i].Err = kv.ErrReadOnly
	}
	return results
}

func TestReadBackFindsWhatIsStoredForGood(t *testing.T) {
	store := kv.NewMemory()
	revision, err := kv.Apply(t.Context(), store, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", []byte("v"))}})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end() // the caller has left
	if e, err := kv.ReadBack(ended, store, "acme", "k"); err != nil || string(e.Value) != "v" || e.Revision != revision {
		t.Errorf("ReadBack = %+v, %v, want the entry", e, err)
	}
	if _, err := kv.ReadBack(t.Context(), store, "acme", "none"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("ReadBack of what is not stored = %v, want ErrNotFound", err)
	}
	if _, err := kv.ReadBack(t.Context(), fullStore{store}, "acme", "k"); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("ReadBack from a store that may lose the entry = %v, want ErrReadOnly", err)
	}
}
