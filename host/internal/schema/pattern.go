package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of the patterns of one schema. Go's regular expressions take time in
// proportion to the text and the program, but a few bytes can be a program of
// millions of instructions, and classes of letters are lists of ranges.
const (
	maxPatternSize = 100_000 // instructions of all patterns of a schema together
	maxPatternWork = 600_000 // to parse them, in bytes of plain pattern
	tableWork      = 400     // the same of a class such as \pL
	foldWork       = 10_000  // of a range of letters of any case
)

// In drafts where formats count, a value may have to be a pattern. The pattern is
// parsed in one piece, so it is bounded.
const (
	maxFormatPattern = 12_000 // as maxPatternWork
	patternByteWork  = 16     // units of work for a byte of plain pattern
)

// patternWorkShare is the divisor of the work of a match: an instruction takes about
// this part of a unit for each byte of a text.
const patternWorkShare = 2

// pattern is a regular expression with the size of its program.
type pattern struct {
	*regexp.Regexp
	size int
}

// patternSet compiles the patterns of one schema, each once, within the bounds.
type patternSet struct {
	ctx        context.Context // the lifetime of the compilation, in which the library calls compile
	compiled   map[string]*pattern
	size, work int
	bound      error // the bound that a pattern exceeds, if one does
}

func newPatternSet(ctx context.Context) *patternSet {
	return &patternSet{ctx: ctx, compiled: map[string]*pattern{}}
}

// compile is the regular expression engine that the library calls.
func (set *patternSet) compile(s string) (jsonschema.Regexp, error) {
	if p, ok := set.compiled[s]; ok {
		return p, nil
	}
	if set.ctx.Err() != nil {
		return nil, contextEnd(set.ctx)
	}
	if set.work += patternWork(s); set.work > maxPatternWork {
		set.bound = fmt.Errorf("its patterns take too long to read: classes such as \\pL and ranges of any case are long lists")
		return nil, set.bound
	}
	p, err := compilePattern(s, maxPatternSize-set.size)
	if err == errLargePattern {
		set.bound = fmt.Errorf("its patterns have more than %d instructions: each repetition counts as often as it may be repeated", maxPatternSize)
	}
	if err != nil {
		return nil, err
	}
	set.size += p.size
	set.compiled[s] = p
	return p, nil
}

var errLargePattern = errors.New("the pattern has too many instructions")

// compilePattern compiles a pattern whose program has at most the given number of
// instructions.
func compilePattern(s string, most int) (*pattern, error) {
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := programSize(tree)
	if size > most {
		return nil, errLargePattern
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	return &pattern{re, size}, nil
}

// patternWork returns the work of parsing a pattern: classes of letters are long lists,
// and with (?i) each letter of a range is looked up separately.
func patternWork(s string) int {
	work := len(s) + tableWork*(strings.Count(s, `\p`)+strings.Count(s, `\P`))
	if !ignoresCase(s) {
		return work
	}
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '-' && (s[i+1] == '\\' || s[i+1] >= utf8.RuneSelf) {
			work += foldWork
		}
	}
	return work
}

// ignoresCase reports whether a pattern sets the flag i.
func ignoresCase(s string) bool {
	for {
		var found bool
		if _, s, found = strings.Cut(s, "(?"); !found {
			return false
		}
		flags := s
		if i := strings.IndexAny(s, ":)-<P"); i >= 0 {
			flags = s[:i]
		}
		if strings.Contains(flags, "i") {
			return true
		}
	}
}

// programSize returns the number of instructions that a pattern compiles to, at most
// maxPatternSize+1: repetitions are expanded.
func programSize(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n = min(n+programSize(sub)+1, maxPatternSize+1)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Min+1, re.Max)
	}
	return min(n, maxPatternSize+1)
}

// matches reports whether a pattern matches a text. It reads a long text piece by
// piece, and yields the processor in between.
func (m *workMeter) matches(p *pattern, text string) bool {
	work := len(text) * (p.size + 1) / patternWorkShare
	if work <= pieceWork {
		m.spend(1 + work)
		return p.MatchString(text)
	}
	return p.MatchReader(&pacedText{m, text, (p.size + patternWorkShare) / patternWorkShare})
}

// pacedText charges the work of a text while it is read.
type pacedText struct {
	meter *workMeter
	rest  string
	work  int // for each rune
}

func (t *pacedText) ReadRune() (r rune, size int, err error) {
	if t.rest == "" {
		return 0, 0, io.EOF
	}
	t.meter.spend(t.work)
	r, size = utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[size:]
	return r, size, nil
}
