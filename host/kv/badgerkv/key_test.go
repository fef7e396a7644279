package badgerkv

// Tests of what cannot be seen from outside: where entries lie in Badger.

import (
	"bytes"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// splitKey reads the key of an entry as it is documented.
func splitKey(b []byte) (partition string, key kv.Key, ok bool) {
	if len(b) < 2 || b[0] != 0x01 || len(b) < 2+int(b[1]) {
		return "", "", false
	}
	end := 2 + int(b[1])
	return string(b[2:end]), kv.Key(b[end:]), true
}

// FuzzEngineKey checks that a key in Badger says which partition and key it is
// of, and that only a partition's own keys begin as its keys do.
func FuzzEngineKey(f *testing.F) {
	f.Add("a", "bc", "ab", "c")
	f.Add("a", "\x01bk", "a\x01", "bk")
	f.Add("\x01", "\x01", "\x01\x01", "\x01")
	f.Add(strings.Repeat("a", kv.MaxPartitionBytes), "k", "a", "k")
	f.Fuzz(func(t *testing.T, p1, k1, p2, k2 string) {
		if kv.ValidateKey(p1, kv.Key(k1)) != nil || kv.ValidateKey(p2, kv.Key(k2)) != nil {
			return
		}
		a, b := engineKey(p1, kv.Key(k1)), engineKey(p2, kv.Key(k2))
		if p, k, ok := splitKey(a); !ok || p != p1 || string(k) != k1 {
			t.Fatalf("engineKey(%q, %q) reads as %q, %q, %v", p1, k1, p, k, ok)
		}
		if inside := bytes.HasPrefix(b, engineKey(p1, "")); inside != (p1 == p2) {
			t.Fatalf("key %x of partition %q among those of %q: %v", b, p2, p1, inside)
		}
		if p1 == p2 && bytes.Compare(a, b) != strings.Compare(k1, k2) {
			t.Fatalf("keys %q and %q of a partition change their order", k1, k2)
		}
		if p1 == p2 && bytes.Compare(b, append(engineKey(p1, ""), lastKey...)) >= 0 {
			t.Fatalf("key %q is not below lastKey", k2)
		}
		if bytes.HasPrefix(a, []byte(deletionKey)) || bytes.HasPrefix(a, []byte("!badger!")) {
			t.Fatalf("key %x of an entry is one of the store's own", a)
		}
	})
}
