package savedthread_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/savedthread"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
)

// pieceBytes is the size of the pieces of a long thread.
const pieceBytes = 256 << 10

// in returns the agent threads of a tenant.
func in(d kv.Driver, tenant string) savedthread.Store {
	return savedthread.In(tenantkv.Partition{Driver: d, Name: tenant}, time.Now)
}

func TestSerializedThreadsAreKeptAsTheyAre(t *testing.T) {
	d := kv.NewMemory()
	s := in(d, "acme")
	for name, data := range map[string][]byte{
		"nothing":         {},
		"no JSON":         {0, 0xff, '"'},
		"a newer version": []byte(`{"version":99}`),
		"a piece":         bytes.Repeat([]byte{1, 2, 3}, pieceBytes/3),
		"many pieces":     bytes.Repeat([]byte("0123456"), pieceBytes),
	} {
		for _, key := range []string{name, "../" + name, strings.Repeat("x", chat.MaxIDBytes)} {
			head, err := s.Save(t.Context(), key, data, "")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, at, err := s.Load(t.Context(), key)
			if err != nil || at != head || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, head %s, %v; want %d bytes, head %s", name, len(got), at, err, len(data), head)
			}
			if _, _, err := in(d, "globex").Load(t.Context(), key); host.CodeOf(err) != host.NotFound {
				t.Errorf("%s: another tenant: %v", name, err)
			}
		}
	}
	first, err := s.List(t.Context(), "", 2)
	if err != nil || !slices.Equal(first, []string{"../a newer version", "../a piece"}) {
		t.Errorf("keys %q, %v", first, err)
	}
	rest, err := s.List(t.Context(), first[1], 100)
	if err != nil || len(rest) != 9 {
		t.Errorf("keys behind %q: %q, %v", first[1], rest, err)
	}
	for _, key := range append(first, rest...) {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if n := entriesOf(t, d, "acme"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func entriesOf(t *testing.T, d kv.Driver, part string) (n int) {
	t.Helper()
	for _, err := range kv.All(t.Context(), d, part, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestSavingOverAnothersSaveIsAConflict(t *testing.T) {
	d := kv.NewMemory()
	s := in(d, "acme")
	large := func(b byte) []byte { return bytes.Repeat([]byte{b}, 2*pieceBytes) }
	head, err := s.Save(t.Context(), "u1", large('a'), "")
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Save(t.Context(), "u1", large('b'), head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), "u1", []byte("late"), head); host.CodeOf(err) != host.Conflict {
		t.Errorf("%v; want code %s", err, host.Conflict)
	}
	before := entriesOf(t, d, "acme")
	if _, err := s.Save(t.Context(), "u1", large('c'), head); host.CodeOf(err) != host.Conflict || entriesOf(t, d, "acme") != before {
		t.Errorf("a large one: %v; %d keys, before %d", err, entriesOf(t, d, "acme"), before)
	}
	if data, at, err := s.Load(t.Context(), "u1"); err != nil || at != next || !bytes.Equal(data, large('b')) {
		t.Errorf("%d bytes, head %s, %v", len(data), at, err)
	}
	if _, err := s.Save(t.Context(), "u1", []byte("small"), next); err != nil {
		t.Fatal(err)
	}
	if n := entriesOf(t, d, "acme"); n != 1 {
		t.Errorf("%d keys are left of one short thread", n)
	}
	if _, err := s.Save(t.Context(), "u1", make([]byte, host.MaxThreadBytes+1), ""); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("too long: %v; want code %s", err, host.ResourceExhausted)
	}
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 257)} {
		if _, err := s.Save(t.Context(), key, nil, ""); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("key %.10q: %v; want code %s", key, err, host.InvalidArgument)
		}
	}
}

// dying is a driver whose process dies after some commits.
type dying struct {
	kv.Driver
	lives int
}

func (d *dying) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if d.lives == 0 {
		out := make([]kv.Result, len(txs))
		for i := range out {
			out[i].Err = kv.ErrClosed
		}
		return out
	}
	d.lives--
	return d.Driver.Commit(ctx, txs...)
}

// An interrupted save leaves the earlier thread intact, and its pieces are removed later.
func TestAnInterruptedSaveLeavesTheOldThread(t *testing.T) {
	was, next := bytes.Repeat([]byte("a"), 3*pieceBytes), bytes.Repeat([]byte("b"), 3*pieceBytes)
	for lives := range 6 {
		d := kv.NewMemory()
		s := in(d, "acme")
		if _, err := s.Save(t.Context(), "u1", was, ""); err != nil {
			t.Fatal(err)
		}
		_, err := in(&dying{d, lives}, "acme").Save(t.Context(), "u1", next, "")
		want := was
		if lives >= 4 { // three pieces and the entry
			want = next
		}
		if data, _, err := s.Load(t.Context(), "u1"); err != nil || !bytes.Equal(data, want) {
			t.Errorf("lives %d: %d bytes of %c, %v", lives, len(data), data[0], err)
		}
		if (err == nil) != (lives > 4) {
			t.Errorf("lives %d: %v", lives, err)
		}
		later := savedthread.In(tenantkv.Partition{Driver: d, Name: "acme"}, func() time.Time { return time.Now().Add(2 * savedthread.StaleAfter) })
		if err := later.Delete(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
		if n := entriesOf(t, d, "acme"); n != 0 {
			t.Errorf("lives %d: %d keys are left", lives, n)
		}
	}
}

func TestADamagedAgentThreadIsFound(t *testing.T) {
	for name, damage := range map[string]func(e kv.Entry) kv.Write{
		"a piece is gone":     func(e kv.Entry) kv.Write { return kv.Delete(e.Key) },
		"a piece has changed": func(e kv.Entry) kv.Write { return kv.Put(e.Key, bytes.Repeat([]byte("x"), len(e.Value))) },
		"a piece is cut off":  func(e kv.Entry) kv.Write { return kv.Put(e.Key, e.Value[:7]) },
	} {
		d := kv.NewMemory()
		s := in(d, "acme")
		if _, err := s.Save(t.Context(), "u1", make([]byte, 3*pieceBytes), ""); err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.All(t.Context(), d, "acme", kv.Range{Prefix: kv.NewKey("threads", "piece")}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{damage(e)}}); err != nil {
				t.Fatal(err)
			}
			break
		}
		if _, _, err := s.Load(t.Context(), "u1"); host.CodeOf(err) != host.DataLoss {
			t.Errorf("%s: %v; want code %s", name, err, host.DataLoss)
		}
	}
}
