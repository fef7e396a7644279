package jsondoc

import (
	"bytes"
	"encoding/json"
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
	last atomic.Pointer[Encoded] // that was made
}

// Read reads JSON. Malformed JSON and a value that is nested deeper than [MaxDepth]
// are [Invalid].
func Read(raw json.RawMessage) (*Document, error) {
	if err := Check(raw); err != nil {
		return nil, errorf(Invalid, "read JSON: %w", err)
	}
	if WrittenDepth(raw) > MaxDepth {
		return nil, errorf(Invalid, "JSON is nested deeper than %d", MaxDepth)
	}
	return &Document{raw: bytes.Clone(bytes.Trim(raw, Space)), family: &family{}}, nil
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
	doc := DecodeValid(d.raw)
	d.decoded.CompareAndSwap(nil, &doc) // all that ask get the same one
	return *d.decoded.Load()
}

// JSON returns the document as JSON, the members of objects in the order of
// their names. The bytes must not be changed.
func (d *Document) JSON() json.RawMessage {
	e := d.family.last.Load().Next(d.tree())
	d.family.last.Store(e)
	return e.JSON[:len(e.JSON):len(e.JSON)]
}

// Size returns how long its JSON is.
func (d *Document) Size() int { return Size(d.tree()) }

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
// none. The error is [Invalid] for an operation that is malformed or does not
// apply, [TestFailed] for a test that fails, [TooMuch] for too many operations or
// too much work.
func (d *Document) Patch(ops []Op) (*Document, error) {
	doc, _, err := ApplyTo(d.tree(), ops)
	if err != nil {
		return nil, err
	}
	return d.family.of(doc), nil
}

// Without returns the document without what is at RFC 6901 pointers. An element
// of an array becomes null, so that the others keep their places. A pointer that
// leads nowhere, and the root, leave the document as it is.
func (d *Document) Without(pointers ...string) *Document {
	p := Patcher{Doc: d.tree()}
	for _, pointer := range pointers {
		if pointer == "" {
			continue
		}
		if _, err := Lookup(p.Doc, pointer); err != nil {
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
	return d.family.of(p.Doc)
}

// Diff returns operations that make other of d: add, remove and replace, by
// member and by element, or the whole where that is less than half. What
// both share, since one was patched from the other, costs nothing to compare.
// Of two that were read each by itself, what is written alike is not decoded.
func (d *Document) Diff(other *Document) []Op {
	var w differ
	var ops []Op
	if d.decoded.Load() != nil && other.decoded.Load() != nil {
		ops = w.diff("", 0, d.tree(), other.tree())
	} else {
		before, after := d.written(), other.written()
		w.read = levelsRead * (len(before) + len(after))
		ops = w.diffJSON("", 0, before, after)
	}
	if len(ops) > MaxPatchOps || w.work > maxPatchWork {
		return []Op{replaceOp("", other.tree())}
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
