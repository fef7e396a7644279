package idgroup_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/threads/internal/idgroup"
)

// listOf returns a list of ids; an empty one is that of a message with an entry of its own.
func listOf(ids ...string) (l idgroup.List) {
	for _, id := range ids {
		l = l.Append(id)
	}
	return l
}

func TestIDsOfHostsAreOrdered(t *testing.T) {
	last := ""
	for range 100 {
		id := chat.NewID()
		if !idgroup.IsOrdered(id) || id <= last {
			t.Fatalf("IsOrdered(%q) = %t after %q, want an ordered id above it", id, idgroup.IsOrdered(id), last)
		}
		last = id
	}
	for _, id := range []string{"", "m1", strings.ToUpper("01a22050-0a40-77e4-b1f3-36a6e4daf13b"), chat.RandomID(), last[:35], last + "0",
		strings.Replace(last, "-", "0", 1), "01a22050-0a40-77e4-b1f3-36a6e4daf13g"} {
		if idgroup.IsOrdered(id) {
			t.Errorf("IsOrdered(%q) = true, want false", id)
		}
	}
}

func TestAGroupFindsItsMessages(t *testing.T) {
	a, b, c, run := chat.NewID(), chat.NewID(), chat.NewID(), chat.NewID()
	g := idgroup.Group{From: 7, IDs: listOf(b, "", a), Run: idgroup.ID(run), Turn: 3}
	for _, row := range []struct {
		id    string
		seq   uint64
		found bool
	}{{b, 7, true}, {a, 9, true}, {c, 0, false}, {run, 0, false}} {
		seq, found := g.Position(row.id)
		if found != row.found || found && seq != row.seq {
			t.Errorf("Position(%s) = %d, %t, want %d, %t", row.id, seq, found, row.seq, row.found)
		}
	}
	if g.First() != a || g.Last() != run {
		t.Errorf("the ids go from %s to %s, want %s to %s", g.First(), g.Last(), a, run)
	}
	g.IDs.Remove(2)
	if seq, found := g.Position(b); !found || seq != 7 || g.First() != b || g.IDs.Len() != 3 {
		t.Errorf("after a message has left, %s is at %d (%t) of %d, and the first id is %s", b, seq, found, g.IDs.Len(), g.First())
	}
	g.IDs.Remove(0)
	if !g.IDs.IsZero() || g.First() != run || g.Last() != run {
		t.Errorf("without messages the ids go from %s to %s, want those of the run", g.First(), g.Last())
	}
	if empty := (idgroup.Group{}); empty.First() != "" || empty.Last() != "" {
		t.Errorf("an empty group has the ids %q and %q", empty.First(), empty.Last())
	}
}

func TestTheKeyOfAnEntryIsNotStoredAgain(t *testing.T) {
	run, message := chat.NewID(), chat.NewID()
	for _, row := range []struct {
		name        string
		group       idgroup.Group
		stored, run string
	}{
		{"a run that is the key", idgroup.Group{IDs: listOf(message), Run: idgroup.ID(run), Turn: 1}, "", run},
		{"a run above the key", idgroup.Group{IDs: listOf(run), Run: idgroup.ID(message), Turn: 1}, message, message},
		{"a run without its turn", idgroup.Group{IDs: listOf(message), Run: idgroup.ID(run)}, "", ""},
	} {
		key := min(row.group.First(), row.group.Last())
		stored := row.group.Stored(key)
		if string(stored.Run) != row.stored {
			t.Errorf("%s: run %q is stored, want %q", row.name, stored.Run, row.stored)
		}
		if stored.Restore(key); string(stored.Run) != row.run {
			t.Errorf("%s: run %q is restored, want %q", row.name, stored.Run, row.run)
		}
	}
}

// The bytes of a group come from a store, which may have lost some.
func FuzzGroup(f *testing.F) {
	id := chat.NewID()
	whole, err := json.Marshal(idgroup.Group{From: 1, IDs: listOf(id, "", chat.NewID()), Run: idgroup.ID(id), Turn: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, id)
	f.Add([]byte(`{"from":1,"ids":"////"}`), id)
	f.Add([]byte(`{"ids":[1]}`), id)
	f.Add([]byte(`{}`), id)
	f.Fuzz(func(t *testing.T, raw []byte, id string) {
		var g idgroup.Group
		if json.Unmarshal(raw, &g) != nil {
			return
		}
		if first, last := g.First(), g.Last(); first > last {
			t.Errorf("the ids of %s go from %q to %q", raw, first, last)
		}
		if idgroup.IsOrdered(id) {
			if seq, found := g.Position(id); found && g.IDs.At(int(seq-g.From)) != id {
				t.Errorf("%q is at %d of %s, where another id is", id, seq, raw)
			}
		}
		again, err := json.Marshal(g)
		if err != nil {
			t.Fatalf("encode the group of %s: %v", raw, err)
		}
		var same idgroup.Group
		if err := json.Unmarshal(again, &same); err != nil || same.First() != g.First() || same.Last() != g.Last() || same.From != g.From || same.Turn != g.Turn {
			t.Errorf("%s reads as %+v (%v), want %+v", again, same, err, g)
		}
	})
}
