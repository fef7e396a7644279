package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Faults are described in the library's words. A sentence is bounded for every value
// and every schema.
const (
	maxFaults     = 5   // listed in one sentence
	maxListed     = 20  // names or values listed in a fault
	maxShownBytes = 200 // of a text that is shown
)

// faultList holds the faults of a value, and their paths.
type faultList struct {
	list []fault
	n    int  // including faults that are not listed
	cut  bool // there may be more
}

type fault struct {
	path []string
	kind jsonschema.ErrorKind
}

// saidFault is a fault with its own words.
type saidFault struct {
	jsonschema.ErrorKind
	words string
}

// faultMark is a length of a list.
type faultMark struct{ listed, n int }

func (l *faultList) mark() faultMark { return faultMark{len(l.list), l.n} }

// restore forgets the faults that came after a mark.
func (l *faultList) restore(m faultMark) { l.list, l.n = l.list[:m.listed], m.n }

func (l *faultList) add(path []string, kind func() jsonschema.ErrorKind) {
	if l.n++; len(l.list) < maxFaults {
		l.list = append(l.list, fault{append([]string(nil), path...), kind()})
	}
}

// sentence lists the faults and their paths, each fault in the words of tell.
func (l *faultList) sentence(tell func(*fault) string) string {
	parts := make([]string, 0, len(l.list)+1)
	for i := range l.list {
		f := &l.list[i]
		parts = append(parts, "/"+shownPath(f.path)+": "+tell(f))
	}
	switch more := l.n - len(l.list); {
	case len(parts) == 0:
		return "it does not fit"
	case l.cut:
		parts = append(parts, "and perhaps more")
	case more > 0:
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// maxShownPath bounds the members of a path that is shown.
const maxShownPath = 64

func shownPath(path []string) string {
	var b strings.Builder
	for i, name := range path {
		if i > 0 {
			b.WriteByte('/')
		}
		if i == maxShownPath {
			b.WriteString("…")
			break
		}
		b.WriteString(shown(name))
	}
	return b.String()
}

// faultOf describes a fault, mostly with the value.
func faultOf(f *fault) string {
	if said, ok := f.kind.(*saidFault); ok {
		return said.words
	}
	e := &jsonschema.ValidationError{ErrorKind: f.kind}
	_, what, _ := strings.Cut(oneLine(e.Error()), "at '': ")
	return what
}

// ruleOf says which rule a value breaks.
func ruleOf(f *fault) string {
	path := f.kind.KeywordPath()
	if len(path) == 0 {
		return "is not allowed"
	}
	return "breaks the rule " + shown(path[len(path)-1])
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// shown returns a text, or its beginning.
func shown(s string) string { return cutText(s, maxShownBytes) }

// cutText returns the first bytes of a text, at most so many.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

func shownValue(v any) any {
	switch v := v.(type) {
	case string:
		return shown(v)
	case json.Number:
		return json.Number(shown(string(v)))
	}
	return v
}

// listed returns the first names of a list.
func listed(names []string) []string {
	out := make([]string, 0, min(len(names), maxListed+1))
	for i, name := range names {
		if i == maxListed {
			return append(out, "…")
		}
		out = append(out, shown(name))
	}
	return out
}

func listedValues(values []any) []any {
	out := make([]any, 0, min(len(values), maxListed+1))
	for i, v := range values {
		if i == maxListed {
			return append(out, "…")
		}
		out = append(out, shownValue(v))
	}
	return out
}

var kindOrder = []string{"null", "boolean", "number", "integer", "string", "array", "object"}

func typeFault(set kinds, v any) jsonschema.ErrorKind {
	got := "number"
	k := kindOfValue(v)
	var want []string
	for _, name := range kindOrder {
		if kindNames[name] == k {
			got = name
		}
		if name == "integer" && set&numberKind == 0 && set&integerKind != 0 || name != "integer" && set&kindNames[name] == kindNames[name] {
			want = append(want, name)
		}
	}
	return &kind.Type{Got: got, Want: want}
}

func constFault(set *valueSet, v any) jsonschema.ErrorKind {
	return &kind.Const{Got: shownValue(v), Want: shownValue(set.values[0])}
}

func enumFault(set *valueSet, v any) jsonschema.ErrorKind {
	return &kind.Enum{Got: shownValue(v), Want: listedValues(set.values)}
}

func formatFault(f *jsonschema.Format, v any, err error) jsonschema.ErrorKind {
	return &kind.Format{Got: shownValue(v), Want: f.Name, Err: fmt.Errorf("%s", shown(err.Error()))}
}

func patternFault(text string, p *pattern) jsonschema.ErrorKind {
	return &kind.Pattern{Got: shown(text), Want: shown(p.String())}
}

func falseFault() jsonschema.ErrorKind    { return &kind.FalseSchema{} }
func notFault() jsonschema.ErrorKind      { return &kind.Not{} }
func containsFault() jsonschema.ErrorKind { return &kind.Contains{} }

func oneOfFault(i, j int) jsonschema.ErrorKind { return &kind.OneOf{Subschemas: []int{i, j}} }

func minLengthFault(got, want int) jsonschema.ErrorKind {
	return &kind.MinLength{Got: got, Want: want}
}

func maxLengthFault(got, want int) jsonschema.ErrorKind {
	return &kind.MaxLength{Got: got, Want: want}
}

func minItemsFault(got, want int) jsonschema.ErrorKind { return &kind.MinItems{Got: got, Want: want} }
func maxItemsFault(got, want int) jsonschema.ErrorKind { return &kind.MaxItems{Got: got, Want: want} }

func minPropertiesFault(got, want int) jsonschema.ErrorKind {
	return &kind.MinProperties{Got: got, Want: want}
}

func maxPropertiesFault(got, want int) jsonschema.ErrorKind {
	return &kind.MaxProperties{Got: got, Want: want}
}

func requiredFault(missing []string) jsonschema.ErrorKind {
	return &kind.Required{Missing: listed(missing)}
}

func strangersFault(names []string) jsonschema.ErrorKind {
	return &kind.AdditionalProperties{Properties: listed(names)}
}

func dependencyFault(member string, missing []string) jsonschema.ErrorKind {
	return &kind.Dependency{Prop: shown(member), Missing: missing}
}

func dependentRequiredFault(member string, missing []string) jsonschema.ErrorKind {
	return &kind.DependentRequired{Prop: shown(member), Missing: missing}
}

func uniqueItemsFault(i, j int) jsonschema.ErrorKind {
	return &kind.UniqueItems{Duplicates: [2]int{i, j}}
}

func additionalItemsFault(n int) jsonschema.ErrorKind { return &kind.AdditionalItems{Count: n} }

// minContainsFault lists which elements match, if they are few.
func minContainsFault(matched []int, n, want int) jsonschema.ErrorKind {
	k := &kind.MinContains{Got: matched, Want: want}
	if n == len(matched) {
		return k
	}
	return &saidFault{k, fmt.Sprintf("min %d items required to match contains schema, but matched %d items", want, n)}
}

func maxContainsFault(want int) jsonschema.ErrorKind {
	return &saidFault{&kind.MaxContains{Want: want}, fmt.Sprintf("max %d items required to match contains schema, but more matched", want)}
}

func minimumFault(got, want *big.Rat) jsonschema.ErrorKind {
	return &kind.Minimum{Got: got, Want: want}
}

func maximumFault(got, want *big.Rat) jsonschema.ErrorKind {
	return &kind.Maximum{Got: got, Want: want}
}

func exclusiveMinimumFault(got, want *big.Rat) jsonschema.ErrorKind {
	return &kind.ExclusiveMinimum{Got: got, Want: want}
}

func exclusiveMaximumFault(got, want *big.Rat) jsonschema.ErrorKind {
	return &kind.ExclusiveMaximum{Got: got, Want: want}
}

func multipleOfFault(got, want *big.Rat) jsonschema.ErrorKind {
	return &kind.MultipleOf{Got: got, Want: want}
}
