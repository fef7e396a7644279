package schematypes

import (
	"cmp"
	"maps"
	"slices"
)

// kind says which of a node's fields have a meaning.
type kind int

// The kinds of nodes.
const (
	anyValue  kind = iota // and false, which no value fits
	nullValue             // null alone
	boolean
	integer
	number
	text
	literal   // value
	array     // elem
	tuple     // list, and elem for the elements after them, nil for none
	object    // fields, required, rest
	union     // list
	reference // target
)

// node is a type.
type node struct {
	kind        kind
	description string
	value       string // JSON of a scalar
	elem        *node
	list        []*node
	fields      []field
	required    map[string]bool
	rest        *node // members without a name of their own; nil if the schema says nothing of them
	closed      bool  // there are no such members
	target      *definition
}

// field is a member of an object.
type field struct {
	name string
	node *node
}

// definition is a schema that others refer to.
type definition struct {
	name string
	node *node // nil while it is read
}

// optional reports whether objects may lack the member.
func (n *node) optional(name string) bool { return !n.required[name] }

// members returns the fields of an object, with those that are required and not described.
func (n *node) members() []field {
	list, described := slices.Clone(n.fields), map[string]bool{}
	for _, f := range list {
		described[f.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(n.required)) {
		if !described[name] {
			list = append(list, field{name: name, node: &node{}})
		}
	}
	return list
}

// isMap reports whether an object has no members with names of their own.
func (n *node) isMap() bool { return n.kind == object && len(n.fields)+len(n.required) == 0 }

// unionOf returns a type of alternatives, which are not alternatives themselves.
func unionOf(list ...*node) *node {
	out := &node{kind: union}
	for _, n := range list {
		switch n.kind {
		case anyValue:
			return &node{}
		case union:
			out.list = append(out.list, n.list...)
		default:
			out.list = append(out.list, n)
		}
	}
	if len(out.list) == 1 {
		return out.list[0]
	}
	if len(out.list) == 0 {
		return &node{}
	}
	return out
}

// both returns the type of values that fit a and b, or one that more values fit.
func (r *reader) both(a, b *node) *node {
	switch {
	case a.kind == anyValue:
		return described(b, a.description)
	case a.kind == object && b.kind == object:
		return r.joined(a, b)
	case a.kind == object && b.kind == union:
		return r.both(b, a)
	case a.kind == union && b.kind == object:
		if !r.join(len(a.list)) {
			return &node{}
		}
		out := &node{kind: union, description: cmp.Or(a.description, b.description)}
		for _, n := range a.list {
			out.list = append(out.list, r.both(n, b))
		}
		return out
	}
	return described(a, b.description)
}

// joined returns the object with the members of two, any value when too many were joined.
func (r *reader) joined(a, b *node) *node {
	size := len(a.required) + len(b.required)
	for _, f := range slices.Concat(a.fields, b.fields) {
		size += 1 + len(f.node.description)/100
	}
	if !r.join(size) {
		return &node{}
	}
	out := &node{kind: object, description: cmp.Or(a.description, b.description), fields: slices.Clone(a.fields), required: map[string]bool{}}
	maps.Copy(out.required, a.required)
	maps.Copy(out.required, b.required)
	places := map[string]int{}
	for i, f := range a.fields {
		places[f.name] = i
	}
	for _, f := range b.fields {
		if i, ok := places[f.name]; ok {
			out.fields[i].node = r.both(out.fields[i].node, f.node)
			continue
		}
		out.fields = append(out.fields, f)
	}
	out.rest, out.closed = a.rest, a.closed || b.closed
	if out.rest == nil {
		out.rest = b.rest
	}
	return out
}

// described returns the node with a description, unless it has one.
func described(n *node, description string) *node {
	if n.description != "" || description == "" {
		return n
	}
	out := *n
	out.description = description
	return &out
}

// leadsToItself reports whether a definition is nothing but itself, directly or through
// alternatives and other definitions: such a type has no meaning.
func (d *definition) leadsToItself() bool {
	seen := map[*definition]bool{}
	var reaches func(n *node) bool
	reaches = func(n *node) bool {
		switch n.kind {
		case reference:
			if n.target == d {
				return true
			}
			if seen[n.target] {
				return false
			}
			seen[n.target] = true
			return reaches(n.target.node)
		case union:
			return slices.ContainsFunc(n.list, reaches)
		default:
			return false
		}
	}
	return reaches(d.node)
}
