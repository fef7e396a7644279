package changerow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/kv"
)

func TestARowHasTheLastChangesInOrder(t *testing.T) {
	var r Row
	if got, ok := r.Since(0); !ok || len(got) != 0 {
		t.Errorf("Since of an empty row = %v, %t", got, ok)
	}
	for i := range 2 * maxChanges {
		before := slices.Clone(r.IDs)
		next := r.Add(fmt.Sprint(i), 1)
		if !slices.Equal(r.IDs, before) {
			t.Fatal("Add changes the row that it is called on")
		}
		r = next
	}
	if r.Count != 2*maxChanges || r.Seq != 2*maxChanges || len(r.IDs) != maxChanges {
		t.Errorf("the row has count %d, seq %d and %d ids", r.Count, r.Seq, len(r.IDs))
	}
	if got, ok := r.Since(r.Seq - 2); !ok || !slices.Equal(got, []string{"510", "511"}) {
		t.Errorf("Since = %v, %t", got, ok)
	}
	if _, ok := r.Since(r.Seq - maxChanges); !ok {
		t.Error("the row does not have its oldest change")
	}
	if _, ok := r.Since(r.Seq - maxChanges - 1); ok {
		t.Error("the row claims changes that it has not")
	}
	if _, ok := r.Since(r.Seq + 1); ok {
		t.Error("the row claims changes of another store")
	}
}

func TestReadKnowsItsOwnFormatAlone(t *testing.T) {
	d, key := kv.NewMemory(), kv.NewKey("changes")
	if r, revision, err := Read(t.Context(), d, "p", key); err != nil || revision != 0 || r.Seq != 0 {
		t.Errorf("Read of no row = %+v, %d, %v", r, revision, err)
	}
	for _, v := range []int{1, 2} {
		raw, err := kv.EncodeRecord(Row{V: v, Seq: 7, IDs: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		wrote, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "p", Writes: []kv.Write{kv.Put(key, raw)}})
		if err != nil {
			t.Fatal(err)
		}
		r, revision, err := Read(t.Context(), d, "p", key)
		if v == 1 && (err != nil || revision != wrote || r.Seq != 7) {
			t.Errorf("Read = %+v, %d, %v", r, revision, err)
		}
		if v == 2 && !errors.Is(err, kv.ErrFormat) {
			t.Errorf("Read of a later format: %v", err)
		}
	}
}

func TestFollowReadsTwiceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2250*time.Millisecond)
		defer cancel()
		n := 0
		Follow(ctx, kv.NewMemory(), "p", func(context.Context) { n++ })
		if n != 4 {
			t.Errorf("%d reads in 2.25 s, want 4", n)
		}
	})
}
