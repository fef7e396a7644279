package threads

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/stateblob"
)

// states returns the thread's custom state and its providers'.
func (t *Moment) states(ctx context.Context) (json.RawMessage, map[string]json.RawMessage, error) {
	if t.rec.State == nil {
		return nil, nil, nil
	}
	blob, err := t.contents().readBlob(ctx, t.rec.State, "state")
	if err != nil {
		return nil, nil, err
	}
	return stateblob.Split(blob)
}

// putStates stores the states that a turn sets. States that the turn does not set stay.
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
	blob, err := stateblob.Join(state, providers)
	if err != nil {
		return err
	}
	return d.putState(ctx, blob)
}
