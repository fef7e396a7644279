package host

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// PatchOp is one RFC 6902 operation: a struct of the strings Op (add, remove,
// replace, move, copy or test), Path and From (of move and copy), and the
// [json.RawMessage] Value (of add, replace and test). Paths are RFC 6901 pointers;
// the empty member name is an ordinary name.
//
// Its JSON is {"op","path","from"?,"value"?}, with the members that the operation
// defines and no others. Reading refuses, with code invalid_argument, an operation
// without a member that it needs (an absent path is not the root) and one with a
// member that is given twice.
type PatchOp = jsondoc.Op

// Document is a JSON value that is patched and compared without being read
// again. Numbers keep their spelling, so integers of any size survive. A document
// is immutable: a patched document shares the unchanged parts with the one it was
// made from, so a patch costs what it touches. Safe for concurrent use.
type Document struct{ doc *jsondoc.Document }

// ReadDocument reads JSON. Malformed JSON and a value that is nested deeper than
// 512 have code invalid_argument.
func ReadDocument(raw json.RawMessage) (*Document, error) {
	doc, err := jsondoc.Read(raw)
	if err != nil {
		return nil, err
	}
	return &Document{doc}, nil
}

// JSON returns the document as JSON, the members of objects in the order of
// their names. The bytes must not be changed.
func (d *Document) JSON() json.RawMessage { return d.doc.JSON() }

// Size returns the length of its JSON in bytes.
func (d *Document) Size() int { return d.doc.Size() }

// IsObject reports whether the document is a JSON object.
func (d *Document) IsObject() bool { return d.doc.IsObject() }

// Equal reports whether two documents have the same members, elements and texts,
// and numbers that are written alike.
func (d *Document) Equal(e *Document) bool { return d.doc.Equal(e.doc) }

// Patch returns the document that RFC 6902 operations lead to, all of them or
// none. Code invalid_argument for an operation that is malformed or does not
// apply, conflict for a test that fails, resource_exhausted for too many
// operations or too much work.
func (d *Document) Patch(ops []PatchOp) (*Document, error) {
	doc, err := d.doc.Patch(ops)
	if err != nil {
		return nil, err
	}
	return &Document{doc}, nil
}

// Without returns the document without the values at RFC 6901 pointers. An element
// of an array becomes null, so that the others keep their indices. The root and a
// pointer to nothing change nothing.
func (d *Document) Without(pointers ...string) *Document {
	return &Document{d.doc.Without(pointers...)}
}

// Diff returns operations that make other of d: add, remove and replace, by
// member and by element, or the whole if that is less than half as long. Parts that
// the two share, because one was patched from the other, cost nothing to compare.
func (d *Document) Diff(other *Document) []PatchOp { return d.doc.Diff(other.doc) }
