package host_test

import (
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

func newHost(t testing.TB, opts *host.Options) *host.Host {
	t.Helper()
	own := host.Options{}
	if opts != nil {
		own = *opts
	}
	own.SingleTenant = true
	h, err := host.New(&own)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return h
}

// newAgent returns an agent named clerk.
func newAgent(t testing.TB, opts *host.AgentOptions) *host.Agent {
	t.Helper()
	a, err := host.NewAgent("clerk", opts)
	if err != nil {
		t.Fatalf("NewAgent: %v", err)
	}
	return a
}

// says returns a model that gives one answer of text.
func says(text string) *hosttest.Model { return hosttest.NewModel(hosttest.Say(text)) }

func newHistory(t testing.TB, adapter any) *host.History {
	t.Helper()
	h, err := host.NewHistory(adapter, nil)
	if err != nil {
		t.Fatalf("NewHistory: %v", err)
	}
	return h
}

func newState(t testing.TB, doc string) *host.State {
	t.Helper()
	s, err := host.NewState(json.RawMessage(doc), 0)
	if err != nil {
		t.Fatalf("NewState(%s): %v", doc, err)
	}
	return s
}

func readDocument(t interface{ Fatalf(string, ...any) }, raw string) *host.Document {
	d, err := host.ReadDocument(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("ReadDocument(%.200s): %v", raw, err)
	}
	return d
}

func encode(m *host.Message) string { return string(m.AppendJSON(nil)) }
