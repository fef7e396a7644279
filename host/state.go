package host

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// State is the custom state of one run: a JSON document that the agents, tools
// and routers of a network share. It starts as a deep copy, so nothing a run
// does reaches another run or the value it was started with; integers of any
// size survive. Safe for concurrent use.
type State struct {
	*stateCore
	seen int64 // the revision that a call has seen all of; guarded by mu
	base any   // the document at that revision

	tell func(revision int64) // is called after a change of the call's; nil tells nothing
	undo *undoLog             // of the call's changes; nil keeps nothing
	of   *State               // the view of the call, if this is one of its hooks'
	over bool                 // the call has failed, and changes nothing any more; guarded by mu
}

// stateCore is the part that all views of a state share.
type stateCore struct {
	limit   int
	schema  *Schema // it must fit this schema; nil is any object
	watched bool    // a run sends its changes as events

	mu        sync.Mutex
	doc       any              // decoded with json.Number; replaced, never changed
	encoded   *jsondoc.Encoded // doc as JSON, or an earlier doc's JSON
	size      int              // of doc as JSON
	fits      bool             // doc has been checked by the schema
	revision  int64
	pending   untold   // changes since the last event, if watched; it has a mutex of its own
	journaled bool     // a run writes its changes down
	unsaved   unsent   // changes since that was last done
	views     int      // of calls in progress
	changes   []change // while there are any
	forgotten int64    // changes up to this revision are not remembered
}

// NewState returns a state holding v as JSON. A nil v is an empty object. Code
// invalid_argument if v has no JSON or its JSON is not an object,
// resource_exhausted above limit bytes; a limit of 0 is the default.
func NewState(v any, limit int) (*State, error) {
	if limit == 0 {
		limit = DefaultStateBytes
	}
	raw, err := stateJSON(v)
	if err != nil {
		return nil, err
	}
	doc, err := decodeState(raw)
	if err != nil {
		return nil, err
	}
	return newState(doc, limit, nil)
}

// newState returns a state that owns doc.
func newState(doc map[string]any, limit int, schema *Schema) (*State, error) {
	s := &State{stateCore: &stateCore{limit: limit, doc: doc, schema: schema}}
	if jsondoc.Depth(doc) > jsondoc.MaxDepth {
		return nil, Errorf(InvalidArgument, "state is nested deeper than %d", jsondoc.MaxDepth)
	}
	s.size = len(s.json())
	if err := s.checkSize(s.size); err != nil {
		return nil, err
	}
	if len(doc) == 0 {
		return s, nil // it is unset
	}
	if err := s.checkFit(doc); err != nil {
		return nil, Errorf(InvalidArgument, "state does not fit its schema: %w", err)
	}
	s.fits = true
	return s, nil
}

// checkFit validates a document by the schema. Unchanged values that did fit are
// not checked again if no rule of the schema reaches across them.
func (s *State) checkFit(doc any) error {
	if s.schema == nil {
		return nil
	}
	var was jsondoc.Optional
	if s.fits {
		was = jsondoc.Optional{Value: s.doc, Present: true}
	}
	if s.schema.schema.StillFits(doc, was) {
		return nil
	}
	return s.schema.schema.ValidateValue(doc, s.size)
}

func decodeState(raw json.RawMessage) (map[string]any, error) {
	doc, err := jsondoc.Decode(raw)
	if err != nil {
		return nil, Errorf(InvalidArgument, "read state: %w", err)
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return nil, Errorf(InvalidArgument, "state is %s, not a JSON object", jsondoc.TypeName(doc))
	}
	return m, nil
}

func stateJSON(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(bytes.TrimSpace(v)) == 0 {
			return json.RawMessage("{}"), nil
		}
		return bytes.Clone(v), nil
	case *State:
		return v.JSON(), nil
	}
	raw, err := jsondoc.Marshal(v)
	if err != nil {
		return nil, Errorf(InvalidArgument, "state is not JSON: %w", err)
	}
	if string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	return raw, nil
}

func (s *State) checkSize(n int) error {
	if n <= s.limit {
		return nil
	}
	return Errorf(ResourceExhausted, "state is %d bytes, more than the limit StateBytes of %d", n, s.limit).
		WithHint("keep large things as artifacts")
}

// JSON returns the state as JSON. The bytes must not be changed.
func (s *State) JSON() json.RawMessage {
	raw, _ := s.Snapshot()
	return raw
}

// Snapshot returns the state as JSON with its revision, a number that grows
// with every change.
func (s *State) Snapshot() (json.RawMessage, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.base = s.revision, s.doc
	return s.json(), s.revision
}

// Revision returns the state's current revision.
func (s *State) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

func (s *State) json() json.RawMessage {
	s.encoded = s.encoded.Next(s.doc)
	return s.encoded.JSON
}

// Patch applies RFC 6902 operations, all or none, to the current state. Code
// invalid_argument for an operation that is malformed or does not apply and for a
// result that does not fit the network's schema, conflict for a test that fails,
// resource_exhausted if the result is too large.
func (s *State) Patch(ops []PatchOp) error {
	if len(ops) == 0 {
		return nil
	}
	return s.change(func() error { return s.patch(ops) })
}

// PatchAt is Patch if the state is still at the given revision, and conflict
// otherwise.
func (s *State) PatchAt(revision int64, ops []PatchOp) error {
	return s.change(func() error {
		if s.revision != revision {
			return Errorf(Conflict, "state is at revision %d, not %d", s.revision, revision).
				WithHint("read it again and patch what is there now")
		}
		return s.patch(ops)
	})
}

// change calls make with the lock, and tells of the change that it has made.
func (s *State) change(make func() error) error {
	var revision int64
	err := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := s.revision
		err := make()
		if s.revision != before {
			revision = s.revision
		}
		return err
	}()
	if revision > 0 && s.tell != nil {
		s.tell(revision)
	}
	return err
}

func (s *State) patch(ops []PatchOp) error {
	if s.over {
		return errCallEnded()
	}
	p := jsondoc.Patcher{Doc: s.doc, RecordUndo: s.undo != nil}
	if err := p.Apply(ops); err != nil {
		return err
	}
	before, revision := s.doc, s.revision
	if err := s.replace(p.Doc, p.Growth, ops); err != nil {
		return err
	}
	if s.undo != nil {
		s.undo.add(before, revision, p.Undo)
	}
	return nil
}

// replace commits a new document that ops lead to and that is longer than the
// last by growth. It does not encode it: a change costs what it touches.
func (s *State) replace(doc any, growth int, ops []PatchOp) error {
	if _, ok := doc.(map[string]any); !ok {
		return Errorf(InvalidArgument, "state would become %s, not a JSON object", jsondoc.TypeName(doc))
	}
	if err := s.checkSize(s.size + growth); err != nil {
		return err
	}
	if err := s.checkFit(doc); err != nil {
		return Errorf(InvalidArgument, "state would not fit its schema: %w", err)
	}
	before := s.doc
	s.doc, s.size, s.fits = doc, s.size+growth, true
	s.revision++
	s.remember(before, ops)
	if s.watched {
		s.pending.add(ops, s)
	}
	if s.journaled {
		s.unsaved.add(ops, s)
	}
	return nil
}

// keepUnsaved has changes kept for [State.takeUnsaved] from here on.
func (s *State) keepUnsaved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journaled = true
}

// takeUnsaved returns operations that lead here from where it was last called.
func (s *State) takeUnsaved() []PatchOp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved.take()
}

// takeChanges returns operations that lead here from where it was last called.
func (s *State) takeChanges() []PatchOp {
	return slices.Concat(s.pending.take(math.MaxInt64)...)
}

// Get decodes the value at an RFC 6901 pointer into v ("" is the whole state).
// It reports whether there is one; code invalid_argument if it does not fit v,
// or the pointer is none.
func (s *State) Get(pointer string, v any) (bool, error) {
	if pointer != "" && pointer[0] != '/' {
		return false, Errorf(InvalidArgument, "read state at %q: a pointer starts with /", pointer)
	}
	raw, ok := s.at(pointer)
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, Errorf(InvalidArgument, "read state at %q: %w", pointer, err)
	}
	return true, nil
}

// at returns the value at a pointer as JSON.
func (s *State) at(pointer string) (json.RawMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pointer == "" {
		return s.json(), true
	}
	value, err := jsondoc.Lookup(s.doc, pointer)
	if err != nil {
		return nil, false
	}
	return jsondoc.Encode(value), true
}

// Set puts v at a pointer whose parent exists.
func (s *State) Set(pointer string, v any) error {
	raw, err := jsondoc.Marshal(v)
	if err != nil {
		return Errorf(InvalidArgument, "set state at %q: %w", pointer, err)
	}
	op := "add"
	if pointer == "" {
		op = "replace"
	}
	return s.Patch([]PatchOp{{Op: op, Path: pointer, Value: raw}})
}

// StateAs returns the state as a T. Members that T does not know are left out.
func StateAs[T any](s *State) (T, error) {
	var v T
	_, err := s.Get("", &v)
	return v, err
}

// UpdateState reads the state as a T, has fn change it and writes the changes
// back, with nothing in between. Members that T does not know stay unchanged,
// except in an array that fn changes: an array with such members is written whole.
// If fn fails nothing changes. fn must not use s.
func UpdateState[T any](s *State, fn func(*T) error) error {
	return s.change(func() error { return updateState(s, fn) })
}

func updateState[T any](s *State, fn func(*T) error) error {
	raw := s.json()
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return Errorf(InvalidArgument, "read state as %s: %w", reflect.TypeFor[T](), err)
	}
	written := updates.Get().(*update)
	defer written.put()
	before, err := jsondoc.MarshalInto(&written.before, v)
	if err != nil {
		return Errorf(InvalidArgument, "write state: %w", err)
	}
	if err := fn(v); err != nil {
		return err
	}
	after, err := jsondoc.MarshalInto(&written.after, v)
	if err != nil {
		return Errorf(InvalidArgument, "write state: %w", err)
	}
	ops, err := jsondoc.DiffTyped(s.doc, before, after)
	if err != nil || len(ops) == 0 {
		return err
	}
	return s.patch(ops)
}

// update is room for a Go value's JSON before and after a typed update. Nothing of
// it is in the operations.
type update struct{ before, after bytes.Buffer }

// updates keeps the buffers of finished typed updates for others.
var updates = sync.Pool{New: func() any { return new(update) }}

// keptUpdateBytes bounds each buffer of a kept update.
const keptUpdateBytes = 1 << 20

func (u *update) put() {
	if u.before.Cap() <= keptUpdateBytes && u.after.Cap() <= keptUpdateBytes {
		updates.Put(u)
	}
}
