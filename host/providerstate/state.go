// Package providerstate keeps the states of context providers during a run, so that each
// sees its own, and a failed run stores those that it has loaded.
//
// A program meets it as host.ProviderState: providers get theirs with each request.
package providerstate

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// MaxBytes is the most that one context provider keeps in a thread, as JSON.
const MaxBytes = 64 << 10

// State is the state that one context provider keeps in a thread, from run
// to run: any JSON. No other provider sees it, and neither do tools, routers and
// clients. A run's changes of it are stored with the run's turn, and dropped if the
// run fails; without a history it is in the run's result: see
// host.RunResult.Providers. An agent's provider has one of its own in each agent that
// it is given to, a network's has one in the network. Safe for concurrent use.
type State struct {
	all *All
	key string
}

// New returns a state that belongs to no thread, for tests of providers; nil is nothing
// kept.
func New(value json.RawMessage) *State {
	s := NewAll(nil)
	if value != nil {
		s.now[""] = keptState{value, 1}
	}
	return s.Of("")
}

// Get decodes the state into v, and reports whether there is one. Code
// invalid_argument if it does not fit v.
func (p *State) Get(v any) (bool, error) {
	raw, _ := p.JSON()
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, fault.Errorf(fault.InvalidArgument, "read the state of a provider: %w", err)
	}
	return true, nil
}

// JSON returns the state, or nil, and its revision: a number that grows with each
// change in the run, 0 if there is no state. The bytes must not be changed.
func (p *State) JSON() (json.RawMessage, int64) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	k := p.all.now[p.key]
	return k.value, k.revision
}

// Set keeps v as JSON; one whose JSON is null is nothing. Codes: invalid_argument
// for a value without JSON, resource_exhausted above [MaxBytes].
func (p *State) Set(v any) error {
	_, err := p.set(v, -1)
	return err
}

// SetAt is Set if the state is still at the given revision, and conflict otherwise.
// It returns the new revision.
func (p *State) SetAt(revision int64, v any) (int64, error) { return p.set(v, revision) }

func (p *State) set(v any, at int64) (int64, error) {
	raw, err := jsondoc.Marshal(v)
	if err == nil {
		err = jsondoc.Check(raw) // raw JSON that a program brings
	}
	if err != nil {
		return 0, fault.Errorf(fault.InvalidArgument, "write the state of a provider: %w", err)
	}
	if len(raw) > MaxBytes {
		return 0, fault.Errorf(fault.ResourceExhausted, "the state of a provider is %d bytes, more than %d", len(raw), MaxBytes).
			WithHint("keep large things elsewhere, such as in a memory store")
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	k := p.all.now[p.key]
	if at >= 0 && k.revision != at {
		return 0, fault.Errorf(fault.Conflict, "the state of the provider is at revision %d, not %d", k.revision, at).WithHint("read it again")
	}
	if string(raw) == "null" {
		delete(p.all.now, p.key)
		return 0, nil
	}
	p.all.written++
	p.all.now[p.key] = keptState{raw, p.all.written + 1}
	return p.all.written + 1, nil
}

// keptState is a provider's state. A loaded one has revision 1.
type keptState struct {
	value    json.RawMessage
	revision int64
}

// All are the states of all providers of a run, by their keys.
type All struct {
	loaded map[string]json.RawMessage

	mu      sync.Mutex
	now     map[string]keptState
	written int64
}

// NewAll returns the states of a run whose thread has these, by their keys.
func NewAll(loaded map[string]json.RawMessage) *All {
	s := &All{loaded: maps.Clone(loaded), now: map[string]keptState{}}
	for key, raw := range loaded {
		if string(bytes.TrimSpace(raw)) != "null" {
			s.now[key] = keptState{raw, 1}
		}
	}
	return s
}

// Check refuses states that no provider can have written.
func Check(states map[string]json.RawMessage) error {
	for _, raw := range states {
		if len(raw) > MaxBytes || jsondoc.Check(raw) != nil {
			return fault.Errorf(fault.DataLoss, "the state of a context provider is not JSON of at most %d bytes", MaxBytes)
		}
	}
	return nil
}

// Of returns the state of a key.
func (s *All) Of(key string) *State { return &State{s, key} }

// JSON returns the states to store, never nil: the current ones or, if the run has
// failed, the loaded ones.
func (s *All) JSON(failed bool) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if failed {
		maps.Copy(out, s.loaded)
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.now {
		out[key] = k.value
	}
	return out
}
