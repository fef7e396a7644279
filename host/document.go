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

// Document is a JSON value that is patched and compared without being read again.
// Numbers keep their spelling, so integers of any size survive. A document is
// immutable: a patched document shares the unchanged parts with the one it was made
// from, so a patch costs what it touches. Safe for concurrent use.
//
//   - JSON returns it as JSON, the members of objects in the order of their names, and
//     Size the length of that. The bytes must not be changed.
//   - IsObject and Equal look at it. Numbers are equal if they are written alike.
//   - Patch returns the document that RFC 6902 operations lead to, all of them or none.
//     Code invalid_argument for an operation that is malformed or does not apply,
//     conflict for a test that fails, resource_exhausted for too many operations or too
//     much work.
//   - Diff returns operations (add, remove, replace) that make another document of it.
//     Parts that the two share, because one was patched from the other, cost nothing.
//   - Without returns it without the values at RFC 6901 pointers. An element of an array
//     becomes null, so that the others keep their indices.
type Document = jsondoc.Document

// ReadDocument reads JSON. Malformed JSON and a value that is nested deeper than
// 512 have code invalid_argument.
func ReadDocument(raw json.RawMessage) (*Document, error) { return jsondoc.Read(raw) }
