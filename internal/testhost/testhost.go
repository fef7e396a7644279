// Package testhost makes the hosts, agents and histories of tests, whose options are right.
package testhost

import (
	"testing"

	"github.com/agenthost/agenthost/host"
)

// New is host.New for a test.
func New(t testing.TB, opts *host.Options) *host.Host {
	t.Helper()
	h, err := host.New(opts)
	if err != nil {
		t.Fatalf("make a host: %v", err)
	}
	return h
}

// NewSingle is [New] for a host with one tenant.
func NewSingle(t testing.TB, opts *host.Options) *host.Host {
	t.Helper()
	own := host.Options{}
	if opts != nil {
		own = *opts
	}
	own.SingleTenant = true
	return New(t, &own)
}

// NewAgent is host.NewAgent for a test.
func NewAgent(t testing.TB, name string, opts *host.AgentOptions) *host.Agent {
	t.Helper()
	a, err := host.NewAgent(name, opts)
	if err != nil {
		t.Fatalf("make agent %s: %v", name, err)
	}
	return a
}

// NewHistory is host.NewHistory for a test, without options.
func NewHistory(t testing.TB, adapter any) *host.History {
	t.Helper()
	h, err := host.NewHistory(adapter, nil)
	if err != nil {
		t.Fatalf("make a history: %v", err)
	}
	return h
}
