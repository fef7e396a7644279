// Package preferences is a context provider that remembers what a user prefers:
// before a run it tells the agent, after it it learns from what the user has said.
// It is Agent Framework's example UserPreferencesMemory, in Go here and as a
// WebAssembly plugin in the directory plugin; both do the same to a run. What they
// have learned is kept in the thread, so it survives the program.
package preferences

import (
	"context"
	_ "embed" // the plugin's module

	"github.com/agenthost/agenthost/examples/preferences/learn"
	"github.com/agenthost/agenthost/host"
)

// Wasm is the module of the plugin. It must not be changed.
//
//go:embed preferences.wasm
var Wasm []byte

// Memory is the provider in Go.
type Memory struct{}

var (
	_ host.Provider = Memory{}
	_ host.Observer = Memory{}
)

// Name implements [host.Provider]. The thread keeps the preferences under this name.
func (Memory) Name() string { return "preferences" }

// Provide adds the known preferences to the agent's instructions: the invoking hook.
func (Memory) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	var known learn.Preferences
	if _, err := req.Own.Get(&known); err != nil {
		return nil, err
	}
	return &host.Provided{Instructions: known.Text()}, nil
}

// Observe learns from the newest message of the user's: the invoked hook. A run
// that has failed teaches nothing, and would keep nothing.
func (Memory) Observe(_ context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	if req.Err != nil {
		return nil, nil
	}
	var known learn.Preferences
	if _, err := req.Own.Get(&known); err != nil {
		return nil, err
	}
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if m := req.Messages[i]; m.Role == host.User {
			if more, changed := known.Add(m.Text()); changed {
				return nil, req.Own.Set(more)
			}
			break
		}
	}
	return nil, nil
}
