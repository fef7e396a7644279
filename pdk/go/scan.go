package pdk

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may nest, the bound of the contract.
const maxDepth = 10_000

// A scanner reads JSON from a string, strictly: what it passes over is valid
// JSON in valid UTF-8. After the first failure every method is a no-op that
// reports false or a zero value, so callers check once. It uses no recursion, so
// hostile nesting cannot exhaust the stack.
type scanner struct {
	src   string
	pos   int
	what  string // what was expected, "" while all is well
	first bool   // the container just opened has had no element
	depth int

	kinds [4]uint64 // open containers of skip, one bit each: set for an object
	deep  []uint64  // the same beyond the first 256

	// arena takes strings that had escapes; strings point into it. Without one
	// they are allocated.
	arena *arena
}

// fail records the first failure and reports false.
func (s *scanner) fail(what string) bool {
	if s.what == "" {
		s.what = what
	}
	return false
}

func (s *scanner) failed() bool { return s.what != "" }

// err describes the failure, or is nil.
func (s *scanner) err() *Error {
	if s.what == "" {
		return nil
	}
	return &Error{Code: InvalidArgument, Message: "read JSON: " + s.what + " at byte " + strconv.Itoa(s.pos)}
}

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the byte at the position, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// kind skips white space and tells the kind of the value that follows.
func (s *scanner) kind() Kind {
	s.space()
	switch b := s.peek(); b {
	case '{':
		return KindObject
	case '[':
		return KindArray
	case '"':
		return KindString
	case 'n':
		return KindNull
	case 't', 'f':
		return KindBool
	default:
		if b == '-' || '0' <= b && b <= '9' {
			return KindNumber
		}
	}
	return KindNone
}

// end reports whether nothing but white space follows.
func (s *scanner) end() bool {
	if s.failed() {
		return false
	}
	s.space()
	if s.pos < len(s.src) {
		return s.fail("end of input expected")
	}
	return true
}

// open enters an object or an array.
func (s *scanner) open(bracket byte) bool {
	if s.failed() {
		return false
	}
	s.space()
	if s.peek() != bracket {
		if bracket == '{' {
			return s.fail("object expected")
		}
		return s.fail("array expected")
	}
	if s.depth++; s.depth > maxDepth {
		return s.fail("nested too deep")
	}
	s.pos++
	s.first = true
	return true
}

// next moves to the next element of the innermost container and reports false
// when the closing bracket was there instead, which it consumes.
func (s *scanner) next(bracket byte) bool {
	if s.failed() {
		return false
	}
	s.space()
	b := s.peek()
	if b == bracket {
		s.pos++
		s.depth--
		s.first = false
		return false
	}
	if s.first {
		s.first = false
		return true
	}
	if b != ',' {
		return s.fail("comma or closing bracket expected")
	}
	s.pos++
	return true
}

// key reads an object key and its colon. It is valid until the scanner's arena
// is reset.
func (s *scanner) key() string {
	key := s.str()
	if !s.colon() {
		return ""
	}
	return key
}

// skipKey passes over an object key and its colon.
func (s *scanner) skipKey() {
	if s.space(); !s.failed() {
		s.skipString()
		s.colon()
	}
}

func (s *scanner) colon() bool {
	if s.failed() {
		return false
	}
	s.space()
	if s.peek() != ':' {
		return s.fail("colon expected")
	}
	s.pos++
	return true
}

// raw passes over any value and returns its text.
func (s *scanner) raw() Raw {
	if s.failed() {
		return ""
	}
	s.space()
	start := s.pos
	if !s.skip() {
		return ""
	}
	return Raw(s.src[start:s.pos])
}

// str reads a string.
func (s *scanner) str() string {
	if s.failed() {
		return ""
	}
	s.space()
	start := s.pos + 1
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

// integer reads a number that is written as an integer.
func (s *scanner) integer() int {
	if s.failed() {
		return 0
	}
	start := s.here()
	if s.skipNumber(); s.failed() {
		return 0
	}
	n, ok := parseInt(s.src[start:s.pos])
	if !ok {
		s.fail("integer expected")
	}
	return n
}

// parseInt parses an integer that skipNumber has passed over. It is here because
// outlines are thousands of small integers.
func parseInt(text string) (int, bool) {
	digits := text
	if text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) > 18 {
		return 0, false
	}
	n := 0
	for i := range len(digits) {
		d := digits[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int(d)
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}

// boolean reads true or false; null counts as false.
func (s *scanner) boolean() bool {
	switch s.kind() {
	case KindBool:
		value := s.peek() == 't'
		return s.skip() && value
	case KindNull:
		s.skip()
		return false
	}
	s.fail("true or false expected")
	return false
}

// skip passes over any value.
func (s *scanner) skip() bool { return s.walk(nil) }

// walk passes over any value. At every string value, but not at the names of
// members, it calls onString, which reads the string, unless onString is nil.
func (s *scanner) walk(onString func()) bool {
	if s.failed() {
		return false
	}
	base := s.depth
	for {
		if onString != nil && s.kind() == KindString {
			if onString(); s.failed() {
				return false
			}
		} else if !s.skipToken() {
			return false
		}
		for {
			if s.depth == base {
				return true
			}
			if s.inObject() {
				if s.next('}') {
					s.skipKey()
					break
				}
			} else if s.next(']') {
				break
			}
			if s.failed() {
				return false
			}
		}
	}
}

// skipToken passes over a scalar or opens a container.
func (s *scanner) skipToken() bool {
	switch s.kind() {
	case KindObject:
		return s.open('{') && s.push(true)
	case KindArray:
		return s.open('[') && s.push(false)
	case KindString:
		_, ok := s.skipString()
		return ok
	case KindNumber:
		return s.skipNumber()
	case KindNull:
		return s.literal("null")
	case KindBool:
		if s.peek() == 't' {
			return s.literal("true")
		}
		return s.literal("false")
	}
	return s.fail("value expected")
}

// push records the kind of the container just opened.
func (s *scanner) push(object bool) bool {
	i := s.depth - 1
	word := s.word(i)
	if object {
		*word |= 1 << (i & 63)
	} else {
		*word &^= 1 << (i & 63)
	}
	return true
}

func (s *scanner) inObject() bool {
	i := s.depth - 1
	return *s.word(i)&(1<<(i&63)) != 0
}

func (s *scanner) word(i int) *uint64 {
	i >>= 6
	if i < len(s.kinds) {
		return &s.kinds[i]
	}
	i -= len(s.kinds)
	for i >= len(s.deep) {
		s.deep = append(s.deep, 0)
	}
	return &s.deep[i]
}

func (s *scanner) literal(word string) bool {
	if s.failed() {
		return false
	}
	if len(s.src)-s.pos < len(word) || s.src[s.pos:s.pos+len(word)] != word {
		return s.fail(word + " expected")
	}
	s.pos += len(word)
	return true
}

func (s *scanner) skipNumber() bool {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.fail("digit expected")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("digit expected")
		}
	}
	if b := s.peek(); b == 'e' || b == 'E' {
		s.pos++
		if b := s.peek(); b == '+' || b == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.fail("digit expected")
		}
	}
	return true
}

// digits passes over digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.pos
	for b := s.peek(); '0' <= b && b <= '9'; b = s.peek() {
		s.pos++
	}
	return s.pos > start
}

// skipString passes over a string and reports whether it holds escapes.
func (s *scanner) skipString() (escaped, ok bool) {
	if s.failed() {
		return false, false
	}
	if s.peek() != '"' {
		return false, s.fail("string expected")
	}
	s.pos++
	start, high := s.pos, byte(0)
	for s.pos < len(s.src) {
		b := s.src[s.pos]
		high |= b
		switch {
		case b == '"':
			if high >= utf8.RuneSelf && !utf8.ValidString(s.src[start:s.pos]) {
				return false, s.fail("string is not UTF-8")
			}
			s.pos++
			return escaped, true
		case b == '\\':
			escaped = true
			if !s.skipEscape() {
				return false, false
			}
		case b < ' ':
			return false, s.fail("control character in a string")
		default:
			s.pos++
		}
	}
	return false, s.fail("string does not end")
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
			out = append(out, text[i])
			i++
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
