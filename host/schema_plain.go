package host

import (
	"encoding/json"
	"slices"
)

// plainSchema is a schema that says no more than most tools' do: types, members,
// which are required, what strings may be. It says of most values at once, and
// of many at the same time, that they fit. Of what it is not sure of the
// validator decides, which also has the words for what is wrong.
type plainSchema struct {
	kinds    kinds // none is any
	enum     []string
	members  map[string]*plainSchema
	required []string
	closed   bool // no other members
	items    *plainSchema
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

// newPlainSchema returns nil for a schema that says more.
func newPlainSchema(doc any) *plainSchema {
	members, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	s := &plainSchema{}
	for name, v := range members {
		if !s.keyword(name, v) {
			return nil
		}
	}
	return s
}

// keyword takes a keyword in. It reports false for one that is not plain.
func (s *plainSchema) keyword(name string, v any) (ok bool) {
	switch name {
	case "title", "description", "default", "examples":
		return true
	case "type":
		s.kinds, ok = plainKinds(v)
	case "enum":
		s.enum, ok = plainStrings(v)
	case "required":
		s.required, ok = plainStrings(v)
	case "additionalProperties":
		var open bool
		open, ok = v.(bool)
		s.closed = !open
	case "items":
		s.items = newPlainSchema(v)
		ok = s.items != nil
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

func plainMembers(v any) (map[string]*plainSchema, bool) {
	members, ok := v.(map[string]any)
	out := make(map[string]*plainSchema, len(members))
	for name, m := range members {
		if out[name] = newPlainSchema(m); out[name] == nil {
			return nil, false
		}
	}
	return out, ok
}

// fits reports whether a value surely fits.
func (s *plainSchema) fits(v any) bool {
	if s.enum != nil {
		text, ok := v.(string)
		return ok && s.has(stringKind) && slices.Contains(s.enum, text)
	}
	switch v := v.(type) {
	case nil:
		return s.has(nullKind)
	case bool:
		return s.has(booleanKind)
	case string:
		return s.has(stringKind)
	case json.Number:
		return s.has(numberKind) || s.has(integerKind) && isDigits(v)
	case []any:
		return s.has(arrayKind) && s.fitsItems(v)
	case map[string]any:
		return s.has(objectKind) && s.fitsMembers(v)
	}
	return false
}

func (s *plainSchema) has(k kinds) bool { return s.kinds == 0 || s.kinds&k == k }

// isDigits reports whether a number is written as a whole one.
func isDigits(n json.Number) bool {
	for i := range len(n) {
		if c := n[i]; (c < '0' || c > '9') && (c != '-' || i > 0) {
			return false
		}
	}
	return true
}

func (s *plainSchema) fitsItems(list []any) bool {
	return s.items == nil || !slices.ContainsFunc(list, func(v any) bool { return !s.items.fits(v) })
}

func (s *plainSchema) fitsMembers(members map[string]any) bool {
	for name, v := range members {
		m := s.members[name]
		if m == nil && s.closed || m != nil && !m.fits(v) {
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
