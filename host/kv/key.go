package kv

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Key is the position of an entry within its partition. Keys are ordered by their
// bytes. A store takes any bytes; keys of one application should be made with [NewKey],
// [Key.With] and [Key.WithUint], which join elements so that
//
//   - two lists of elements are two keys, whatever bytes the elements hold;
//   - keys compare as their elements do, one after another: strings by bytes,
//     numbers by value, a string before a number, the shorter list first;
//   - a key used as Range.Prefix finds the keys that have exactly its elements
//     in front: NewKey("thread", "a") does not find NewKey("thread", "ab").
//
// A Key is a string, so it can be compared, shared and used in a map.
type Key string

// The encoding of elements. The tag comes first, so that a reader knows what follows
// and a string can never be taken for a number.
//
// A string is tagString, its bytes, terminator. The terminator is below every
// byte of a string and never one of them: 0x00 is written 0x01 0x01, and 0x01
// is written 0x01 0x02. (The usual way, 0x00 as 0x00 0xFF, keeps the order too,
// but then the key of "a" is a prefix of the key of "a\x00".) A number is
// tagUint and its eight bytes, highest first.
const (
	terminator = 0x00
	escape     = 0x01
	tagString  = 0x02
	tagUint    = 0x03
	uintLen    = 1 + 8
)

// NewKey returns a key of string elements.
func NewKey(elems ...string) Key { return Key("").With(elems...) }

// With returns k with string elements added at its end.
func (k Key) With(elems ...string) Key {
	size := len(k)
	for _, e := range elems {
		size += len(e) + 2
	}
	var b strings.Builder // its string is not copied again
	b.Grow(size)
	b.WriteString(string(k))
	for _, e := range elems {
		writeString(&b, e)
	}
	return Key(b.String())
}

func writeString(b *strings.Builder, s string) {
	b.WriteByte(tagString)
	for {
		i := nextEscape(s)
		b.WriteString(s[:i])
		if i == len(s) {
			b.WriteByte(terminator)
			return
		}
		b.WriteByte(escape)
		b.WriteByte(s[i] + 1)
		s = s[i+1:]
	}
}

// nextEscape returns the index of the first byte of s that is escaped, or the length of
// s.
func nextEscape(s string) int {
	for i := range len(s) {
		if s[i] <= escape {
			return i
		}
	}
	return len(s)
}

// WithUint returns k with a number added at its end. For descending order in
// an ascending scan, add ^n.
func (k Key) WithUint(n uint64) Key {
	var b strings.Builder
	b.Grow(len(k) + uintLen)
	b.WriteString(string(k))
	b.WriteByte(tagUint)
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], n)
	b.Write(number[:])
	return Key(b.String())
}

// CutPrefix returns the rest of k after prefix, for reading the elements of a key from
// a scan of prefix: the Cut methods parse it from the front.
func (k Key) CutPrefix(prefix Key) (rest Key, ok bool) {
	s, ok := strings.CutPrefix(string(k), string(prefix))
	return Key(s), ok
}

// CutString takes the string element at the front of k. If k does not begin
// with one, it returns k whole and false.
func (k Key) CutString() (elem string, rest Key, ok bool) {
	if k == "" || k[0] != tagString {
		return "", k, false
	}
	var b []byte
	for s := string(k[1:]); ; {
		i := nextEscape(s)
		b = append(b, s[:i]...)
		switch s = s[i:]; {
		case strings.HasPrefix(s, "\x00"):
			return string(b), Key(s[1:]), true
		case strings.HasPrefix(s, "\x01\x01"), strings.HasPrefix(s, "\x01\x02"):
			b = append(b, s[1]-1)
			s = s[2:]
		default:
			return "", k, false
		}
	}
}

// CutUint takes the number at the front of k. If k does not begin with one, it
// returns k whole and false.
func (k Key) CutUint() (n uint64, rest Key, ok bool) {
	if len(k) < uintLen || k[0] != tagUint {
		return 0, k, false
	}
	return binary.BigEndian.Uint64([]byte(k[1:uintLen])), k[uintLen:], true
}

// String shows the elements joined by slashes, for people: strings are quoted
// where they could be misread. A key that is not made of elements is shown as
// one quoted string. The bytes of the key are string(k).
func (k Key) String() string {
	var elems []string
	for rest := k; rest != ""; {
		if s, r, ok := rest.CutString(); ok {
			elems, rest = append(elems, display(s)), r
		} else if n, r, ok := rest.CutUint(); ok {
			elems, rest = append(elems, strconv.FormatUint(n, 10)), r
		} else {
			return fmt.Sprintf("%q", string(k))
		}
	}
	return strings.Join(elems, "/")
}

func display(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '/' || r == '"'
	}) < 0
	if plain && (s[0] < '0' || s[0] > '9') {
		return s
	}
	return strconv.Quote(s)
}
