package host

import (
	"context"

	"github.com/agenthost/agenthost/host/chat"
)

// NetworkHooks are functions that are called at the beginning and the end of each
// run of a network. Either may be nil. They run in the goroutine of the run; an
// error ends the run with it, and so does a panic, with code internal. Their
// changes of the state hold for the run and are stored with it.
type NetworkHooks struct {
	// Start is called when the thread is loaded, before the router is asked for the
	// first time. It is not called in a run that is resumed or that resumes an
	// interrupted one.
	Start func(ctx context.Context, at *NetworkStartHook) error

	// Finish is called when no agent is left to run, before the run's results are
	// stored. It is not called for a run that fails or asks a person. A process that
	// dies in it calls it again when the run is resumed.
	Finish func(ctx context.Context, at *NetworkFinishHook) error
}

// NetworkStartHook is the state of a network's run before its first agent runs.
type NetworkStartHook struct {
	Scope Scope
	State *State
	Input *Message // the user's message of this turn; may be nil
	SoFar *SoFar

	// Stop, set to true, ends the run here, with finish reason stop and no result:
	// no router is asked, no agent runs, Finish is not called, and the thread gets
	// the user's message only.
	Stop bool
}

// NetworkFinishHook is a run of a network that has ended well.
type NetworkFinishHook struct {
	Scope        Scope
	State        *State
	Input        *Message // the user's message of this turn; may be nil
	SoFar        *SoFar   // with all results
	FinishReason FinishReason
	Usage        Usage
}

// hookNetworkStart asks the Start hook of the network.
func (r *run) hookNetworkStart(ctx context.Context) error {
	hook := r.net.opts.Hooks.Start
	if hook == nil {
		return nil
	}
	at := &NetworkStartHook{Scope: r.scope, State: r.state, Input: r.conv.input, SoFar: r.soFar(nil)}
	err := r.events.Guard(ctx, "it", func() error { return hook(ctx, at) })
	r.stoppedAtStart = at.Stop
	return wrapError(err, "hook start of network %q", r.net.name)
}

// hookNetworkFinish asks the Finish hook of the network.
func (r *run) hookNetworkFinish(ctx context.Context, reason FinishReason) error {
	hook := r.net.opts.Hooks.Finish
	if hook == nil || r.stoppedAtStart || reason == chat.FinishInterrupted {
		return nil
	}
	r.scope.Agent = ""
	at := &NetworkFinishHook{Scope: r.scope, State: r.state, Input: r.conv.input, SoFar: r.soFar(nil), FinishReason: reason, Usage: r.ledger.Usage}
	err := r.events.Guard(ctx, "it", func() error { return hook(ctx, at) })
	r.events.SendState(r.state.view())
	return wrapError(err, "hook finish of network %q", r.net.name)
}
