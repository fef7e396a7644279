package tenantkv_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
)

// plain is a record of the first layout, and later one that may have the third.
type plain struct {
	tenantkv.Version
	Name string `json:"name"`
}

type later struct{ plain }

func (*later) Newest() int { return 3 }

func TestRecordsOfNewerLayoutsAreRefused(t *testing.T) {
	for _, row := range []struct {
		name, value string
		plain       fault.Code
		later       fault.Code
	}{
		{"the first layout", "\x01{\"v\":1,\"name\":\"n\"}", "", ""},
		{"its version is not the first member", "\x01{\"name\":\"n\",\"v\":1}", "", ""},
		{"a later layout", "\x01{\"v\":3,\"name\":\"n\"}", fault.FailedPrecondition, ""},
		{"a layout of two digits", "\x01{\"v\":10,\"name\":\"n\"}", fault.FailedPrecondition, fault.FailedPrecondition},
		{"no layout", "\x01{\"name\":\"n\"}", fault.FailedPrecondition, fault.FailedPrecondition},
		{"another encoding", "\x09{\"v\":1,\"name\":\"n\"}", fault.FailedPrecondition, fault.FailedPrecondition},
		{"cut off", "\x01{\"v\":1,\"name\":", fault.DataLoss, fault.DataLoss},
		{"nothing", "", fault.DataLoss, fault.DataLoss},
		{"not UTF-8", "\x01{\"v\":1,\"name\":\"\xff\"}", fault.DataLoss, fault.DataLoss},
	} {
		var p plain
		if err := tenantkv.Decode([]byte(row.value), &p, "record of thread", "t"); fault.CodeOf(err) != row.plain || err == nil && p.Name != "n" {
			t.Errorf("%s: Decode = %+v, %v, want code %q", row.name, p, err, row.plain)
		}
		var l later
		if err := tenantkv.Decode([]byte(row.value), &l, "record of thread", "t"); fault.CodeOf(err) != row.later || err == nil && l.Name != "n" {
			t.Errorf("%s, where later layouts are known: Decode = %+v, %v, want code %q", row.name, l, err, row.later)
		}
	}
}

func TestAPartitionHasTheEntriesOfOneTenant(t *testing.T) {
	d := kv.NewMemory()
	a, b := tenantkv.Partition{Driver: d, Name: "a"}, tenantkv.Partition{Driver: d, Name: "b"}
	key := kv.NewKey("k", "1")
	raw, err := tenantkv.Encode(plain{Version: tenantkv.Version{V: tenantkv.Layout}, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Apply(t.Context(), kv.Tx{Partition: "b", Writes: []kv.Write{kv.Put(key, raw)}}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		part  tenantkv.Partition
		empty bool
	}{{a, false}, {b, true}} {
		if empty, err := row.part.IsEmpty(t.Context(), kv.NewKey("k")); err != nil || empty != row.empty {
			t.Errorf("partition %s is empty: %t, %v, want %t", row.part.Name, empty, err, row.empty)
		}
	}
	if err := b.Remove(t.Context(), kv.NewKey("k")); err != nil {
		t.Fatal(err)
	}
	var p plain
	e, err := a.Get(t.Context(), key)
	if err == nil {
		err = tenantkv.Decode(e.Value, &p, "record", "1")
	}
	if err != nil || p.Name != "n" {
		t.Errorf("the entry of a reads as %+v, %v", p, err)
	}
}

// The bytes of a record come from a store, which may have lost some.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x01{\"v\":1,\"name\":\"n\"}"))
	f.Add([]byte("\x01{\"v\":2}"))
	f.Add([]byte("\x02"))
	f.Fuzz(func(t *testing.T, value []byte) {
		var p plain
		err := tenantkv.Decode(value, &p, "record", "1")
		switch code := fault.CodeOf(err); code {
		case "", fault.FailedPrecondition, fault.DataLoss:
		default:
			t.Fatalf("Decode(%q) = %v with code %s", value, err, code)
		}
		if err != nil {
			return
		}
		p.V = tenantkv.Layout // of a version that is there twice, Decode reads the first
		again, err := tenantkv.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		var same plain
		if err := tenantkv.Decode(again, &same, "record", "1"); err != nil || same != p {
			t.Errorf("%+v is stored as %q and reads as %+v, %v", p, again, same, err)
		}
	})
}
