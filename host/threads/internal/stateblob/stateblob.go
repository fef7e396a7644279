// Package stateblob keeps the custom state of a thread and the states of its context
// providers in one blob, so that both go into the same snapshots, branches, forks and
// exports.
//
// A blob that is an object is custom state alone. One that is an array has two elements:
// the custom state, and {key: state} of the providers. The form is part of stored data
// and of exported threads of version 1: equal states have equal blobs.
package stateblob

import (
	"bytes"
	"encoding/json"

	"github.com/agenthost/agenthost/host/fault"
)

// Join returns the blob of a state and its providers' states; nil without any state.
// The digits of the state's numbers stay unchanged. Code invalid_argument for a state
// that is not JSON.
func Join(state json.RawMessage, providers map[string]json.RawMessage) (json.RawMessage, error) {
	if len(providers) == 0 {
		return state, nil
	}
	if len(state) == 0 {
		state = json.RawMessage("{}")
	}
	if !json.Valid(state) {
		return nil, fault.Errorf(fault.InvalidArgument, "state is not JSON")
	}
	raw, err := json.Marshal(providers) // in the order of the keys
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "the states of context providers: %w", err)
	}
	b := append(make([]byte, 0, len(state)+len(raw)+3), '[')
	b = append(append(append(b, state...), ','), raw...)
	return append(b, ']'), nil
}

// Normalize is Join of a state that another program wrote. The state may be a blob
// already: it is then returned as this package writes it.
func Normalize(state json.RawMessage, providers map[string]json.RawMessage) (json.RawMessage, error) {
	if len(providers) == 0 {
		custom, kept, err := Split(state)
		if err != nil {
			return state, nil // its reader reports that
		}
		state, providers = custom, kept
	}
	return Join(state, providers)
}

// Split returns the state and the providers' states of a blob. Code data_loss if it is
// damaged.
func Split(blob []byte) (state json.RawMessage, providers map[string]json.RawMessage, err error) {
	if !bytes.HasPrefix(blob, []byte("[")) {
		return blob, nil, nil
	}
	var both []json.RawMessage
	if err = json.Unmarshal(blob, &both); err == nil && len(both) == 2 {
		err = json.Unmarshal(both[1], &providers)
	}
	if err != nil || len(both) != 2 {
		return nil, nil, fault.Errorf(fault.DataLoss, "a state is damaged").WithHint("restore it from a backup")
	}
	return both[0], providers, nil
}
