package host

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/providerstate"
)

// MaxProviderStateBytes is the most that one context provider keeps in a thread, as JSON.
const MaxProviderStateBytes = providerstate.MaxBytes

// ProviderState is the state that one context provider keeps in a thread: see
// [providerstate.State].
type ProviderState = providerstate.State

// NewProviderState returns a state that belongs to no thread, for tests of providers; nil
// is nothing kept.
func NewProviderState(value json.RawMessage) *ProviderState { return providerstate.New(value) }

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
