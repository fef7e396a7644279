package tokens

import "unicode/utf8"

// A splitter cuts a text into the pieces that are encoded on their own. It
// does by hand what tiktoken does with a regular expression, and the comments
// quote the alternative that a branch stands for. In all of them \s+(?!\S)
// means a run of white space but for its last character, if something
// follows.
type splitter struct {
	class *classes
	text  string
	steps int // characters looked at since the splitter was made, for tests
}

// A pattern returns the end of the piece that begins at i, which is inside
// the text.
type pattern func(s *splitter, i int) int

// gpt2 is the pattern of r50k_base and p50k_base:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2(s *splitter, i int) int {
	if n := s.contraction(i, 0); n > 0 {
		return i + n
	}
	c, w := s.at(s.afterSpace(i))
	j := s.afterSpace(i) + w
	switch {
	case c&letter != 0:
		return s.run(j, letter)
	case c&number != 0:
		return s.run(j, number)
	case c&symbol != 0:
		return s.run(j, symbol)
	}
	return s.blank(i)
}

// cl100k is the pattern of cl100k_base:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func cl100k(s *splitter, i int) int {
	if n := s.contraction(i, ignoreCase); n > 0 {
		return i + n
	}
	c, w := s.at(i)
	if c&letter != 0 {
		return s.run(i+w, letter)
	}
	if c&prefix != 0 {
		if j := s.run(i+w, letter); j > i+w {
			return j
		}
	}
	return s.noWord(i, c, newlines)
}

// o200k is the pattern of o200k_base, where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
// and W is [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
//
//	[^\r\n\p{L}\p{N}]?U*W+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?U+W*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func o200k(s *splitter, i int) int {
	c, w := s.at(i)
	end := 0
	switch {
	case c&letter != 0:
		end, _ = s.word(i)
	case c&prefix != 0:
		var caps bool
		end, caps = s.word(i + w)
		if c == mark && (end == 0 || caps) {
			// A mark is a word of the first alternative by itself, which
			// comes before the second with the mark as prefix.
			end = i + w
		}
	}
	if end > 0 {
		return end + s.contraction(end, ignoreCase)
	}
	return s.noWord(i, c, newlinesAndSlashes)
}

// word is the end of U*W+ at i or else of U+W*, which is then a run of
// capitals, or 0.
func (s *splitter) word(i int) (end int, caps bool) {
	j, split := i, 0 // split is behind the last character that is in U and W
	for {
		c, w := s.at(j)
		if c == lower {
			return s.run(j+w, tail), false
		}
		if c&head == 0 {
			break
		}
		j += w
		if c&either != 0 {
			split = j
		}
	}
	s.steps += j - i + 1
	if split > 0 {
		return split, false
	}
	if j == i {
		return 0, false
	}
	return j, true
}

// noWord is the part of the patterns from \p{N}{1,3} on, at a character of
// class c; trailing tells which bytes may follow symbols.
func (s *splitter) noWord(i int, c class, trailing func(byte) bool) int {
	if c&number != 0 {
		return s.digits(i)
	}
	if j := s.run(s.afterSpace(i), symbol); j > s.afterSpace(i) {
		for j < len(s.text) && trailing(s.text[j]) {
			j++
		}
		return j
	}
	return s.lines(i)
}

func newlines(b byte) bool           { return b == '\n' || b == '\r' }
func newlinesAndSlashes(b byte) bool { return newlines(b) || b == '/' }

// digits is the end of \p{N}{1,3} at i.
func (s *splitter) digits(i int) int {
	for range 3 {
		c, w := s.at(i)
		if c&number == 0 {
			break
		}
		i += w
	}
	return i
}

// lines is the end of \s*[\r\n]+|\s+(?!\S)|\s+ at i: a run of white space up
// to its last line break, if it has one.
func (s *splitter) lines(i int) int {
	for j := s.run(i, white); j > i; j-- {
		if newlines(s.text[j-1]) {
			return j
		}
		s.steps++
	}
	return s.blank(i)
}

// blank is the end of \s+(?!\S)|\s+ at i.
func (s *splitter) blank(i int) int {
	j := s.run(i, white)
	if j == len(s.text) {
		return j
	}
	_, w := utf8.DecodeLastRuneInString(s.text[i:j])
	if j-w > i {
		return j - w
	}
	return j
}

// at is the class and the width of the character at i, and 0, 0 at the end.
func (s *splitter) at(i int) (class, int) {
	if i >= len(s.text) {
		return 0, 0
	}
	if b := s.text[i]; b < utf8.RuneSelf {
		return s.class[b], 1
	}
	r, w := utf8.DecodeRuneInString(s.text[i:])
	return s.class.of(r), w
}

// run is the end of the longest run of characters of set from i on.
func (s *splitter) run(i int, set class) int {
	j := i
	for {
		c, w := s.at(j)
		if c&set == 0 {
			s.steps += j - i + 1
			return j
		}
		j += w
	}
}

// afterSpace is the position behind the blank at i, if there is one.
func (s *splitter) afterSpace(i int) int {
	if s.text[i] == ' ' {
		return i + 1
	}
	return i
}

// ignoreCase is the bit that capital ASCII letters lack.
const ignoreCase = 'a' - 'A'

// contraction is the length of 's|'t|'re|'ve|'m|'ll|'d at i, or 0; fold is 0
// or ignoreCase.
//
// U+017F, the long s whose capital is S, is not an s here, nor in tiktoken-go.
func (s *splitter) contraction(i int, fold byte) int {
	if i+1 >= len(s.text) || s.text[i] != '\'' {
		return 0
	}
	a := s.text[i+1] | fold
	if a == 's' || a == 't' || a == 'm' || a == 'd' {
		return 2
	}
	if i+2 >= len(s.text) {
		return 0
	}
	b := s.text[i+2] | fold
	if b == 'e' && (a == 'r' || a == 'v') || a == 'l' && b == 'l' {
		return 3
	}
	return 0
}
