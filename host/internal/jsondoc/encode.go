package jsondoc

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// Encoded is a document with its JSON. The JSON of a document patched from it is
// written with its help: the JSON of shared parts is copied, so encoding again costs
// little more than the copy.
type Encoded struct {
	doc  any
	JSON json.RawMessage
}

// Next returns another document with its JSON, which equals that of Encode.
func (e *Encoded) Next(doc any) *Encoded {
	if e == nil || e.JSON == nil {
		return &Encoded{doc, Encode(doc)}
	}
	if Shared(e.doc, doc) {
		return e
	}
	w := encoder{dst: make([]byte, 0, len(e.JSON)+len(e.JSON)/16), old: e.JSON}
	w.value(e.doc, doc)
	return &Encoded{doc, w.dst}
}

// encoder writes a document while it reads the JSON of an earlier one. Both are
// in the order of the members' names, so it goes through each once.
type encoder struct{ dst, old []byte }

// value writes now. The next value in the old JSON is was.
func (w *encoder) value(was, now any) {
	switch n := now.(type) {
	case map[string]any:
		if m, ok := was.(map[string]any); ok && !Shared(was, now) {
			w.object(m, n)
			return
		}
	case []any:
		if a, ok := was.([]any); ok && !Shared(was, now) {
			w.array(a, n)
			return
		}
	}
	if !Shared(was, now) {
		w.skip()
		w.dst = appendValue(w.dst, now)
		return
	}
	end := ValueEnd(w.old)
	w.dst = append(w.dst, w.old[:end]...)
	w.old = w.old[end:]
}

// skip goes past a value.
func (w *encoder) skip() { w.old = w.old[ValueEnd(w.old):] }

func (w *encoder) object(was, now map[string]any) {
	var added []string
	for name := range now {
		if _, ok := was[name]; !ok {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	w.dst = append(w.dst, '{')
	begin := len(w.dst)
	for w.old = next(w.old[1:]); w.old[0] != '}'; w.old = next(w.old) {
		quoted := w.old[:StringEnd(w.old, 0)+1]
		w.old = next(w.old[len(quoted):])
		name := unquoted(quoted)
		for len(added) > 0 && added[0] < string(name) {
			w.add(begin, added[0], now)
			added = added[1:]
		}
		v, ok := now[string(name)]
		if !ok {
			w.skip()
			continue
		}
		w.comma(begin)
		w.dst = append(append(w.dst, quoted...), ':')
		w.value(was[string(name)], v)
	}
	for _, name := range added {
		w.add(begin, name, now)
	}
	w.old = w.old[1:]
	w.dst = append(w.dst, '}')
}

// Add writes a member that the old object does not have.
func (w *encoder) add(begin int, name string, now map[string]any) {
	w.comma(begin)
	w.dst = append(AppendString(w.dst, name), ':')
	w.dst = appendValue(w.dst, now[name])
}

// comma writes a comma, except at begin.
func (w *encoder) comma(begin int) {
	if len(w.dst) > begin {
		w.dst = append(w.dst, ',')
	}
}

// array matches the shared elements at the end of both arrays, and the others by
// position.
func (w *encoder) array(was, now []any) {
	same := 0
	for same < min(len(was), len(now)) && Shared(was[len(was)-1-same], now[len(now)-1-same]) {
		same++
	}
	both := min(len(was), len(now)) - same
	w.dst = append(w.dst, '[')
	begin := len(w.dst)
	w.old = next(w.old[1:])
	for i := range both {
		w.element(begin, was[i], now[i])
	}
	for range len(was) - same - both {
		w.skip()
		w.old = next(w.old)
	}
	for _, v := range now[both : len(now)-same] {
		w.comma(begin)
		w.dst = appendValue(w.dst, v)
	}
	for i := range same {
		w.element(begin, was[len(was)-same+i], now[len(now)-same+i])
	}
	w.old = w.old[1:]
	w.dst = append(w.dst, ']')
}

func (w *encoder) element(begin int, was, now any) {
	w.comma(begin)
	w.value(was, now)
	w.old = next(w.old)
}

// shared reports whether two values are one object or array that two documents
// share, or the same scalar. It does not compare contents.
func Shared(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && sameAddress(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || sameAddress(a, b))
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

func sameAddress(a, b any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// AppendMembers appends an object with the members given to dst, in the order of their
// names. Their values must be valid JSON.
func AppendMembers(dst []byte, members map[string]json.RawMessage) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, name), ':')
		dst = AppendRaw(dst, members[name])
	}
	return append(dst, '}')
}
