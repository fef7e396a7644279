package jsondoc

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
)

// DiffTyped returns the operations that make the changes of a Go value in doc; before
// and after are the value as encoding/json wrote it. Members of doc that the Go type
// does not know stay unchanged. Only the parts that differ are decoded.
func DiffTyped(doc any, before, after []byte) ([]Op, error) {
	if !utf8.Valid(before) || !utf8.Valid(after) { // a type may have its own MarshalJSON
		return nil, fault.Errorf(fault.InvalidArgument, "write state: not valid UTF-8")
	}
	w := differ{read: levelsRead * (len(before) + len(after))}
	return w.typed(nil, "", 0, doc, before, after), nil
}

// typed is diffDocuments for a value that all three have.
func (w *differ) typed(ops []Op, path string, depth int, doc any, before, after []byte) []Op {
	if bytes.Equal(before, after) {
		return ops
	}
	w.read -= len(before) + len(after)
	switch list, _ := doc.([]any); {
	case w.read < 0:
	case list != nil && before[0] == '[' && after[0] == '[' && writtenAs(list, before):
		return append(ops, w.elements(path, depth, before, after)...)
	case isObject(doc) && before[0] == '{' && after[0] == '{':
		c, _ := differing(before, after)
		if members, ok := c.members(); ok {
			return w.typedMembers(ops, path, depth, doc, members)
		}
	}
	return diffDocuments(ops, path, Optional{doc, true}, Optional{DecodeValid(before), true}, Optional{DecodeValid(after), true})
}

func (w *differ) typedMembers(ops []Op, path string, depth int, doc any, members []memberPair) []Op {
	for _, m := range members {
		at, held := path+"/"+escapeToken(m.name), Optional{doc, true}.Member(m.name)
		if held.Present && m.before != nil && m.after != nil {
			ops = w.typed(ops, at, depth+1, held.Value, m.before, m.after)
		} else {
			ops = diffDocuments(ops, at, held, placeOf(m.before), placeOf(m.after))
		}
	}
	return ops
}

// elements returns the changes of an array without unknown members.
func (w *differ) elements(path string, depth int, before, after []byte) []Op {
	ops := w.diffJSON(path, depth, before, after)
	if len(ops) > MaxPatchOps/2 || w.work > maxPatchWork/2 {
		return []Op{replaceJSON(path, after)}
	}
	return ops
}

func placeOf(raw []byte) Optional {
	if raw == nil {
		return Optional{}
	}
	return Optional{DecodeValid(raw), true}
}

// writtenAs reports whether a document equals the JSON raw, with the same members,
// elements and texts, and numbers that are written alike.
func writtenAs(doc any, raw []byte) bool {
	rest, ok := afterSame(doc, next(raw))
	return ok && len(next(rest)) == 0
}

// afterSame returns the rest of raw after its first value, if that value is doc.
func afterSame(doc any, raw []byte) ([]byte, bool) {
	switch v := doc.(type) {
	case map[string]any:
		return afterSameMembers(v, raw)
	case []any:
		return afterSameElements(v, raw)
	}
	end := valueEnd(raw)
	return raw[end:], sameScalar(doc, raw[:end])
}

func sameScalar(doc any, raw []byte) bool {
	switch v := doc.(type) {
	case nil:
		return raw[0] == 'n'
	case bool:
		return v && raw[0] == 't' || !v && raw[0] == 'f'
	case json.Number:
		return string(v) == string(raw)
	case string:
		return raw[0] == '"' && v == string(unquoted(raw))
	}
	return false
}

// afterSameMembers takes an object that gives a member twice for one with two members:
// it counts every member that is written.
func afterSameMembers(members map[string]any, raw []byte) ([]byte, bool) {
	if raw[0] != '{' {
		return raw, false
	}
	n := 0
	for raw = next(raw[1:]); raw[0] != '}'; n++ {
		end := StringEnd(raw, 0) + 1
		v, ok := members[string(unquoted(raw[:end]))]
		if !ok {
			return raw, false
		}
		if raw, ok = afterSame(v, next(raw[end:])); !ok {
			return raw, false
		}
		raw = next(raw)
	}
	return raw[1:], n == len(members)
}

func afterSameElements(list []any, raw []byte) ([]byte, bool) {
	if raw[0] != '[' {
		return raw, false
	}
	raw = next(raw[1:])
	for _, v := range list {
		if raw[0] == ']' {
			return raw, false
		}
		var ok bool
		if raw, ok = afterSame(v, raw); !ok {
			return raw, false
		}
		raw = next(raw)
	}
	return raw[1:], raw[0] == ']'
}

// diffDocuments appends the operations that make in doc the changes from before to
// after: by member for objects, whole values otherwise. doc is before, possibly with
// more members, which stay unchanged. Members are compared in the order of their names,
// so the result is deterministic.
func diffDocuments(ops []Op, path string, doc, before, after Optional) []Op {
	am, changed := after.Value.(map[string]any)
	switch {
	case !after.Present && !doc.Present:
		return ops
	case !after.Present:
		return append(ops, Op{Op: "remove", Path: path})
	case before.Present && Equal(before.Value, after.Value):
		return ops
	case !doc.Present:
		return append(ops, Op{Op: "add", Path: path, Value: Encode(after.Value)})
	case !changed || !isObject(doc.Value) || !isObject(before.Value):
		return append(ops, Op{Op: "replace", Path: path, Value: Encode(after.Value)})
	}
	names := SortedNames(am)
	for k := range before.Value.(map[string]any) {
		if _, ok := am[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		ops = diffDocuments(ops, path+"/"+escapeToken(k), doc.Member(k), before.Member(k), after.Member(k))
	}
	return ops
}
