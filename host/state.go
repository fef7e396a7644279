package host

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/internal/statedoc"
)

// State is the custom state of one run: a JSON document that the agents, tools
// and routers of a network share. It starts as a deep copy, so nothing a run
// does reaches another run or the value it was started with; integers of any
// size survive. Safe for concurrent use.
type State statedoc.View

// view returns the state with the methods that only runs call.
func (s *State) view() *statedoc.View { return (*statedoc.View)(s) }

// NewState returns a state holding v as JSON. A nil v is an empty object. Code
// invalid_argument if v has no JSON or its JSON is not an object,
// resource_exhausted above limit bytes; a limit of 0 is the default.
func NewState(v any, limit int) (*State, error) {
	if limit == 0 {
		limit = DefaultLimits().StateBytes
	}
	members, err := stateMembers(v)
	if err != nil {
		return nil, err
	}
	return newState(members, limit, nil)
}

// newState returns a state that owns its members.
func newState(members map[string]any, limit int, schema *Schema) (*State, error) {
	view, err := statedoc.New(members, limit, schema.compiled())
	return (*State)(view), err
}

// stateMembers returns the members of a state that is given as a Go value.
func stateMembers(v any) (map[string]any, error) {
	raw, err := stateJSON(v)
	if err != nil {
		return nil, err
	}
	return statedoc.Members(raw)
}

func stateJSON(v any) (json.RawMessage, error) {
	if s, ok := v.(*State); ok {
		return s.JSON(), nil
	}
	return statedoc.JSONOf(v)
}

// JSON returns the state as JSON. The bytes must not be changed.
func (s *State) JSON() json.RawMessage {
	raw, _ := s.Snapshot()
	return raw
}

// Snapshot returns the state as JSON with its revision, a number that grows
// with every change.
func (s *State) Snapshot() (json.RawMessage, int64) { return s.view().Snapshot() }

// Revision returns the state's current revision.
func (s *State) Revision() int64 { return s.view().Revision() }

// Patch applies RFC 6902 operations, all or none, to the current state. Code
// invalid_argument for an operation that is malformed or does not apply and for a
// result that does not fit the network's schema, conflict for a test that fails,
// resource_exhausted if the result is too large, failed_precondition in a call whose
// changes were taken back because it has failed.
func (s *State) Patch(ops []PatchOp) error { return s.view().Patch(ops) }

// PatchAt is Patch if the state is still at the given revision, and conflict
// otherwise.
func (s *State) PatchAt(revision int64, ops []PatchOp) error { return s.view().PatchAt(revision, ops) }

// Get decodes the value at an RFC 6901 pointer into v ("" is the whole state).
// It reports whether there is one; code invalid_argument if it does not fit v,
// or the pointer is malformed.
func (s *State) Get(pointer string, v any) (bool, error) { return s.view().Get(pointer, v) }

// Set puts v at a pointer whose parent exists.
func (s *State) Set(pointer string, v any) error { return s.view().Set(pointer, v) }

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
func UpdateState[T any](s *State, fn func(*T) error) error { return statedoc.Update(s.view(), fn) }
