package schematypes

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
)

// The bounds of an enumeration; a text with more or longer values is a text.
const (
	maxEnum      = 100
	maxEnumValue = 64
)

// lowered is a type in a language without alternatives, which has structures, enumerations
// of texts, and values that may be absent.
type lowered struct {
	kind     kind // anyValue, boolean, integer, number, text, array or object
	nullable bool
	node     *node    // the array, the object, or the alternatives of an enumeration
	values   []string // of a text that is one of them; nil for any text
	name     string   // of the definition that it is, if it is one
}

// lowering makes types without alternatives, each once.
type lowering map[*node]lowered

// lower returns the nearest type that has no alternatives.
func (lw lowering) lower(n *node) lowered {
	l, known := lw[n]
	if !known {
		l = lw.resolved(n)
		lw[n] = l
	}
	return l
}

func (lw lowering) resolved(n *node) lowered {
	name := ""
	for n.kind == reference { // which leads to itself in no schema that was read
		name = n.target.name
		n = n.target.node
	}
	l := lw.value(n)
	l.name = cmp.Or(l.name, name)
	return l
}

func (lw lowering) value(n *node) lowered {
	switch n.kind {
	case union:
		return lw.union(n)
	case literal:
		return lowered{kind: kindOfLiteral(n.value)}
	case nullValue:
		return lowered{nullable: true}
	case tuple:
		return lowerTuple(n)
	case array, object:
		return lowered{kind: n.kind, node: n}
	default:
		return lowered{kind: n.kind}
	}
}

func kindOfLiteral(value string) kind {
	switch value[0] {
	case '"':
		return text
	case 't', 'f':
		return boolean
	}
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return integer
	}
	return number
}

// union returns the one type that all alternatives but null are of, else any value.
func (lw lowering) union(n *node) lowered {
	var types []lowered
	var values []string
	nullable := false
	for _, alternative := range n.list {
		l := lw.lower(alternative)
		nullable = nullable || l.nullable
		if alternative.kind == nullValue {
			continue
		}
		types = append(types, l)
		if value := stringOf(json.RawMessage(alternative.value)); alternative.kind == literal && len(value) <= maxEnumValue {
			values = append(values, value)
		}
	}
	out := common(types)
	out.nullable = nullable
	enum := slices.Compact(slices.Sorted(slices.Values(values)))
	if out.kind == text && len(values) == len(types) && len(enum) > 1 && len(enum) <= maxEnum {
		out.node, out.values = n, enum
	}
	return out
}

// common returns the type that values of all types have.
func common(types []lowered) lowered {
	if len(types) == 0 {
		return lowered{}
	}
	out := types[0]
	for _, l := range types[1:] {
		numbers := (out.kind == integer || out.kind == number) && (l.kind == integer || l.kind == number)
		switch {
		case numbers && out.kind != l.kind:
			out = lowered{kind: number}
		case out.kind != l.kind || l.node != out.node && (l.kind == array || l.kind == object):
			return lowered{}
		case l.kind == text:
			out = lowered{kind: text}
		}
	}
	return out
}

// lowerTuple returns an array, whose elements have a type if all of them have the same
// simple one.
func lowerTuple(n *node) lowered {
	list := n.list
	if n.elem != nil {
		list = append(slices.Clone(list), n.elem)
	}
	elem := list[0].kind
	if elem > text || slices.ContainsFunc(list, func(m *node) bool { return m.kind != elem }) {
		elem = anyValue
	}
	return lowered{kind: array, node: &node{kind: array, elem: &node{kind: elem}}}
}

// holdsItself reports whether an object has itself as a member, directly or in members of
// members, so that a structure of it would have no end.
func (lw lowering) holdsItself(n *node) bool {
	seen := map[*node]bool{}
	var reaches func(m *node) bool
	reaches = func(m *node) bool {
		for _, f := range m.fields {
			l := lw.lower(f.node)
			if l.kind != object || l.node.isMap() || seen[l.node] {
				continue
			}
			if seen[l.node] = true; l.node == n || reaches(l.node) {
				return true
			}
		}
		return false
	}
	return reaches(n)
}
