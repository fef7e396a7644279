package host

import (
	"encoding/json"
	"maps"

	"github.com/agenthost/agenthost/host/internal/statedoc"
)

// initialState makes the state that a run begins with of the network's, the thread's and
// the request's.
type initialState struct {
	net     *NetworkOptions
	limit   int
	request any // JSON if encoded
	encoded bool
}

// encode makes JSON of the request's state: history adapters may ask for it while the
// caller has its value again. A value that is no JSON fails the run, when its turn comes.
func (s *initialState) encode() {
	if s.request == nil || s.encoded {
		return
	}
	if raw, err := stateJSON(s.request); err == nil {
		s.request, s.encoded = raw, true
	}
}

// state returns the state over a thread, whose own is nil if it has none. It changes nothing
// of s.
func (s *initialState) state(stored json.RawMessage, thread string) (*State, error) {
	merged := map[string]any{}
	if err := merge(merged, s.net.State); err != nil {
		return nil, err
	}
	if stored != nil && !s.net.StateOfRun {
		if err := merge(merged, stored); err != nil {
			return nil, Errorf(DataLoss, "state of thread %q: %w", thread, err)
		}
	}
	if err := merge(merged, s.request); err != nil {
		return nil, err
	}
	return s.watched(merged)
}

// beforeLoading returns a function that makes the state without a thread's, nil if it does
// not fit. Any goroutine may call it.
func (s *initialState) beforeLoading() func() *State {
	s.encode()
	own := *s
	return func() *State {
		state, _ := own.state(nil, "") // it fails the run, when its turn comes
		return state
	}
}

// restored returns a state of the journal or of a checkpoint.
func (s *initialState) restored(raw json.RawMessage) (*State, error) {
	members, err := statedoc.Members(raw)
	if err != nil {
		return nil, err
	}
	return s.watched(members)
}

func (s *initialState) watched(members map[string]any) (*State, error) {
	state, err := newState(members, s.limit, s.net.StateSchema)
	if err != nil {
		return nil, err
	}
	state.view().Watch()
	return state, nil
}

// merge puts a state over members; a nil one changes nothing.
func merge(members map[string]any, layer any) error {
	if layer == nil {
		return nil
	}
	own, err := stateMembers(layer)
	if err != nil {
		return err
	}
	maps.Copy(members, own)
	return nil
}
