package tokens

import "unicode"

// A class is a set of the kinds of characters that the patterns distinguish.
// Each character is of exactly one kind, so a class of several kinds is a
// bracket expression of the pattern.
type class uint8

const (
	upper   class = 1 << iota // \p{Lu} and \p{Lt}
	lower                     // \p{Ll}
	uncased                   // \p{Lm} and \p{Lo}
	mark                      // \p{M}
	number                    // \p{N}
	newline                   // \r and \n
	space                     // \s but for those two
	other                     // the rest: punctuation, symbols, controls, unassigned

	letter = upper | lower | uncased // \p{L}
	white  = newline | space         // \s
	symbol = mark | other            // [^\s\p{L}\p{N}]
	prefix = space | mark | other    // [^\r\n\p{L}\p{N}]
	head   = upper | uncased | mark  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	tail   = lower | uncased | mark  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	either = uncased | mark          // in both
	spread = 0x20000                 // characters with an entry in classes
)

// classes holds the class of each character of the first two planes, where
// nearly all text lives. It is filled from package unicode, which also serves
// the expression engine below tiktoken-go, so that both agree in any version of
// Unicode that the toolchain has.
type classes [spread]class

// newClasses fills a table, which takes about 0.3 ms.
func newClasses() *classes {
	c := new(classes)
	for i := range c {
		c[i] = other
	}
	for _, row := range classRows() {
		c.fill(row.table, row.class)
	}
	c['\r'], c['\n'] = newline, newline
	return c
}

// A classRow says that the members of a table are of a class.
type classRow struct {
	table *unicode.RangeTable
	class class
}

func classRows() []classRow {
	return []classRow{
		{unicode.Lu, upper}, {unicode.Lt, upper}, {unicode.Ll, lower},
		{unicode.Lm, uncased}, {unicode.Lo, uncased},
		{unicode.M, mark}, {unicode.N, number}, {unicode.White_Space, space},
	}
}

// fill sets the class of the characters of t.
func (c *classes) fill(t *unicode.RangeTable, to class) {
	for _, r := range t.R16 {
		for x := uint32(r.Lo); x <= uint32(r.Hi); x += uint32(r.Stride) {
			c[x] = to
		}
	}
	for _, r := range t.R32 {
		for x := r.Lo; x <= r.Hi && x < spread; x += r.Stride {
			c[x] = to
		}
	}
}

// of is the class of r.
func (c *classes) of(r rune) class {
	if uint32(r) < spread {
		return c[r]
	}
	for _, row := range classRows() {
		if unicode.Is(row.table, r) {
			return row.class
		}
	}
	return other
}
