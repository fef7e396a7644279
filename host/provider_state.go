package host

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// MaxProviderStateBytes is the most that one context provider keeps in a thread,
// as JSON.
const MaxProviderStateBytes = 64 << 10

// ProviderState is the state that one context provider keeps in a thread, from run
// to run: any JSON. No other provider sees it, and neither do tools, routers and
// clients. A run's changes of it are stored with the run's turn, and dropped if the
// run fails; without a history it is in the run's result: see
// [RunResult].Providers. An agent's provider has one of its own in each agent that
// it is given to, a network's has one in the network. Safe for concurrent use.
type ProviderState struct {
	all *providerStates
	key string
}

// NewProviderState returns a state that belongs to no thread, for tests of
// providers; nil is nothing kept.
func NewProviderState(value json.RawMessage) *ProviderState {
	s := newProviderStates(nil)
	if value != nil {
		s.now[""] = keptState{value, 1}
	}
	return s.of("")
}

// Get decodes the state into v, and reports whether there is one. Code
// invalid_argument if it does not fit v.
func (p *ProviderState) Get(v any) (bool, error) {
	raw, _ := p.JSON()
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, Errorf(InvalidArgument, "read the state of a provider: %w", err)
	}
	return true, nil
}

// JSON returns the state, or nil, and its revision: a number that grows with each
// change in the run, 0 if there is no state. The bytes must not be changed.
func (p *ProviderState) JSON() (json.RawMessage, int64) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	k := p.all.now[p.key]
	return k.value, k.revision
}

// Set keeps v as JSON; one whose JSON is null is nothing. Codes: invalid_argument
// for a value without JSON, resource_exhausted above [MaxProviderStateBytes].
func (p *ProviderState) Set(v any) error {
	_, err := p.set(v, -1)
	return err
}

// SetAt is Set if the state is still at the given revision, and conflict otherwise.
// It returns the new revision.
func (p *ProviderState) SetAt(revision int64, v any) (int64, error) { return p.set(v, revision) }

func (p *ProviderState) set(v any, at int64) (int64, error) {
	raw, err := jsondoc.Marshal(v)
	if err == nil {
		err = jsondoc.Check(raw) // raw JSON that a program brings
	}
	if err != nil {
		return 0, Errorf(InvalidArgument, "write the state of a provider: %w", err)
	}
	if len(raw) > MaxProviderStateBytes {
		return 0, Errorf(ResourceExhausted, "the state of a provider is %d bytes, more than %d", len(raw), MaxProviderStateBytes).
			WithHint("keep large things elsewhere, such as in a memory store")
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	k := p.all.now[p.key]
	if at >= 0 && k.revision != at {
		return 0, Errorf(Conflict, "the state of the provider is at revision %d, not %d", k.revision, at).WithHint("read it again")
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

// providerStates are those of all providers of a run, by their keys.
type providerStates struct {
	loaded map[string]json.RawMessage

	mu      sync.Mutex
	now     map[string]keptState
	written int64
}

func newProviderStates(loaded map[string]json.RawMessage) *providerStates {
	s := &providerStates{loaded: maps.Clone(loaded), now: map[string]keptState{}}
	for key, raw := range loaded {
		if string(bytes.TrimSpace(raw)) != "null" {
			s.now[key] = keptState{raw, 1}
		}
	}
	return s
}

// checkProviderStates refuses states that no provider can have written.
func checkProviderStates(states map[string]json.RawMessage) error {
	for _, raw := range states {
		if len(raw) > MaxProviderStateBytes || jsondoc.Check(raw) != nil {
			return Errorf(DataLoss, "the state of a context provider is not JSON of at most %d bytes", MaxProviderStateBytes)
		}
	}
	return nil
}

func (s *providerStates) of(key string) *ProviderState { return &ProviderState{s, key} }

// json returns the states to store, never nil: the current ones or, if the run has
// failed, the loaded ones.
func (s *providerStates) json(failed bool) map[string]json.RawMessage {
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

// ownedProvider is a provider with the key of its state.
type ownedProvider struct {
	Provider
	key string
}

// ownedProviders returns the providers of a network and then of one of its
// agents. The key of an agent's has the agent's name in front.
func ownedProviders(n *Network, a *Agent) []ownedProvider {
	var list []ownedProvider
	for _, p := range n.opts.Providers {
		list = append(list, ownedProvider{p, p.Name()})
	}
	for _, p := range a.opts.Providers {
		list = append(list, ownedProvider{p, a.name + "/" + p.Name()})
	}
	return list
}

// checkProviders refuses two providers whose states would be one.
func checkProviders(n *Network, a *Agent) error {
	seen := map[string]bool{}
	for _, p := range ownedProviders(n, a) {
		if seen[p.key] {
			return Errorf(InvalidArgument, "two context providers are named %q", p.Name()).
				WithHint("give each a name of its own: what they keep in a thread is by their names")
		}
		seen[p.key] = true
	}
	return nil
}
