package threads

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/stateblob"
)

// states returns the thread's custom state and its providers'.
func (t *Moment) states(ctx context.Context) (json.RawMessage, map[string]json.RawMessage, error) {
	if t.rec.State == nil {
		return nil, nil, nil
	}
	if t.known.digest == t.rec.State.Digest {
		return stateblob.Split(slices.Clone(t.known.blob))
	}
	blob, err := t.contents().readBlob(ctx, t.rec.State, "state")
	if err != nil {
		return nil, nil, err
	}
	return stateblob.Split(blob)
}

// maxKnownState bounds a state that a remembered record has with it.
const maxKnownState = 4 << 10

// knownState is the content of a state.
type knownState struct {
	digest string // in hex; "" if no state is known
	blob   []byte // is not changed any more
}

// learn remembers a state, which belongs to the caller.
func (k *knownState) learn(ref *Ref, state []byte) {
	if len(state) <= maxKnownState && k.digest != ref.Digest {
		*k = knownState{digest: ref.Digest, blob: slices.Clone(state)}
	}
}

// putStates stores the states that a turn sets. States that the turn does not set stay.
func (d *draft) putStates(ctx context.Context, turn *host.Turn) error {
	state, providers := turn.State, turn.Providers
	if state == nil && providers == nil {
		return nil
	}
	if state != nil && providers == nil && d.thread.rec.hasPlainState() {
		return d.putPlainState(ctx, state)
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
	if len(providers) == 0 {
		return d.putPlainState(ctx, state)
	}
	blob, err := stateblob.Join(state, providers)
	if err != nil {
		return err
	}
	return d.putState(ctx, blob)
}

// putPlainState stores custom state of a thread without states of providers, and marks it
// so in the record: the next turn need not read it to know what it replaces.
func (d *draft) putPlainState(ctx context.Context, state json.RawMessage) error {
	if err := d.putState(ctx, state); err != nil {
		return err
	}
	if ref := d.thread.rec.State; ref != nil && *ref != emptyObjectRef {
		d.thread.rec.Plain = ref.Digest[:plainDigits]
	}
	return nil
}

// plainDigits is how many digits of a digest mark a state as plain.
const plainDigits = 16

// hasPlainState reports whether the thread surely has no states of providers.
func (r *record) hasPlainState() bool {
	return r.State == nil || *r.State == emptyObjectRef || r.Plain != "" && strings.HasPrefix(r.State.Digest, r.Plain)
}
