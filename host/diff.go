package host

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"sync/atomic"
)

// Document is a JSON value that is patched and compared without being read
// again. Numbers are kept as they were written, so integers of any size survive.
// A document is immutable: what was patched shares what did not change with what
// it came from, so a patch costs what it touches. Safe for concurrent use.
type Document struct {
	raw     json.RawMessage // as it was read; nil for what was made of another
	decoded atomic.Pointer[any]
	family  *family
}

// family are the documents that were made of one that was read.
type family struct {
	last atomic.Pointer[encodedDocument] // that was made
}

// ReadDocument reads JSON. Code invalid_argument for what is none, and for a
// value that is nested deeper than 512.
func ReadDocument(raw json.RawMessage) (*Document, error) {
	if err := checkJSON(raw); err != nil {
		return nil, Errorf(InvalidArgument, "read JSON: %w", err)
	}
	if depthOfJSON(raw) > maxDocumentDepth {
		return nil, Errorf(InvalidArgument, "JSON is nested deeper than %d", maxDocumentDepth)
	}
	return &Document{raw: bytes.Clone(bytes.Trim(raw, jsonSpace)), family: &family{}}, nil
}

// of returns another document of the family.
func (f *family) of(doc any) *Document {
	d := &Document{family: f}
	d.decoded.Store(&doc)
	return d
}

// tree decodes the document when somebody first looks into it: one that is only
// compared is not decoded.
func (d *Document) tree() any {
	if doc := d.decoded.Load(); doc != nil {
		return *doc
	}
	doc := decodeValid(d.raw)
	d.decoded.CompareAndSwap(nil, &doc) // all that ask get the same one
	return *d.decoded.Load()
}

// JSON returns the document as JSON, the members of objects in the order of
// their names. The bytes must not be changed.
func (d *Document) JSON() json.RawMessage {
	e := d.family.last.Load().next(d.tree())
	d.family.last.Store(e)
	return e.raw[:len(e.raw):len(e.raw)]
}

// Size returns how long its JSON is.
func (d *Document) Size() int { return sizeOf(d.tree()) }

// IsObject reports whether the document is a JSON object.
func (d *Document) IsObject() bool {
	if d.raw != nil {
		return d.raw[0] == '{'
	}
	return isObject(d.tree())
}

// Equal reports whether two documents are the same: the same members, elements
// and texts, and numbers that are written alike.
func (d *Document) Equal(e *Document) bool { return identical(d.tree(), e.tree()) }

// Patch returns the document that RFC 6902 operations lead to, all of them or
// none. Code invalid_argument for an operation that is malformed or does not
// apply, conflict for a test that fails, resource_exhausted if they are too many
// or too much work.
func (d *Document) Patch(ops []PatchOp) (*Document, error) {
	doc, _, err := applyPatch(d.tree(), ops)
	if err != nil {
		return nil, err
	}
	return d.family.of(doc), nil
}

// Without returns the document without what is at RFC 6901 pointers. An element
// of an array becomes null, so that the others keep their places. A pointer that
// leads nowhere, and the root, leave the document as it is.
func (d *Document) Without(pointers ...string) *Document {
	p := patcher{doc: d.tree()}
	for _, pointer := range pointers {
		if pointer == "" {
			continue
		}
		if _, err := lookup(p.doc, pointer); err != nil {
			continue
		}
		parent, key, _ := p.parent(pointer)
		switch c := parent.(type) {
		case map[string]any:
			delete(c, key)
		case []any:
			_ = p.setElement("", c, key, nil) // it is there
		}
	}
	return d.family.of(p.doc)
}

// Diff returns operations that make other of d: add, remove and replace, by
// member and by element, or the whole where that is less than half. What
// both share, since one was patched from the other, costs nothing to compare.
// Of two that were read each by itself, what is written alike is not decoded.
func (d *Document) Diff(other *Document) []PatchOp {
	var w differ
	var ops []PatchOp
	if d.decoded.Load() != nil && other.decoded.Load() != nil {
		ops = w.diff("", 0, d.tree(), other.tree())
	} else {
		before, after := d.written(), other.written()
		w.read = levelsRead * (len(before) + len(after))
		ops = w.diffJSON("", 0, before, after)
	}
	if len(ops) > maxPatchOps || w.work > maxPatchWork {
		return []PatchOp{replaceOp("", other.tree())}
	}
	return ops
}

// written returns the document as JSON, its members in any order.
func (d *Document) written() []byte {
	if d.raw != nil {
		return d.raw
	}
	return d.JSON()
}

// differ compares documents.
type differ struct {
	work int // that applying the patch will be
	read int // how many bytes of JSON may still be looked at
}

// diff returns the operations that make after of before, which is at path.
func (w *differ) diff(path string, depth int, before, after any) []PatchOp {
	if identical(before, after) {
		return nil
	}
	if depth == maxPatchDepth {
		return []PatchOp{replaceOp(path, after)}
	}
	var ops []PatchOp
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			return []PatchOp{replaceOp(path, after)}
		}
		ops = w.objects(path, depth, b, a)
	case []any:
		a, ok := after.([]any)
		if !ok {
			return []PatchOp{replaceOp(path, after)}
		}
		ops = w.arrays(path, depth, b, a)
	default:
		return []PatchOp{replaceOp(path, after)}
	}
	if len(ops) > 1 && smaller(after, worth(path, ops)) {
		return []PatchOp{replaceOp(path, after)}
	}
	return ops
}

// worth returns how short a value has to be for its whole to be sent instead of
// ops: who shows a value keeps what no operation touches, so it has to be far
// shorter.
func worth(path string, ops []PatchOp) int { return sizeOfOps(ops)/2 - sizeOfChange - len(path) }

// objects takes members in the order of their names, so that the result is the
// same every time.
func (w *differ) objects(path string, depth int, before, after map[string]any) []PatchOp {
	var ops []PatchOp
	names := make([]string, 0, 8)
	for name, v := range after {
		if old, ok := before[name]; !ok || !identical(old, v) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := path + "/" + escapeToken(name)
		old, had := before[name]
		v, has := after[name]
		switch {
		case !has:
			ops = append(ops, PatchOp{Op: "remove", Path: at})
		case !had:
			ops = append(ops, PatchOp{Op: "add", Path: at, Value: encodeDocument(v)})
		default:
			ops = append(ops, w.diff(at, depth+1, old, v)...)
		}
	}
	return ops
}

// arrays leaves alone what both begin and end with. Between that, elements are
// compared by their place; the rest is added, or removed from its end.
func (w *differ) arrays(path string, depth int, before, after []any) []PatchOp {
	first := 0
	for first < min(len(before), len(after)) && identical(before[first], after[first]) {
		first++
	}
	same := 0 // at the end
	for same < min(len(before), len(after))-first && identical(before[len(before)-1-same], after[len(after)-1-same]) {
		same++
	}
	endBefore, endAfter := len(before)-same, len(after)-same
	both := min(endBefore, endAfter)
	w.work += (max(endBefore, endAfter) - both) * (same + max(endBefore-both, 0) + 1)
	var ops []PatchOp
	for i := first; i < both; i++ {
		ops = append(ops, w.diff(element(path, i), depth+1, before[i], after[i])...)
	}
	for i := endBefore - 1; i >= both; i-- {
		ops = append(ops, PatchOp{Op: "remove", Path: element(path, i)})
	}
	for i := both; i < endAfter; i++ {
		at := element(path, i)
		if same == 0 {
			at = path + "/-"
		}
		ops = append(ops, PatchOp{Op: "add", Path: at, Value: encodeDocument(after[i])})
	}
	return ops
}

func element(path string, i int) string { return path + "/" + strconv.Itoa(i) }

func replaceOp(path string, doc any) PatchOp {
	return PatchOp{Op: "replace", Path: path, Value: encodeDocument(doc)}
}

func sizeOfOps(ops []PatchOp) int {
	n := 0
	for _, op := range ops {
		n += sizeOfChange + len(op.Path) + len(op.Value)
	}
	return n
}

// smaller reports whether a document's JSON is shorter than n bytes. It looks no
// further than that.
func smaller(doc any, n int) bool { return room(doc, n) > 0 }

// room returns what is left of n after a document's JSON, or nothing.
func room(doc any, n int) int {
	switch v := doc.(type) {
	case []any:
		n -= len("[]") + max(len(v)-1, 0)
		for _, e := range v {
			if n <= 0 {
				return 0
			}
			n = room(e, n)
		}
	case map[string]any:
		n -= len("{}")
		i := 0
		for name, e := range v {
			if n -= sizeOfMember(i, name); n <= 0 {
				return 0
			}
			n = room(e, n)
			i++
		}
	default:
		n -= sizeOf(doc)
	}
	return max(n, 0)
}

// identical is equalDocuments for those to whom 1 and 1.0 are two things. What
// two documents share is not looked into.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && len(a) == len(b) && (sameAddress(a, b) || identicalMembers(a, b))
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || sameAddress(a, b) || slices.EqualFunc(a, b, identical))
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

func identicalMembers(a, b map[string]any) bool {
	for name, v := range a {
		if w, ok := b[name]; !ok || !identical(v, w) {
			return false
		}
	}
	return true
}
