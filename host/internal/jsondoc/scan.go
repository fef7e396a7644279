package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// The functions below read one level of JSON that json.Valid has accepted and
// write strings. encoding/json does either only for whole Go values: it cannot
// keep the members that a struct does not know, in order, nor append to a
// buffer.

// EachMember calls fn for the members of the object b in order. The value
// aliases b.
func EachMember(b []byte, fn func(name string, value []byte) error) error {
	return eachMember(b, func(name, value []byte) error { return fn(string(name), value) })
}

// eachMember is [EachMember] with names that may alias b.
func eachMember(b []byte, fn func(name, value []byte) error) error {
	b = bytes.TrimLeft(b, Space)
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("not an object")
	}
	for b = next(b[1:]); b[0] != '}'; b = next(b) {
		k := ValueEnd(b)
		name := unquoted(b[:k])
		b = next(b[k:]) // the colon is white space to next
		v := ValueEnd(b)
		if err := fn(name, b[:v:v]); err != nil {
			return err
		}
		b = b[v:]
	}
	return nil
}

// EachElement calls fn for the elements of the array b in order.
func EachElement(b []byte, fn func(i int, value []byte) error) error {
	b = bytes.TrimLeft(b, Space)
	if len(b) == 0 || b[0] != '[' {
		return fmt.Errorf("not an array")
	}
	b = next(b[1:])
	for i := 0; b[0] != ']'; i++ {
		v := ValueEnd(b)
		if err := fn(i, b[:v:v]); err != nil {
			return err
		}
		b = next(b[v:])
	}
	return nil
}

// CountElements returns how many elements an array has; 0 for any other value.
func CountElements(b []byte) (n int) {
	_ = EachElement(b, func(int, []byte) error { n++; return nil })
	return n
}

// Space is the white space of JSON.
const Space = " \t\r\n"

// next skips white space and separators.
func next(b []byte) []byte {
	for len(b) > 0 {
		switch b[0] {
		case ' ', '\t', '\r', '\n', ',', ':':
			b = b[1:]
		default:
			return b
		}
	}
	return b
}

// ValueEnd returns the length of the value at the start of b, at most len(b). It is right
// for valid JSON only.
func ValueEnd(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return StringEnd(b, 0) + 1
	case '{', '[':
		return nestedEnd(b)
	}
	for i, c := range b {
		switch c {
		case ',', ':', '}', ']', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return len(b)
}

// nestedEnd returns the length of the object or array at the start of valid JSON.
func nestedEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = StringEnd(b, i)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// shortString is how many bytes of a string are read one by one: a search takes longer
// to begin than to pass over a short string.
const shortString = 16

// StringEnd returns the index of the quote that closes the string opened at i.
func StringEnd(b []byte, i int) int {
	short := min(len(b), i+shortString)
	for i++; i < short && b[i] != '\\'; i++ {
		if b[i] == '"' {
			return i
		}
	}
	return longStringEnd(b, i)
}

// longStringEnd is StringEnd from an index within the string, at which no escape is
// half read.
func longStringEnd(b []byte, i int) int {
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b) - 1
		}
		end := i + n
		back := end
		for back > i && b[back-1] == '\\' {
			back--
		}
		if (end-back)%2 == 0 {
			return end
		}
		i = end + 1
	}
	return len(b) - 1
}

// Unquote returns the string that the JSON string v encodes.
func Unquote(v []byte) (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err == nil
}

// unquoted returns the bytes of the string that the JSON string v encodes; they alias v
// where possible.
func unquoted(v []byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	s, _ := Unquote(v)
	return []byte(s)
}

// Check returns an error with the position at which b is not JSON in UTF-8.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("not valid UTF-8")
	}
	if !json.Valid(b) {
		return fmt.Errorf("not valid JSON: %w", json.Unmarshal(b, new(json.RawMessage)))
	}
	return nil
}

// CountSigns counts what separates the values of JSON. It counts signs in strings as
// well: it is a bound, and fast.
func CountSigns(raw []byte) int {
	return bytes.Count(raw, []byte{','}) + bytes.Count(raw, []byte{':'}) + bytes.Count(raw, []byte{'{'}) + bytes.Count(raw, []byte{'['})
}
