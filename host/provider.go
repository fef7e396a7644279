package host

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Provider is a context provider: it adds its knowledge before an agent runs.
// Implementations are safe for concurrent use. An error ends the run.
type Provider interface {
	Name() string
	Provide(ctx context.Context, req *ProvideRequest) (*Provided, error)
}

// Observer is an optional interface of a [Provider]: it receives, after the agent's
// run, the run's messages or its error. It is not called for a run that fails
// before the provider is asked. Its own failure is an event, not the run's.
type Observer interface {
	Observe(ctx context.Context, req *ObserveRequest) (*Cost, error)
}

// ProvideRequest is the input of a provider: the history before the processors,
// with this turn's input; the run's state; and the provider's own state in the
// thread.
type ProvideRequest struct {
	Scope    Scope
	Messages []*Message
	State    *State
	Own      *ProviderState
}

// Provided holds a provider's additions, for this run of the agent. Instructions
// are joined to the agent's by a line break, those of several providers in the
// order of the providers. Messages come behind the history and before this turn, in
// the same order; with Store they are part of the agent's result instead, behind
// this turn's input, and stored with it. Tools join the agent's.
//
// Who has added something is said where it goes: [MetadataProvider] of a message
// names the provider, and so do the events of a call of its tools.
type Provided struct {
	Instructions string
	Messages     []*Message
	Store        bool // Messages stay in the conversation
	Tools        []*Tool
	Cost         *Cost
}

// MetadataProvider is a name in [Message].Metadata: of the context provider that
// has added the message, as a JSON string.
const MetadataProvider = "provider"

// attributed returns the messages of a provider with its name.
func attributed(messages []*Message, provider string) []*Message {
	out := make([]*Message, len(messages))
	for i, m := range messages {
		m = m.WithIdentity().Clone()
		m.Metadata = maps.Clone(m.Metadata)
		if m.Metadata == nil {
			m.Metadata = map[string]json.RawMessage{}
		}
		m.Metadata[MetadataProvider] = jsondoc.Quote(provider)
		out[i] = m
	}
	return out
}

// ObserveRequest is the input of an observer.
type ObserveRequest struct {
	ProvideRequest
	Responses []*Message // the agent's answers and its tools' results
	Err       error      // why the agent's run failed, if it did
}
