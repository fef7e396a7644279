package pdk

import "strconv"

// maxDepth is how deep arrays and objects may nest, the bound of the contract.
const maxDepth = 10_000

// A scanner reads JSON from a string, strictly: what it passes over is valid
// JSON in valid UTF-8. After the first failure every method is a no-op that
// reports false or a zero value, so callers check once. It uses no recursion, so
// hostile nesting cannot exhaust the stack.
type scanner struct {
	src   string
	pos   int
	what  string // the expected token, "" before the first fault
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

// space skips white space. It is small so that the usual case, no white space, is
// inlined.
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

// here skips white space and returns the position.
func (s *scanner) here() int {
	s.space()
	return s.pos
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

// maxDigits is how many digits surely fit an int of 64 bits.
const maxDigits = 18

// integer reads a number that is an integer. Outlines are thousands of them, and
// hosts write digits.
func (s *scanner) integer() int {
	if s.failed() {
		return 0
	}
	begin, src, sign := s.here(), s.src, 1
	i := begin
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
	if i == start || i-start > 1 && src[start] == '0' {
		s.fail("integer expected")
		return 0
	}
	if i-start > maxDigits || b == '.' || b == 'e' || b == 'E' {
		return s.spelledInteger(begin)
	}
	return sign * n
}

// spelledInteger reads the integer at begin, however it is written.
func (s *scanner) spelledInteger(begin int) int {
	s.pos = begin
	if !s.skipNumber() {
		return 0
	}
	n, ok := spelledInt(s.src[begin:s.pos])
	if !ok || int64(int(n)) != n {
		s.fail("integer expected")
		return 0
	}
	return int(n)
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
