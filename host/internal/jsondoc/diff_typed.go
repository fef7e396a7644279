package jsondoc

import (
	"encoding/json"
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
	return w.diffJSON("", 0, Optional{doc, true}, before, after), nil
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
	end := ValueEnd(raw)
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
