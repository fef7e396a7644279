package host

import (
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
)

// SoFar is the content of a run so far: its conversation, the results of the agents
// that have run, the network's agents, the state. Hooks, [InstructionsFunc], tools
// in Go and history adapters are given one. It is as the run was when the code was
// called, but for the state, and may be kept and used by any number of goroutines.
// Slices, results and messages are copies, made by each call. The methods of a nil SoFar return nothing.
//
// Sandboxed plugins see the data of their contract and nothing of this.
type SoFar struct {
	past    []*Message // before this turn
	input   *Message   // nil if past holds it
	results []*Result  // of agents that have run
	current []*Message // of the agent at work
	calls   int
	agents  []*Agent
	state   *State
	initial func() *State // the initial state, for history adapters before the thread is loaded
}

// soFar returns the run's content so far.
func (r *run) soFar(current []*Message) *SoFar {
	return r.conv.soFar(current, r.routes.iterations, r.net.agents, r.state)
}

// soFar returns the run's content so far, with the messages of the agent at work.
func (t *turn) soFar() *SoFar { return t.run.soFar(t.result.Messages) }

// Messages returns the conversation: the loaded or sent messages, this turn's
// input, the messages of all results, and those of the agent at work and its tools.
// It ends with open calls while those are at work.
func (s *SoFar) Messages() []*Message {
	if s == nil {
		return nil
	}
	list := slices.Clone(s.past)
	if s.input != nil {
		list = append(list, s.input)
	}
	for _, r := range s.results {
		list = append(list, r.Messages...)
	}
	return chat.DeepCloneMessages(append(list, s.current...))
}

// Results returns the results of the agents that have run in this run, and in those
// that it resumes. The agent at work has none yet.
func (s *SoFar) Results() []*Result {
	if s == nil {
		return nil
	}
	list := make([]*Result, len(s.results))
	for i, r := range s.results {
		list[i] = r.DeepClone()
	}
	return list
}

// Last returns the last of Results, nil if no agent has run.
func (s *SoFar) Last() *Result {
	if s == nil || len(s.results) == 0 {
		return nil
	}
	return s.results[len(s.results)-1].DeepClone()
}

// Agents returns the network's agents as routers see them, with those that are not
// enabled and without those on call.
func (s *SoFar) Agents() []AgentInfo {
	if s == nil {
		return nil
	}
	list := make([]AgentInfo, len(s.agents))
	for i, a := range s.agents {
		list[i] = a.Info()
	}
	return list
}

// CallCount returns how many agents have run in this run: see [RouteRequest].
func (s *SoFar) CallCount() int {
	if s == nil {
		return 0
	}
	return s.calls
}

// State returns a copy of the run's current state. Before the thread is loaded it
// is the request's, over the network's default.
func (s *SoFar) State() json.RawMessage {
	if s == nil {
		return nil
	}
	state := s.state
	if state == nil && s.initial != nil {
		state = s.initial()
	}
	if state == nil {
		return nil
	}
	return slices.Clone(state.view().Peek())
}
