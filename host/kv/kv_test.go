package kv_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/kv"
)

func TestErrorsSayWhat(t *testing.T) {
	d := kv.NewMemory()
	head := kv.NewKey("thread", "t1", "head")
	commit := func(conds []kv.Cond, writes ...kv.Write) error {
		_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Conds: conds, Writes: writes})
		return err
	}
	get := func(key kv.Key) error {
		_, err := d.Get(t.Context(), "acme", key)
		return err
	}
	if err := commit(nil, kv.Put(head, []byte("secret"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{get("k"), `get "k": key not found`},
		{get(""), `get: invalid request: key is empty`},
		{commit([]kv.Cond{kv.Absent(head)}), `commit: condition 0: key thread/t1/head must be absent, found revision 1`},
		{commit([]kv.Cond{kv.AtRevision(head, 7)}), `commit: condition 0: key thread/t1/head must be at revision 7, found revision 1`},
		{commit([]kv.Cond{kv.Fence(head, nil)}), `commit: condition 0: key thread/t1/head must have the value of the fence, found another value at revision 1`},
		{commit([]kv.Cond{kv.Fence("k", nil)}), `commit: condition 0: key "k" must have the value of the fence, found no entry`},
		{commit(nil, kv.Put("k", make([]byte, kv.MaxValueBytes+1))), `commit: value of key "k" has 524289 bytes, the limit is 524288`},
		{commit(nil, kv.Put("k", nil), kv.Delete("k")), `commit: invalid request: transaction writes key "k" twice; keep the last write`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("error is %v, want %s", c.err, c.want)
		}
		if c.err != nil && strings.Contains(c.err.Error(), "secret") {
			t.Errorf("error %v shows a value", c.err)
		}
	}
}

// Bounds must mean what Range says, whatever the engine makes of it.
func TestBounds(t *testing.T) {
	keys := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 0xFE, 0xFF}), 0, 3), func(b []byte) kv.Key { return kv.Key(b) })
	rapid.Check(t, func(t *rapid.T) {
		r := kv.Range{Prefix: keys.Draw(t, "prefix"), Reverse: rapid.Bool().Draw(t, "reverse")}
		if rapid.Bool().Draw(t, "after") {
			r.After = keys.Draw(t, "After")
		} else {
			r.From = keys.Draw(t, "From")
		}
		k := keys.Draw(t, "key")
		low, high := r.Bounds()
		got := low <= k && (high == "" || k < high)
		if want := inRange(r, k); got != want {
			t.Fatalf("%+v has bounds %q and %q, which hold %q: %v, want %v", r, string(low), string(high), string(k), got, want)
		}
	})
}

func inRange(r kv.Range, k kv.Key) bool {
	var begun bool
	switch {
	case r.Reverse && r.From != "":
		begun = k <= r.From
	case r.Reverse && r.After != "":
		begun = k < r.After
	case r.After != "":
		begun = k > r.After
	default:
		begun = k >= r.From
	}
	return begun && strings.HasPrefix(string(k), string(r.Prefix))
}

// failing is a store that fails on its second page.
type failing struct {
	*kv.Memory
	scans int
}

var errDevice = errors.New("device is gone")

func (f *failing) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if f.scans++; f.scans > 1 {
		return kv.Page{}, errDevice
	}
	return f.Memory.Scan(ctx, partition, r)
}

func TestAllEndsWithItsError(t *testing.T) {
	d := &failing{Memory: kv.NewMemory()}
	tx := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("a", nil), kv.Put("b", nil), kv.Put("c", nil)}}
	if _, err := kv.Apply(t.Context(), d, tx); err != nil {
		t.Fatal(err)
	}
	var got []kv.Key
	var last error
	for e, err := range kv.All(t.Context(), d, "acme", kv.Range{Limit: 2}) {
		if last != nil {
			t.Fatalf("All goes on after its error, with %v, %v", e, err)
		}
		if last = err; err == nil {
			got = append(got, e.Key)
		} else if e.Key != "" {
			t.Errorf("the error comes with entry %v, want the zero Entry", e)
		}
	}
	if len(got) != 2 || !errors.Is(last, errDevice) {
		t.Errorf("All yields %q, then %v, want two keys and the error", got, last)
	}
}

func TestAllStopsWithTheLoop(t *testing.T) {
	d := &failing{Memory: kv.NewMemory()}
	tx := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("a", nil), kv.Put("b", nil)}}
	if _, err := kv.Apply(t.Context(), d, tx); err != nil {
		t.Fatal(err)
	}
	for e, err := range kv.All(t.Context(), d, "acme", kv.Range{Limit: 1}) {
		if err != nil || e.Key != "a" {
			t.Fatalf("All yields %v, %v, want a", e, err)
		}
		break
	}
	if d.scans != 1 {
		t.Errorf("All read %d pages for one entry, want 1", d.scans)
	}
}
