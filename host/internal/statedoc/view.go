package statedoc

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/schema"
)

// View is a document as one of its writers sees it. Safe for concurrent use.
type View struct {
	*shared
	seen int64 // the revision that a call has seen all of; guarded by mu
	base any   // the document at that revision

	changed func(revision int64) // is called after each change through this view; may be nil
	undo    *undoLog             // of the call's changes; nil for a view that is not a call's
	call    *View                // the view of the call, if this is a view of its hooks
	closed  bool                 // the call has failed and changes nothing more; guarded by mu
}

// shared is the part that all views of a document share.
type shared struct {
	limit   int            // of the document as JSON, in bytes
	schema  *schema.Schema // nil accepts every object
	watched bool           // changes are kept for TakeChanges

	mu        sync.Mutex
	doc       any              // decoded with json.Number; replaced, never changed
	encoded   *jsondoc.Encoded // doc as JSON, or an earlier doc's JSON
	size      int              // of doc as JSON
	fits      bool             // doc has been checked by the schema
	revision  int64
	unsent    unsentChanges // since the last event, if watched; it has a mutex of its own
	journaled bool          // changes are kept for TakeUnsaved
	unsaved   unsavedOps    // since the last TakeUnsaved
	calls     int           // in progress
	changes   []change      // made while calls were in progress
	forgotten int64         // changes up to this revision are not remembered
	unsettled []*View       // of calls whose outcome no journal has, if journaled
}

// New returns a view of a new document, which owns the members. Code
// invalid_argument for members that do not fit the schema or are nested too deep,
// resource_exhausted above limit bytes. An empty document is unset: the schema does
// not apply to it until its first change.
func New(members map[string]any, limit int, s *schema.Schema) (*View, error) {
	v := &View{shared: &shared{limit: limit, doc: members, schema: s}}
	if jsondoc.Depth(members) > jsondoc.MaxDepth {
		return nil, fault.Errorf(fault.InvalidArgument, "state is nested deeper than %d", jsondoc.MaxDepth)
	}
	v.size = len(v.json())
	if err := v.checkSize(v.size); err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return v, nil
	}
	if err := v.checkFit(members); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "state does not fit its schema: %w", err)
	}
	v.fits = true
	return v, nil
}

// checkFit validates a document by the schema. Unchanged values that did fit are
// not checked again if no rule of the schema reaches across them.
func (v *View) checkFit(doc any) error {
	if v.schema == nil {
		return nil
	}
	var was jsondoc.Optional
	if v.fits {
		was = jsondoc.Optional{Value: v.doc, Present: true}
	}
	if v.schema.StillFits(doc, was) {
		return nil
	}
	return v.schema.ValidateValue(doc, v.size)
}

// Members reads the JSON of a document. Code invalid_argument for JSON that is not an
// object.
func Members(raw json.RawMessage) (map[string]any, error) {
	doc, err := jsondoc.Decode(raw)
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read state: %w", err)
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return nil, fault.Errorf(fault.InvalidArgument, "state is %s, not a JSON object", jsondoc.TypeName(doc))
	}
	return m, nil
}

// JSONOf returns a Go value as the JSON of a document, which the caller owns. nil,
// null and blank JSON are the empty object. Code invalid_argument for a value that
// has no JSON.
func JSONOf(value any) (json.RawMessage, error) {
	switch v := value.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(bytes.TrimSpace(v)) == 0 {
			return json.RawMessage("{}"), nil
		}
		return bytes.Clone(v), nil
	}
	raw, err := jsondoc.Marshal(value)
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "state is not JSON: %w", err)
	}
	if string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	return raw, nil
}

func (v *View) checkSize(n int) error {
	if n <= v.limit {
		return nil
	}
	return fault.Errorf(fault.ResourceExhausted, "state is %d bytes, more than the limit StateBytes of %d", n, v.limit).
		WithHint("keep large things as artifacts")
}

// Snapshot returns the document as JSON with its revision, a number that grows
// with every change. The view has seen everything up to that revision. The bytes
// must not be changed.
func (v *View) Snapshot() (json.RawMessage, int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen, v.base = v.revision, v.doc
	return v.json(), v.revision
}

// Peek returns the document as JSON and leaves unchanged what the view has seen. The
// bytes must not be changed.
func (v *View) Peek() json.RawMessage {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.json()
}

// Revision returns the document's current revision.
func (v *View) Revision() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

func (s *shared) json() json.RawMessage {
	s.encoded = s.encoded.Next(s.doc)
	return s.encoded.JSON
}

// Get decodes the value at an RFC 6901 pointer into the variable that into points
// to, and reports whether there is a value. Code invalid_argument for a value that
// does not fit the variable, and for a malformed pointer.
func (v *View) Get(pointer string, into any) (bool, error) {
	if pointer != "" && pointer[0] != '/' {
		return false, fault.Errorf(fault.InvalidArgument, "read state at %q: a pointer starts with /", pointer)
	}
	raw, ok := v.valueAt(pointer)
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return true, fault.Errorf(fault.InvalidArgument, "read state at %q: %w", pointer, err)
	}
	return true, nil
}

// Text returns the value at a pointer as text: a string verbatim, any other value as
// JSON, an absent one as "".
func (v *View) Text(pointer string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, err := jsondoc.Lookup(v.doc, pointer)
	if err != nil {
		return ""
	}
	if text, ok := value.(string); ok {
		return text
	}
	return string(jsondoc.Encode(value))
}

// valueAt returns the value at a pointer as JSON.
func (v *View) valueAt(pointer string) (json.RawMessage, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if pointer == "" {
		return v.json(), true
	}
	value, err := jsondoc.Lookup(v.doc, pointer)
	if err != nil {
		return nil, false
	}
	return jsondoc.Encode(value), true
}

// Set puts a Go value at a pointer whose parent exists. Errors are those of Patch.
func (v *View) Set(pointer string, value any) error {
	raw, err := jsondoc.Marshal(value)
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "set state at %q: %w", pointer, err)
	}
	op := "add"
	if pointer == "" {
		op = "replace"
	}
	return v.Patch([]jsondoc.Op{{Op: op, Path: pointer, Value: raw}})
}

// Patch applies RFC 6902 operations, all or none, to the current document. Code
// invalid_argument for an operation that is malformed or does not apply and for a
// result that does not fit the schema, conflict for a test that fails,
// resource_exhausted if the result is too large, failed_precondition after
// [View.TakeBack].
func (v *View) Patch(ops []jsondoc.Op) error {
	if len(ops) == 0 {
		return nil
	}
	return v.change(func() error { return v.patch(ops) })
}

// PatchAt is Patch if the document is still at the given revision, and conflict
// otherwise.
func (v *View) PatchAt(revision int64, ops []jsondoc.Op) error {
	return v.change(func() error {
		if v.revision != revision {
			return fault.Errorf(fault.Conflict, "state is at revision %d, not %d", v.revision, revision).
				WithHint("read it again and patch what is there now")
		}
		return v.patch(ops)
	})
}

// change calls make with the lock, and then reports the change that it has made.
func (v *View) change(make func() error) error {
	var revision int64
	err := func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		before := v.revision
		err := make()
		if v.revision != before {
			revision = v.revision
		}
		return err
	}()
	if revision > 0 && v.changed != nil {
		v.changed(revision)
	}
	return err
}

func (v *View) patch(ops []jsondoc.Op) error {
	if v.closed {
		return fault.Errorf(fault.FailedPrecondition, "the call has ended")
	}
	p := jsondoc.Patcher{Doc: v.doc, RecordUndo: v.undo != nil}
	if err := p.Apply(ops); err != nil {
		return err
	}
	before, revision := v.doc, v.revision
	if err := v.replace(p.Doc, p.Growth, ops); err != nil {
		return err
	}
	if v.undo != nil {
		v.undo.add(before, revision, p.Undo)
	}
	return nil
}

// replace commits a new document that ops lead to and that is longer than the
// last by growth. It does not encode it: a change costs what it touches.
func (v *View) replace(doc any, growth int, ops []jsondoc.Op) error {
	if _, ok := doc.(map[string]any); !ok {
		return fault.Errorf(fault.InvalidArgument, "state would become %s, not a JSON object", jsondoc.TypeName(doc))
	}
	if err := v.checkSize(v.size + growth); err != nil {
		return err
	}
	if err := v.checkFit(doc); err != nil {
		return fault.Errorf(fault.InvalidArgument, "state would not fit its schema: %w", err)
	}
	before := v.doc
	v.doc, v.size, v.fits = doc, v.size+growth, true
	v.revision++
	v.remember(before, ops)
	if v.watched {
		v.unsent.add(ops, v.shared)
	}
	if v.journaled {
		v.unsaved.add(ops, v.shared)
	}
	return nil
}

// PatchAgain applies operations that were applied before, perhaps as many patches:
// only together may they be more work than one patch may make.
func (v *View) PatchAgain(ops []jsondoc.Op) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	doc, growth := v.doc, 0
	for i := range ops {
		after, n, err := jsondoc.ApplyTo(doc, ops[i:i+1])
		if err != nil {
			return err
		}
		doc, growth = after, growth+n
	}
	return v.replace(doc, growth, ops)
}

// Watch has changes kept for [View.TakeChanges]. It is called before the first change.
func (v *View) Watch() { v.watched = true }

// TakeChanges returns the changes up to a revision, a list of operations for each,
// that were not returned before.
func (v *View) TakeChanges(revision int64) [][]jsondoc.Op { return v.unsent.take(revision) }

// TakeAllChanges returns the operations of all changes that were not returned before.
func (v *View) TakeAllChanges() []jsondoc.Op {
	return slices.Concat(v.unsent.take(math.MaxInt64)...)
}

// KeepUnsaved has changes kept for [View.TakeUnsaved] from here on.
func (v *View) KeepUnsaved() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.journaled = true
}

// TakeUnsaved returns operations that lead from the document at its last call to the
// present one, and those that lead from there to the document without the changes of calls
// whose outcome the journal does not have: when the process ends they are made again. The
// journal has that of the call with the view ended, which may be nil, from here on.
func (v *View) TakeUnsaved(ended *View) (ops, undo []jsondoc.Op) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if ended != nil {
		ended.settle()
	}
	return v.unsaved.take(), v.undoUnsettled()
}
