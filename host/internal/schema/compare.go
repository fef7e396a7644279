package schema

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// isOfType reports whether a value is of one of the types; an empty set has all.
func (m *workMeter) isOfType(set kinds, v any) bool {
	if set == 0 {
		return true
	}
	k := kindOfValue(v)
	if k == numberKind|integerKind {
		return set&numberKind != 0 || set&integerKind != 0 && m.isWhole(v.(json.Number))
	}
	return set&k != 0
}

func kindOfValue(v any) kinds {
	switch v.(type) {
	case nil:
		return nullKind
	case bool:
		return booleanKind
	case json.Number:
		return numberKind | integerKind
	case string:
		return stringKind
	case []any:
		return arrayKind
	}
	return objectKind
}

// isWhole reports whether a number is an integer: 2, 2.0 and 20e-1 are.
func (m *workMeter) isWhole(n json.Number) bool {
	if isDigits(n) {
		return true
	}
	m.spend(exactWork + len(n)/digitsPerWork)
	d := jsondoc.DecimalOf(n)
	return d.Overflow == "" && d.Exponent >= 0
}

// among reports whether a value is in a set.
func (m *workMeter) among(set *valueSet, v any) bool {
	switch v := v.(type) {
	case string:
		m.spend(1 + len(v)/bytesPerCompare)
	case json.Number:
		m.spend(exactWork + len(v)/digitsPerWork)
	}
	if key, ok := scalarKey(v); ok {
		_, found := set.scalars[key]
		return found
	}
	for _, e := range set.others {
		if m.equal(v, e) {
			return true
		}
	}
	return false
}

// equal compares two values, up to the first difference.
func (m *workMeter) equal(a, b any) bool {
	m.spend(1)
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			m.spend(2 + len(name)/bytesPerCompare)
			w, ok := b[name]
			if !ok || !m.equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !m.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		m.spend(exactWork + (len(a)+len(b))/digitsPerWork)
		return jsondoc.EqualNumbers(a, b)
	case string:
		b, ok := b.(string)
		m.spend(len(a) / bytesPerCompare)
		return ok && a == b
	}
	return a == b
}

// maxFormatText bounds a text that has one of the library's formats, except those of
// addresses, which may hold data: the library parses a text in one piece.
const maxFormatText = 64 << 10

// format checks a value against a format of the library. It compiles a text that has to
// be a pattern.
func (m *workMeter) format(f *jsonschema.Format, v any) error {
	text, ok := v.(string)
	if !ok {
		return nil // formats only apply to texts
	}
	if f.Name == "regex" {
		work := patternWork(text)
		if work > maxFormatPattern {
			panic(workStop{TooManyChecksError{"a text that has to be a pattern takes too long to read"}})
		}
		m.spend(work * patternByteWork)
		p, err := compilePattern(text, maxPatternSize)
		if err == nil {
			m.spend(p.size * patternByteWork)
		}
		return err
	}
	if len(text) > maxFormatText && !strings.HasSuffix(f.Name, "ri") && !strings.HasSuffix(f.Name, "ri-reference") {
		return fmt.Errorf("it is longer than %d bytes", maxFormatText)
	}
	m.spend(bytesPerWork + len(text))
	return f.Validate(v)
}

// fractionWork returns the cost of a number as a fraction, with the digits that its
// exponent stands for: the fraction is reduced to its lowest terms.
func fractionWork(n json.Number) int {
	if len(n) < wholeDigits && !strings.ContainsAny(string(n), "eE") {
		return 2 * exactWork
	}
	return 2*exactWork + (jsondoc.MaxNumberBytes+jsondoc.MaxNumberExponent)/digitsPerWork*4
}

// twins returns the indices of two equal elements, or 0, 0.
func (m *workMeter) twins(list []any) (int, int) {
	if len(list) < 2 {
		return 0, 0
	}
	scalars := make(map[any]int, min(len(list), 64))
	others := map[uint64][]int{}
	seed := maphash.MakeSeed()
	for i, v := range list {
		switch v := v.(type) {
		case string:
			m.spend(keepWork + len(v)/bytesPerCompare)
		case json.Number:
			m.spend(keepWork + exactWork + len(v)/digitsPerWork)
		default:
			m.spend(keepWork)
		}
		if key, ok := scalarKey(v); ok {
			if j, twice := scalars[key]; twice {
				return j, i
			}
			scalars[key] = i
			continue
		}
		sum := m.hash(seed, v)
		for _, j := range others[sum] {
			if m.equal(v, list[j]) {
				return j, i
			}
		}
		others[sum] = append(others[sum], i)
	}
	return 0, 0
}

// hash returns a number that is the same for equal values. The seed is random, so
// that no values can be made to share one.
func (m *workMeter) hash(seed maphash.Seed, v any) uint64 {
	switch v := v.(type) {
	case map[string]any:
		sum := uint64(len(v)) + 1
		for name, e := range v { // in any order
			m.spend(trackWork + len(name)/bytesPerCompare)
			sum += maphash.Comparable(seed, [2]uint64{maphash.String(seed, name), m.hash(seed, e)})
		}
		return sum
	case []any:
		sum := uint64(len(v)) + 2
		for _, e := range v {
			sum = maphash.Comparable(seed, [2]uint64{sum, m.hash(seed, e)})
		}
		return sum
	case string:
		m.spend(trackWork + len(v)/bytesPerCompare)
		return maphash.String(seed, v)
	case json.Number:
		m.spend(trackWork + exactWork + len(v)/digitsPerWork)
		return maphash.Comparable(seed, jsondoc.DecimalOf(v))
	case bool:
		m.spend(trackWork)
		return maphash.Comparable(seed, v)
	}
	m.spend(trackWork)
	return 3
}
