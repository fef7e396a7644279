package pgkv_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// A store lists the partitions that have entries, more of them than it reads at a time,
// and names of any bytes.
func TestPartitionsAreThoseWithEntries(t *testing.T) {
	d, err := pgkvtest.OpenAt(t.Context(), pgkvtest.Address(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := []string{"\x00host", "a b", "zz\xff"}
	for i := range 1200 {
		want = append(want, fmt.Sprintf("t%04d", i))
	}
	slices.Sort(want)
	var txs []kv.Tx
	for _, name := range append([]string{"emptied"}, want...) {
		txs = append(txs, kv.Tx{Partition: name, Writes: []kv.Write{kv.Put("k", []byte("v"))}})
	}
	for batch := range slices.Chunk(txs, kv.MaxCommitTxs) {
		for _, result := range d.Commit(t.Context(), batch...) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
		}
	}
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "emptied", Writes: []kv.Write{kv.Delete("k")}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, err := range d.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d partitions are listed, %d have entries", len(got), len(want))
	}
}
