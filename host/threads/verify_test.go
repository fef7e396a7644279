package threads_test

import (
	"bytes"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

func TestVerify(t *testing.T) {
	s := threadtest.LongStore(t)
	got, err := s.For("acme").Verify(t.Context(), "t1")
	if err != nil || got.Messages != 1207 || got.Turns != 601 || got.Blobs != 203 || got.Bytes == 0 {
		t.Errorf("Verify = %+v, %v", got, err)
	}
	_, err = s.For("acme").Verify(t.Context(), "t9")
	threadtest.WantCode(t, "Verify of no thread", err, host.NotFound)
}

// Whatever value or key of a thread is changed or lost, Verify says so.
func TestVerifyFindsWhatIsDamaged(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	text := threadtest.ExportOf(t, threadtest.ExportStore(t), "acme", "t1", transfer.FormatThread)
	if _, err := threadtest.ImportInto(t, s, "acme", "t1", "", text); err != nil {
		t.Fatal(err)
	}
	for _, key := range threadtest.KeysUnder(t, d, "acme", threads.ContentPrefix) {
		e, err := d.Get(t.Context(), "acme", key)
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range map[string]kv.Write{"lost": kv.Delete(key), "changed": kv.Put(key, flipped(e.Value))} {
			if !matters(key, name) {
				continue
			}
			apply(t, d, w)
			_, err := s.For("acme").Verify(t.Context(), "t1")
			if code := host.CodeOf(err); code != host.DataLoss && code != host.FailedPrecondition {
				t.Errorf("%s is %s: Verify = %v", key, name, err)
			}
			apply(t, d, kv.Put(key, e.Value))
		}
	}
	if _, err := s.For("acme").Verify(t.Context(), "t1"); err != nil {
		t.Errorf("Verify of a thread that was repaired = %v", err)
	}
}

// matters reports whether a thread is another one without an entry: that a blob is
// stored and which run made a turn only save work.
func matters(key kv.Key, how string) bool {
	rest, _ := key.CutPrefix(threads.ContentPrefix)
	_, rest, _ = rest.CutString()
	kind, _, _ := rest.CutString()
	return kind != "blob" && kind != "run" && !(kind == "artifacts" && how == "lost")
}

// flipped is a value with a bit changed in its middle.
func flipped(value []byte) []byte {
	out := bytes.Clone(value)
	out[len(out)/2] ^= 0x80
	return out
}

func apply(t testing.TB, d kv.Driver, w kv.Write) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{w}}); err != nil {
		t.Fatal(err)
	}
}

// Of a thread that was changed, the messages that it does not show are read, too,
// and of a fork those of the thread it is from.
func TestVerifyReadsLineage(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.Talk(t, s, "t1", 6)
	if _, err := s.For("").Rewind(t.Context(), "t1", threads.At{Snapshot: "t1-r2"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").DeleteMessage(t.Context(), "t1", threadtest.Load(t, s, "t1").Messages[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "fork"}); err != nil {
		t.Fatal(err)
	}
	threadtest.Talk(t, s, "fork", 1)
	for id, messages := range map[string]int{"t1": 5, "fork": 7} {
		if got, err := s.For("").Verify(t.Context(), id); err != nil || got.Messages != messages {
			t.Errorf("Verify(%s) = %+v, %v, want %d messages", id, got, err, messages)
		}
	}
	for _, key := range threadtest.KeysUnder(t, d, "default", threads.ContentPrefix) {
		rest, _ := key.CutPrefix(threads.ContentPrefix)
		_, rest, _ = rest.CutString()
		kind, rest, _ := rest.CutString()
		if seq, _, _ := rest.CutUint(); kind != "log" || seq != 10 { // the last question: rewound
			continue
		}
		put := func(value []byte) {
			if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "default", Writes: []kv.Write{kv.Put(key, value)}}); err != nil {
				t.Fatal(err)
			}
		}
		e, err := d.Get(t.Context(), "default", key)
		if err != nil {
			t.Fatal(err)
		}
		put(flipped(e.Value))
		_, err = s.For("").Verify(t.Context(), "t1")
		threadtest.WantCode(t, "Verify of a thread with a damaged message that it does not show", err, host.DataLoss)
		put(e.Value)
		return
	}
	t.Error("there is no message to damage")
}
