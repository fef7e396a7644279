package pdk

import (
	"math/bits"
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

// space skips white space. It is small so that the usual case, that there is
// none, is inlined.
func (s *scanner) space() {
	if s.pos < len(s.src) && s.src[s.pos] > ' ' {
		return
	}
	s.pos = skipSpace(s.src, s.pos)
}

// skipSpace returns the index of the first byte from i on that is not white
// space.
func skipSpace(src string, i int) int {
	for i < len(src) {
		switch src[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
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
	if s.space(); s.failed() {
		return
	}
	if s.peek() == '"' {
		end, ascii := plainRun(s.src, s.pos+1)
		if ascii && end+1 < len(s.src) && s.src[end] == '"' && s.src[end+1] == ':' {
			s.pos = end + 2
			return
		}
	}
	s.skipString()
	s.colon()
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

// maxDigits is how many digits surely fit an int of 64 bits.
const maxDigits = 18

// integer reads a number that is written as an integer. Outlines are thousands
// of them.
func (s *scanner) integer() int {
	if s.failed() {
		return 0
	}
	i, src, sign := s.here(), s.src, 1
	if s.peek() == '-' {
		i, sign = i+1, -1
	}
	start, n := i, 0
	for i < len(src) && src[i]-'0' <= 9 {
		n = n*10 + int(src[i]-'0')
		i++
	}
	s.pos = i
	b := s.peek()
	if i == start || i-start > maxDigits || i-start > 1 && src[start] == '0' || b == '.' || b == 'e' || b == 'E' {
		s.fail("integer expected")
		return 0
	}
	return sign * n
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
	base := s.depth
	for !s.failed() {
		switch s.token(onString) {
		case '{':
			s.skipKey()
			continue
		case '[':
			continue
		}
		for !s.failed() && s.depth > base && !s.another() {
		}
		if s.depth == base {
			break
		}
	}
	return !s.failed()
}

// token passes over a scalar or an empty container, or enters one that is not
// empty, whose bracket it returns.
func (s *scanner) token(onString func()) byte {
	s.space()
	b := s.peek()
	switch b {
	case '"':
		if onString != nil {
			onString()
			return 0
		}
		if end, ascii := plainRun(s.src, s.pos+1); ascii && end < len(s.src) && s.src[end] == '"' {
			s.pos = end + 1
			return 0
		}
		s.skipString()
		return 0
	case '{', '[':
		s.open(b)
		s.first = false
		if s.space(); s.peek() == b+2 { // '{'+2 is '}', '['+2 is ']'
			s.pos++
			s.depth--
			return 0
		}
		s.push(b == '{')
		return b
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		if b != '-' && (b < '0' || b > '9') {
			s.fail("value expected")
		} else {
			s.skipNumber()
		}
	}
	return 0
}

// another moves to the next element of the innermost container, past its key in
// an object, or reports false when the container ended instead.
func (s *scanner) another() bool {
	s.space()
	object := s.inObject()
	switch b := s.peek(); {
	case b == ',':
		s.pos++
		if object {
			s.skipKey()
		}
		return true
	case b == '}' && object, b == ']' && !object:
		s.pos++
		s.depth--
		return false
	}
	return s.fail("comma or closing bracket expected")
}

// push records the kind of the container just opened.
func (s *scanner) push(object bool) {
	if s.failed() {
		return
	}
	i := s.depth - 1
	word := s.word(i)
	if object {
		*word |= 1 << (i & 63)
	} else {
		*word &^= 1 << (i & 63)
	}
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
	i, src := s.pos, s.src
	for i < len(src) && src[i]-'0' <= 9 {
		i++
	}
	some := i > s.pos
	s.pos = i
	return some
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

// plainRun returns the index of the first byte of src from i on that is special
// in a JSON string (a quote, a backslash, a control character), len(src) if
// there is none, and whether all bytes before it are ASCII. It looks at eight
// bytes at a time, which matters: a guest runs this for every byte of every
// history that it is given.
func plainRun(src string, i int) (end int, ascii bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	high := uint64(0)
	for ; i+8 <= len(src); i += 8 {
		b := src[i : i+8]
		x := load64(b)
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

// load64 returns the first eight bytes of b, the first in the lowest bits. The
// compiler makes it one load.
func load64(b string) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
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
