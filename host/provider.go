package host

import "context"

// Provider is a context provider: it adds what it knows before an agent runs.
// Implementations are safe for concurrent use. An error ends the run.
type Provider interface {
	Name() string
	Provide(ctx context.Context, req *ProvideRequest) (*Provided, error)
}

// Observer is what a [Provider] may also be: told, after the agent's run, what
// was said, or the error it failed with. Its own failure is an event, not the
// run's.
type Observer interface {
	Observe(ctx context.Context, req *ObserveRequest) (*Cost, error)
}

// ProvideRequest is what a provider sees: the history as it will be processed,
// with this turn's input.
type ProvideRequest struct {
	Scope    Scope
	Messages []*Message
	State    *State
}

// Provided is what a provider adds. Instructions are joined to the agent's by a
// line; Messages come before the history and are not stored; Tools join the
// agent's for this run.
type Provided struct {
	Instructions string
	Messages     []*Message
	Tools        []*Tool
	Cost         *Cost
}

// ObserveRequest is what an observer sees.
type ObserveRequest struct {
	ProvideRequest
	Responses []*Message // what the agent said and its tools answered
	Err       error      // why the agent's run failed, if it did
}
