package pdk

import (
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string.
func (s *scanner) str() string {
	if s.failed() {
		return ""
	}
	s.space()
	start := s.pos + 1
	if s.peek() == '"' {
		if end, ascii := plainRun(s.src, start); ascii && end < len(s.src) && s.src[end] == '"' {
			s.pos = end + 1
			return s.src[start:end]
		}
	}
	escaped, ok := s.skipString()
	if !ok {
		return ""
	}
	text := s.src[start : s.pos-1]
	if !escaped {
		return text
	}
	return s.unescape(text)
}

// skipString passes over a string and reports whether it holds escapes.
func (s *scanner) skipString() (escaped, ok bool) {
	if s.failed() {
		return false, false
	}
	if s.peek() != '"' {
		return false, s.fail("string expected")
	}
	start, ascii := s.pos+1, true
	for i := start; ; {
		n, plain := plainRun(s.src, i)
		ascii = ascii && plain
		s.pos = n
		if n == len(s.src) {
			return false, s.fail("string does not end")
		}
		switch s.src[n] {
		case '"':
			if !ascii && !utf8.ValidString(s.src[start:n]) {
				return false, s.fail("string is not UTF-8")
			}
			s.pos++
			return escaped, true
		case '\\':
			escaped = true
			if !s.skipEscape() {
				return false, false
			}
			i = s.pos
		default:
			return false, s.fail("control character in a string")
		}
	}
}

// Words of eight equal bytes: times a byte it is that byte everywhere.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// plainRun returns the index of the first byte of src from i on that is special
// in a JSON string (a quote, a backslash, a control character), len(src) without
// such a byte, and whether all bytes before it are ASCII. It looks at eight
// bytes at a time, which matters: a guest runs this for every byte of every
// history that it is given.
func plainRun(src string, i int) (end int, ascii bool) {
	high := uint64(0)
	for ; i+8 <= len(src); i += 8 {
		x := load64(src, i)
		quote, back := x^('"'*ones), x^('\\'*ones)
		// The lowest byte of each that is flagged is rightly so; a borrow can
		// only flag higher ones by mistake.
		special := ((quote-ones)&^quote | (back-ones)&^back | (x-' '*ones)&^x) & highs
		if special != 0 {
			n := bits.TrailingZeros64(special) >> 3
			high |= x & (1<<(8*n) - 1)
			return i + n, high&highs == 0
		}
		high |= x
	}
	for ; i < len(src); i++ {
		b := src[i]
		if b == '"' || b == '\\' || b < ' ' {
			break
		}
		high |= uint64(b)
	}
	return i, high&highs == 0
}

func (s *scanner) skipEscape() bool {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
		if hex4(s.src[s.pos+1:]) < 0 {
			return s.fail("four hexadecimal digits expected")
		}
		s.pos += 5
		return true
	}
	return s.fail("unknown escape")
}

// hex4 returns the value of the first four bytes of text as hexadecimal digits,
// or -1.
func hex4(text string) rune {
	if len(text) < 4 {
		return -1
	}
	r := rune(0)
	for i := range 4 {
		b := text[i]
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(b)
	}
	return r
}

// unescape returns text, whose escapes skipString has checked, without them.
// Unpaired surrogates become U+FFFD.
func (s *scanner) unescape(text string) string {
	var out []byte
	if s.arena == nil {
		out = make([]byte, 0, len(text))
	} else {
		out = s.arena.take(len(text))
	}
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			end, _ := plainRun(text, i)
			out = append(out, text[i:end]...)
			i = end
			continue
		}
		if text[i+1] != 'u' {
			out = append(out, unescaped(text[i+1]))
			i += 2
			continue
		}
		r := hex4(text[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(text)-i >= 6 && text[i] == '\\' && text[i+1] == 'u' {
				low = hex4(text[i+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return borrow(out)
}

// unescaped returns what the escape with letter b stands for.
func unescaped(b byte) byte {
	switch b {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return b
}
