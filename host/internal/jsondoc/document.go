package jsondoc

import (
	"bytes"
	"encoding/json"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
)

// Document is a JSON value that is patched and compared without being read
// again. Numbers keep their digits as written, so integers of any size survive. A
// document is immutable: a patched document shares its unchanged parts with the
// original, so a patch costs as much as it touches. Safe for concurrent use.
type Document struct {
	raw     json.RawMessage // the JSON that was read; nil for a document made from another
	decoded atomic.Pointer[any]
	family  *family
}

// family is shared by a document that was read and the documents made from it.
type family struct {
	last atomic.Pointer[Encoded] // the Encoded that was made last
}

// Read reads JSON. Malformed JSON and a value that is nested deeper than [MaxDepth]
// have code invalid_argument.
func Read(raw json.RawMessage) (*Document, error) {
	if err := Check(raw); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read JSON: %w", err)
	}
	if WrittenDepth(raw) > MaxDepth {
		return nil, fault.Errorf(fault.InvalidArgument, "JSON is nested deeper than %d", MaxDepth)
	}
	return &Document{raw: bytes.Clone(bytes.Trim(raw, Space)), family: &family{}}, nil
}

// of returns another document of the family.
func (f *family) of(doc any) *Document {
	d := &Document{family: f}
	d.decoded.Store(&doc)
	return d
}

// tree decodes the document at the first call: a document that is only compared is not
// decoded.
func (d *Document) tree() any {
	if doc := d.decoded.Load(); doc != nil {
		return *doc
	}
	doc := DecodeValid(d.raw)
	d.decoded.CompareAndSwap(nil, &doc) // all callers get the same one
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

// Patch returns the document after RFC 6902 operations, all of them or none. Code
// invalid_argument for an operation that is malformed or does not apply, conflict for a
// test that fails, resource_exhausted for too many operations or too much work.
func (d *Document) Patch(ops []Op) (*Document, error) {
	doc, _, err := ApplyTo(d.tree(), ops)
	if err != nil {
		return nil, err
	}
	return d.family.of(doc), nil
}

// Without returns the document without the values at RFC 6901 pointers. An element of
// an array becomes null, so that the others keep their positions. A pointer without a
// value, and the root, are ignored.
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

// Diff returns operations that turn d into other: add, remove and replace, by member
// and by element, or of the whole value if that is less than half as long. Parts that
// both share, because one was patched from the other, cost nothing to compare. If both
// were read separately, parts with equal bytes are not decoded.
func (d *Document) Diff(other *Document) []Op {
	var w differ
	var ops []Op
	if d.decoded.Load() != nil && other.decoded.Load() != nil {
		ops = w.diff("", 0, Optional{}, d.tree(), other.tree())
	} else {
		before, after := d.written(), other.written()
		w.read = levelsRead * (len(before) + len(after))
		ops = w.diffJSON("", 0, Optional{}, before, after)
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
