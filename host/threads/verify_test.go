package threads_test

import (
	"bytes"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

func TestVerify(t *testing.T) {
	s := long(t)
	got, err := s.Verify(t.Context(), "acme", "t1")
	if err != nil || got.Messages != 1207 || got.Turns != 601 || got.Blobs != 203 || got.Bytes == 0 {
		t.Errorf("Verify = %+v, %v", got, err)
	}
	_, err = s.Verify(t.Context(), "acme", "t9")
	wantCode(t, "Verify of no thread", err, host.NotFound)
}

// Whatever value or key of a thread is changed or lost, Verify says so.
func TestVerifyFindsWhatIsDamaged(t *testing.T) {
	s, d := newStore(t, nil)
	text := exportOf(t, exportStore(t), "acme", "t1", threads.FormatThread)
	if _, err := importInto(t, s, "acme", "t1", "", text); err != nil {
		t.Fatal(err)
	}
	for _, key := range keysUnder(t, d, "acme", threads.ContentPrefix) {
		e, err := d.Get(t.Context(), "acme", key)
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range map[string]kv.Write{"lost": kv.Delete(key), "changed": kv.Put(key, flipped(e.Value))} {
			if !matters(key, name) {
				continue
			}
			apply(t, d, w)
			_, err := s.Verify(t.Context(), "acme", "t1")
			if code := host.CodeOf(err); code != host.DataLoss && code != host.FailedPrecondition {
				t.Errorf("%s is %s: Verify = %v", key, name, err)
			}
			apply(t, d, kv.Put(key, e.Value))
		}
	}
	if _, err := s.Verify(t.Context(), "acme", "t1"); err != nil {
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
