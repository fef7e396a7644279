package demomodel

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// kind is the kind of an entity.
type kind int

const (
	quoted kind = iota
	email
	address // a URL
	secret  // card numbers and their masks: never used
	phone
	date
	id
	number
)

// entity is a piece of a text that may be an argument.
type entity struct {
	kind  kind
	text  string // without quotes or #
	isID  bool   // may name a thing; numbers may too
	start int
	end   int
}

// expression returns what compiles a regular expression when it is first matched: programs
// that link this package start without.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// maxEntities bounds how many pieces of one text are looked at.
const maxEntities = 200

// finders find entities, the surest kind first: a later finder does not see the
// entities of an earlier one.
var finders = []struct {
	kind    kind
	pattern func() *regexp.Regexp
}{
	{quoted, expression("\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»|`([^`\n]+)`")},
	{email, expression(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)},
	{address, expression(`https?://[^\s<>"]*[^\s<>".,;:!?)]`)},
	{secret, expression(`\b\d(?:[ -]?\d){12,18}\b`)},
	{secret, expression(`(?:\d{2,6}[ -]?)?(?:[*•●#]{2,}[ -]?|\b[Xx]{4}\b[ -]?)+(?:\d{2,6}\b)?`)},
	{secret, expression(`\[[^\]\n]*[A-Za-z*•][^\]\n]*\]|<[^>\n]*[A-Za-z*•][^>\n]*>`)}, // [card ending in 1111]
	{secret, expression(`(?i)\b(?:card|visa|mastercard|amex|ending(?: in| with)?|cvv|cvc|pin)(?: number)?\W{1,3}\d{3,}\b`)},
	{phone, expression(`\+\d[\d ()/-]{6,}\d|\(?\b\d{3}\)?[-. ]\d{3,4}[-. ]\d{4}\b`)},
	{date, expression(`\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{4}\b|\b(?:today|tomorrow|yesterday)\b`)},
	{id, expression(`#(\w*\d\w*(?:-\w+)*)|\b([A-Za-z]{1,12}[-_]\d{2,}\w*|[A-Z]{1,6}\d{2,}\w*|\w+(?:-\w+)+)\b`)},
	{number, expression(`-?\d+(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?`)},
}

// entities returns the entities of a text, in order.
func entities(text string) []entity {
	rest := []byte(text)
	var out []entity
	for _, f := range finders {
		for _, m := range f.pattern().FindAllSubmatchIndex(rest, maxEntities) {
			e := entity{kind: f.kind, start: m[0], end: m[1], text: text[m[0]:m[1]]}
			for g := 2; g < len(m); g += 2 {
				if m[g] >= 0 {
					e.text = text[m[g]:m[g+1]]
				}
			}
			if e.kind == id && !strings.ContainsAny(e.text, "0123456789") || e.kind == number && partOfWord(rest, e) {
				continue
			}
			e.isID = e.kind == id || e.kind == number && namesThing(text, e)
			out = append(out, e)
			blank(rest[e.start:e.end])
		}
	}
	slices.SortFunc(out, func(a, b entity) int { return a.start - b.start })
	return out[:min(len(out), maxEntities)]
}

// blank hides an entity from the finders that follow.
func blank(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

// partOfWord reports whether a number touches a letter: 3rd, v2.
func partOfWord(text []byte, e entity) bool {
	letter := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= 'A' && text[i] <= 'Z' || text[i] == '_')
	}
	return letter(e.start-1) || letter(e.end)
}

// minIDDigits is how many digits make a number an id without a word before it.
const minIDDigits = 3

var (
	idWord     = expression(`(?i)\b(?:order|orders|number|no\.?|nr\.?|id|ticket|invoice|case|item|account|customer|ref|reference|and|or|,)\s*$`)
	yearWord   = expression(`(?i)\b(?:in|since|until|before|after|year|during)\s*$`)
	amountSign = expression(`[$€£¥]\s*$`)
	unitWord   = expression(`(?i)^\s*(?:%|[$€£¥°]|(?:percent|dollars?|euros?|usd|eur|gbp|km|kg|g|m|cm|mm|miles?|hours?|minutes?|seconds?|days?|weeks?|months?|years?|degrees|times|tokens|bytes|mb|gb|kb)\b)`)
)

// namesThing reports whether a number may be an id: not an amount, not a year.
func namesThing(text string, e entity) bool {
	before, after := text[max(e.start-20, 0):e.start], text[e.end:min(e.end+12, len(text))]
	switch {
	case strings.ContainsAny(e.text, ".,-"), amountSign().MatchString(before), unitWord().MatchString(after):
		return false
	case len(e.text) == 4 && (e.text[:2] == "19" || e.text[:2] == "20") && yearWord().MatchString(before):
		return false
	}
	return len(e.text) >= minIDDigits || idWord().MatchString(before)
}

// idsIn returns the ids of a text, each once, in order.
func idsIn(text string) []string {
	var out []string
	for _, e := range entities(text) {
		if e.isID && !slices.Contains(out, e.text) {
			out = append(out, e.text)
		}
	}
	return out
}

// arithmetic is an expression with at least one operator: 17*23, 2 + 3 / 4.
var arithmetic = expression(`[(\d][\d.()]*(?: +[\d.()]+)*(?:(?:\s*[*/^%+]|\s[-x×]\s)\s*[\d.()]+(?: +[\d.()]+)*)+`)

// expressionIn returns the arithmetic expression of a text, or "".
func expressionIn(text string) string {
	masked := []byte(text)
	for _, e := range entities(text) {
		if e.kind == date || e.kind == secret || e.kind == phone || e.kind == address {
			blank(masked[e.start:e.end])
		}
	}
	m := arithmetic().FindIndex(masked)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(text[m[0]:m[1]])
}
