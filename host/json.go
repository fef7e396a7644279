package host

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

// eachMember calls fn for the members of the object b in order. The value
// aliases b.
func eachMember(b []byte, fn func(name string, value []byte) error) error {
	b = bytes.TrimLeft(b, jsonSpace)
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("not an object")
	}
	for b = next(b[1:]); b[0] != '}'; b = next(b) {
		k := valueEnd(b)
		name, _ := unquote(b[:k])
		b = next(b[k:]) // the colon is white space to next
		v := valueEnd(b)
		if err := fn(name, b[:v:v]); err != nil {
			return err
		}
		b = b[v:]
	}
	return nil
}

// eachElement calls fn for the elements of the array b in order.
func eachElement(b []byte, fn func(i int, value []byte) error) error {
	b = bytes.TrimLeft(b, jsonSpace)
	if len(b) == 0 || b[0] != '[' {
		return fmt.Errorf("not an array")
	}
	b = next(b[1:])
	for i := 0; b[0] != ']'; i++ {
		v := valueEnd(b)
		if err := fn(i, b[:v:v]); err != nil {
			return err
		}
		b = next(b[v:])
	}
	return nil
}

const jsonSpace = " \t\r\n"

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

// valueEnd returns the length of the value at the start of valid JSON.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// stringEnd returns the index of the quote that closes the string opened at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); {
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

// unquote returns the string that the JSON string v says.
func unquote(v []byte) (string, bool) {
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

// unquoted returns the bytes of the string that the JSON string v says, of v
// itself where it can.
func unquoted(v []byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	s, _ := unquote(v)
	return []byte(s)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. It escapes what JSON requires and
// nothing else; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// sizeOfString returns how many bytes appendString appends.
func sizeOfString(s string) int {
	n := len(s) + len(`""`)
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				n += len("\ufffd") - 1
			}
			i += size
			continue
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < 0x20:
			n += len(`\u0000`) - 1
		}
		i++
	}
	return n
}

// AppendJSONString appends s to dst as a JSON string, escaping what JSON
// requires and nothing else.
func AppendJSONString(dst []byte, s string) []byte { return appendString(dst, s) }

// jsonString returns s as a JSON string.
func jsonString(s string) json.RawMessage { return appendString(make([]byte, 0, len(s)+2), s) }

// member binds one member of an object to where its JSON goes.
type member struct {
	name     string
	required bool
	into     *json.RawMessage
}

// decodeMembers reads an object that has these members and no others, each at
// most once. The values are copies.
func decodeMembers(b []byte, members ...member) error {
	if err := checkJSON(b); err != nil {
		return err
	}
	err := eachMember(b, func(name string, value []byte) error {
		for _, m := range members {
			if m.name != name {
				continue
			}
			if *m.into != nil {
				return fmt.Errorf("%s is given twice", name)
			}
			*m.into = bytes.Clone(value)
			return nil
		}
		return fmt.Errorf("it has a member %.40q that this version does not know", name)
	})
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.required && *m.into == nil {
			return fmt.Errorf("it has no %s", m.name)
		}
	}
	return nil
}
