package pdk_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// FuzzBytes holds the kit's base64 to the standard library's, both ways.
func FuzzBytes(f *testing.F) {
	for _, seed := range []string{"", "a", "ab", "abc", "abcd", "YQ==", "YWI=", "YWJj", "Y===", "=", "YQ=a", "Y Q=", "\x00\xff\xfe", "YR=="} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w pdk.Writer
		raw := w.Bytes(data).Value()
		if want := `"` + base64.StdEncoding.EncodeToString(data) + `"`; string(raw) != want {
			t.Fatalf("Bytes(%q) is written as %s, want %s", data, raw, want)
		}
		if back, ok := raw.Bytes(); !ok || !bytes.Equal(back, data) {
			t.Fatalf("%s is read as %q, %v", raw, back, ok)
		}
		text, isString := pdk.Quote(string(data)).Str()
		want, err := base64.StdEncoding.DecodeString(text)
		if bytes.ContainsAny([]byte(text), "\r\n") {
			return // the standard library passes over them
		}
		got, ok := pdk.Quote(string(data)).Bytes()
		if ok != (err == nil && isString) || ok && !bytes.Equal(got, want) {
			t.Fatalf("%q is read as %q, %v, want %q, %v", text, got, ok, want, err)
		}
	})
}
