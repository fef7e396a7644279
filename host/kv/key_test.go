package kv_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"pgregory.net/rapid"
)

// elem is one element of a key: a string, or a number if isUint.
type elem struct {
	s      string
	n      uint64
	isUint bool
}

func build(elems []elem) kv.Key {
	var k kv.Key
	for _, e := range elems {
		if e.isUint {
			k = k.WithUint(e.n)
		} else {
			k = k.With(e.s)
		}
	}
	return k
}

// take is the inverse of build.
func take(k kv.Key) (elems []elem, ok bool) {
	for k != "" {
		if s, rest, ok := k.CutString(); ok {
			elems, k = append(elems, elem{s: s}), rest
		} else if n, rest, ok := k.CutUint(); ok {
			elems, k = append(elems, elem{n: n, isUint: true}), rest
		} else {
			return nil, false
		}
	}
	return elems, true
}

func compareElems(a, b []elem) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		c := cmp.Or(cmp.Compare(kind(x), kind(y)), strings.Compare(x.s, y.s), cmp.Compare(x.n, y.n))
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func kind(e elem) int {
	if e.isUint {
		return 1
	}
	return 0
}

// hostile strings are short and made of the bytes that the encoding uses
// itself, so that they are prefixes and look-alikes of each other.
func elemsGen() *rapid.Generator[[]elem] {
	hostile := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 3, 'a', 0xFE, 0xFF}), 0, 4),
		func(b []byte) string { return string(b) })
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Map(hostile, func(s string) elem { return elem{s: s} }),
		rapid.Map(rapid.String(), func(s string) elem { return elem{s: s} }),
		rapid.Map(rapid.Uint64(), func(n uint64) elem { return elem{n: n, isUint: true} }),
	), 0, 4)
}

func TestKeyOrderIsElementOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := elemsGen().Draw(t, "a"), elemsGen().Draw(t, "b")
		got := strings.Compare(string(build(a)), string(build(b)))
		if want := compareElems(a, b); got != want {
			t.Fatalf("compare %x with %x = %d, want %d", string(build(a)), string(build(b)), got, want)
		}
	})
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := elemsGen().Draw(t, "elems")
		got, ok := take(build(want))
		if !ok || compareElems(got, want) != 0 {
			t.Fatalf("take(build(%v)) = %v, %v", want, got, ok)
		}
	})
}

// A key is found under a prefix exactly if the prefix's elements are in front.
func TestKeyPrefixIsElementPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := elemsGen().Draw(t, "prefix"), elemsGen().Draw(t, "key")
		if rapid.Bool().Draw(t, "related") {
			b = append(a[:len(a):len(a)], b...)
		}
		want := len(a) <= len(b) && compareElems(a, b[:len(a)]) == 0
		if _, got := build(b).CutPrefix(build(a)); got != want {
			t.Fatalf("CutPrefix(%v, %v) = %v, want %v", b, a, got, want)
		}
	})
}

func TestKeyCutLeavesTheRestAlone(t *testing.T) {
	for _, k := range []kv.Key{"", "x", "\x02", "\x02abc", "\x02a\x01", "\x02a\x01\x00", "\x02a\x01\x03\x00", "\x03", "\x03\x00\x00\x00\x00\x00\x00\x00"} {
		if s, rest, ok := k.CutString(); ok || rest != k || s != "" {
			t.Errorf("%q.CutString() = %q, %q, %v, want a refusal", string(k), s, string(rest), ok)
		}
		if n, rest, ok := k.CutUint(); ok || rest != k || n != 0 {
			t.Errorf("%q.CutUint() = %d, %q, %v, want a refusal", string(k), n, string(rest), ok)
		}
	}
}

func TestKeyString(t *testing.T) {
	for _, c := range []struct {
		key  kv.Key
		want string
	}{
		{"", ""},
		{kv.NewKey("thread", "t1").WithUint(7), "thread/t1/7"},
		{kv.NewKey("a/b", "", "1", "x y", "\x00"), `"a/b"/""/"1"/"x y"/"\x00"`},
		{"raw", `"raw"`},
		{kv.NewKey("a") + "!", `"\x02a\x00!"`},
	} {
		if got := c.key.String(); got != c.want {
			t.Errorf("String of %q = %s, want %s", string(c.key), got, c.want)
		}
	}
}

// FuzzKey reads arbitrary bytes as a key: whatever can be taken apart must be
// exactly what building it again gives, so no two keys mean the same elements.
func FuzzKey(f *testing.F) {
	f.Add("")
	f.Add(string(kv.NewKey("thread", "a\x00b").WithUint(1 << 63)))
	f.Add("\x02a\x01\x01\x01\x02\x00\x03")
	f.Add("\x02\x01\x03\x00")
	f.Fuzz(func(t *testing.T, raw string) {
		k := kv.Key(raw)
		_ = k.String()
		elems, ok := take(k)
		if !ok {
			return
		}
		if again := build(elems); again != k {
			t.Fatalf("elements of %q build %q", raw, string(again))
		}
	})
}
