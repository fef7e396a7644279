package schema

import (
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// plainRule is a schema with only the most common keywords: types, members, required
// members, enumerations of strings. It quickly accepts most values that fit. Other
// values go to the validator, which also describes their faults.
//
// A part of it with other keywords is opaque: the plain rule accepts no value there,
// except an unchanged value that fitted before.
type plainRule struct {
	opaque      bool
	kinds       kinds // none is any
	enum        []string
	members     map[string]*plainRule
	rest        *plainRule // of other members; nil is any
	required    []string
	closed      bool // no other members
	items       *plainRule
	nonNegative bool // numbers
}

// kinds is a set of JSON Schema's types.
type kinds uint8

const (
	nullKind kinds = 1 << iota
	booleanKind
	integerKind
	numberKind
	stringKind
	arrayKind
	objectKind
)

var kindNames = map[string]kinds{
	"null": nullKind, "boolean": booleanKind, "integer": integerKind, "number": numberKind | integerKind,
	"string": stringKind, "array": arrayKind, "object": objectKind,
}

func newPlainRule(doc any) *plainRule {
	members, ok := doc.(map[string]any)
	if !ok {
		return &plainRule{opaque: doc != true}
	}
	s := &plainRule{}
	for name, v := range members {
		if !s.keyword(name, v) {
			return &plainRule{opaque: true}
		}
	}
	return s
}

// keyword adds a keyword to the rule. It reports false for one that is not plain.
func (s *plainRule) keyword(name string, v any) (ok bool) {
	switch name {
	case "title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions":
		return true
	case "type":
		s.kinds, ok = plainKinds(v)
	case "enum":
		if s.enum, ok = plainStrings(v); ok {
			slices.Sort(s.enum) // it may have thousands of entries, and each is searched for in turn
		}
	case "required":
		s.required, ok = plainStrings(v)
	case "additionalProperties":
		s.closed = v == false
		if ok = true; !s.closed {
			s.rest = newPlainRule(v)
		}
	case "items":
		s.items, ok = newPlainRule(v), true
	case "minimum":
		s.nonNegative = v == json.Number("0")
		ok = s.nonNegative
	case "properties":
		s.members, ok = plainMembers(v)
	}
	return ok
}

func plainKinds(v any) (set kinds, ok bool) {
	names, ok := plainStrings(v)
	if name, one := v.(string); one {
		names, ok = []string{name}, true
	}
	for _, name := range names {
		k, known := kindNames[name]
		ok = ok && known
		set |= k
	}
	return set, ok && set != 0
}

func plainStrings(v any) ([]string, bool) {
	list, ok := v.([]any)
	out := make([]string, len(list))
	for i, e := range list {
		s, isString := e.(string)
		ok = ok && isString
		out[i] = s
	}
	return out, ok
}

func plainMembers(v any) (map[string]*plainRule, bool) {
	members, ok := v.(map[string]any)
	out := make(map[string]*plainRule, len(members))
	for name, m := range members {
		out[name] = newPlainRule(m)
	}
	return out, ok
}

// fits reports whether a value surely fits.
func (s *plainRule) fits(v any) bool { return s.stillFits(v, jsondoc.Optional{}) }

// stillFits reports whether v surely fits. was is the fitting value that v replaces, or
// absent; parts that both share are not checked again.
func (s *plainRule) stillFits(v any, was jsondoc.Optional) bool {
	if was.Present && jsondoc.Shared(v, was.Value) {
		return true
	}
	if s.opaque {
		return false
	}
	if s.enum != nil {
		text, ok := v.(string)
		if !ok || !s.has(stringKind) {
			return false
		}
		_, found := slices.BinarySearch(s.enum, text)
		return found
	}
	switch v := v.(type) {
	case nil:
		return s.has(nullKind)
	case bool:
		return s.has(booleanKind)
	case string:
		return s.has(stringKind)
	case json.Number:
		return (s.has(numberKind) || s.has(integerKind) && isDigits(v)) && (!s.nonNegative || v[0] != '-') && jsondoc.InRange(v)
	case []any:
		return s.has(arrayKind) && s.fitsItems(v, was)
	case map[string]any:
		return s.has(objectKind) && s.fitsMembers(v, was)
	}
	return false
}

func (s *plainRule) has(k kinds) bool { return s.kinds == 0 || s.kinds&k == k }

// isDigits reports whether a number is written without fraction and exponent.
func isDigits(n json.Number) bool {
	for i := range len(n) {
		if c := n[i]; (c < '0' || c > '9') && (c != '-' || i > 0) {
			return false
		}
	}
	return true
}

func (s *plainRule) fitsItems(list []any, was jsondoc.Optional) bool {
	if s.items == nil {
		return true
	}
	before, _ := was.Value.([]any)
	for i, v := range list {
		var at jsondoc.Optional
		if i < len(before) {
			at = jsondoc.Optional{Value: before[i], Present: true}
		}
		if !s.items.stillFits(v, at) {
			return false
		}
	}
	return true
}

func (s *plainRule) fitsMembers(members map[string]any, was jsondoc.Optional) bool {
	for name, v := range members {
		m, known := s.members[name]
		if !known {
			m = s.rest
		}
		if !known && s.closed || m != nil && !m.stillFits(v, was.Member(name)) {
			return false
		}
	}
	for _, name := range s.required {
		if _, ok := members[name]; !ok {
			return false
		}
	}
	return true
}
