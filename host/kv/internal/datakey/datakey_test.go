package datakey

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"testing"
)

// The vectors are those of the specification of XAES-256-GCM (c2sp.org/XAES-256-GCM).
func TestASealIsThatOfItsSpecification(t *testing.T) {
	nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
	for _, v := range []struct {
		key           byte
		place, sealed string
	}{
		{0x01, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{0x03, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k := New(bytes.Repeat([]byte{v.key}, Bytes), false)
		sealed, err := hex.DecodeString(v.sealed)
		if err != nil {
			t.Fatal(err)
		}
		text, err := k.Open(append(bytes.Clone(nonce), sealed...), []byte(v.place))
		if err != nil || string(text) != "XAES-256-GCM" {
			t.Errorf("open with key %#x = %q, %v", v.key, text, err)
		}
	}
}

func TestASealOpensWhereItWasMade(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		raw := make([]byte, Bytes)
		_, _ = rand.Read(raw)
		k := New(raw, narrow)
		sealed, err := k.Seal([]byte("front"), []byte("text"), []byte("here"))
		if err != nil || !bytes.HasPrefix(sealed, []byte("front")) {
			t.Fatalf("seal = %q, %v", sealed, err)
		}
		sealed = sealed[len("front"):]
		if text, err := k.Open(sealed, []byte("here")); err != nil || string(text) != "text" {
			t.Errorf("open = %q, %v", text, err)
		}
		if _, err := k.Open(sealed, []byte("there")); err == nil {
			t.Error("a seal opens in another place")
		}
		for n := range sealed {
			changed := bytes.Clone(sealed)
			changed[n] ^= 1
			if _, err := k.Open(changed, []byte("here")); err == nil {
				t.Errorf("a seal with byte %d changed opens", n)
			}
			if _, err := k.Open(sealed[:n], []byte("here")); err == nil {
				t.Errorf("%d bytes of a seal open", n)
			}
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	for name, narrow := range map[string]bool{"wide": false, "narrow": true} {
		b.Run(name, func(b *testing.B) {
			k, text := New(make([]byte, Bytes), narrow), make([]byte, 500)
			for b.Loop() {
				if _, err := k.Seal(make([]byte, 0, 600), text, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
