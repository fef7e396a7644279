package library

import (
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
)

// AgeLoose makes the loose modules of a store older.
func AgeLoose(t testing.TB, d kv.Driver, by time.Duration) {
	t.Helper()
	d = kv.Checked(d)
	for e, err := range kv.All(t.Context(), d, partition, kv.Range{Prefix: looseRows}) {
		if err != nil {
			t.Fatal(err)
		}
		var m looseModule
		if err := kv.DecodeRecord(e.Value, &m); err != nil {
			t.Fatal(err)
		}
		m.At = m.At.Add(-by)
		raw, err := kv.EncodeRecord(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(e.Key, raw)}}); err != nil {
			t.Fatal(err)
		}
	}
}
