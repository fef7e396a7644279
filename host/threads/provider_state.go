package threads

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
)

// The states of context providers lie with the custom state, in one blob: they go
// where it goes, into snapshots, branches, forks and exports. A blob that is an
// object is custom state alone; one that is an array has two elements, the custom
// state and {key: state} of the providers.

// joinState returns the blob; nil if there is nothing to keep.
func joinState(state json.RawMessage, providers map[string]json.RawMessage) (json.RawMessage, error) {
	if len(providers) == 0 {
		return state, nil
	}
	if len(state) == 0 {
		state = json.RawMessage("{}")
	}
	if !json.Valid(state) {
		return nil, host.Errorf(host.InvalidArgument, "state is not JSON")
	}
	raw, err := json.Marshal(providers) // in the order of the keys
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "the states of context providers: %w", err)
	}
	b := append(make([]byte, 0, len(state)+len(raw)+3), '[') // the state as it is: its digits are its own
	b = append(append(append(b, state...), ','), raw...)
	return append(b, ']'), nil
}

// wholeState is joinState for what comes from elsewhere, which may be a blob
// already, and is then written as this package writes it: equal states have equal
// digests.
func wholeState(state json.RawMessage, providers map[string]json.RawMessage) (json.RawMessage, error) {
	if len(providers) == 0 {
		custom, kept, err := splitState(state)
		if err != nil {
			return state, nil // whoever looks into it says so
		}
		state, providers = custom, kept
	}
	return joinState(state, providers)
}

// splitState reads a blob.
func splitState(blob []byte) (state json.RawMessage, providers map[string]json.RawMessage, err error) {
	if !bytes.HasPrefix(blob, []byte("[")) {
		return blob, nil, nil
	}
	var both []json.RawMessage
	if err = json.Unmarshal(blob, &both); err == nil && len(both) == 2 {
		err = json.Unmarshal(both[1], &providers)
	}
	if err != nil || len(both) != 2 {
		return nil, nil, damaged("a state is damaged")
	}
	return both[0], providers, nil
}

// states returns the thread's custom state and its providers'.
func (t *Moment) states(ctx context.Context) (json.RawMessage, map[string]json.RawMessage, error) {
	if t.rec.State == nil {
		return nil, nil, nil
	}
	blob, err := t.contents().readBlob(ctx, t.rec.State, "state")
	if err != nil {
		return nil, nil, err
	}
	return splitState(blob)
}

// putStates stores what a turn leaves of the states. What it does not say stays.
func (d *draft) putStates(ctx context.Context, turn *host.Turn) error {
	state, providers := turn.State, turn.Providers
	if state == nil && providers == nil {
		return nil
	}
	if state == nil || providers == nil {
		oldState, oldProviders, err := d.thread.states(ctx)
		if err != nil {
			return err
		}
		if state == nil {
			state = oldState
		}
		if providers == nil {
			providers = oldProviders
		}
	}
	blob, err := joinState(state, providers)
	if err != nil {
		return err
	}
	return d.putState(ctx, blob)
}
