// Inside the package, because only some classes of some characters can be
// told apart from outside.

package tokens

import (
	"testing"
	"unicode"
)

// TestClassOfEveryCharacter compares the table with the categories that the
// patterns name, as package unicode has them.
func TestClassOfEveryCharacter(t *testing.T) {
	t.Parallel()
	c := newClasses()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := c.of(r), classOf(r); got != want {
			t.Errorf("class of %U is %08b, want %08b", r, got, want)
		}
	}
}

// classOf decides by the definitions of the classes, one after the other.
func classOf(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsSpace(r):
		return space
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.Is(unicode.L, r):
		return uncased
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	}
	return other
}
