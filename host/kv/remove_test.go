package kv_test

import (
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

func put(t *testing.T, d kv.Driver, partition string, keys ...kv.Key) {
	t.Helper()
	for _, k := range keys {
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(k, nil)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func keysOf(t *testing.T, d kv.Driver, partition string) (keys []string) {
	t.Helper()
	for e, err := range kv.All(t.Context(), d, partition, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key.String())
	}
	return keys
}

func TestRemove(t *testing.T) {
	d := kv.NewMemory()
	a, ab := kv.NewKey("a"), kv.NewKey("ab")
	for i := range uint64(2*kv.MaxScanLimit + 1) {
		put(t, d, "p", a.WithUint(i))
	}
	put(t, d, "p", ab.WithUint(1))
	put(t, d, "q", a.WithUint(1))
	for range 2 { // nothing is no error
		if err := kv.Remove(t.Context(), d, "p", a); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(keysOf(t, d, "p"), keysOf(t, d, "q")); got != "[ab/1] [a/1]" {
		t.Errorf("left: %s", got)
	}
}
