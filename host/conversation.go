package host

import "slices"

// conversation holds the messages before this turn and of this turn.
type conversation struct {
	past           []*Message // before this turn, with open calls closed
	input          *Message   // the user's message of this turn; may be nil
	inputInHistory bool       // past holds the input
	earlier        []*Result  // of the run that this one resumes
	results        []*Result
}

// messages returns the current conversation: past, input, results.
func (c *conversation) messages() []*Message {
	n := len(c.past) + 1
	for _, res := range c.results {
		n += len(res.Messages)
	}
	out := append(make([]*Message, 0, n+8), c.past...)
	if c.input != nil && !c.inputInHistory {
		out = append(out, c.input)
	}
	for _, res := range c.results {
		out = append(out, res.Messages...)
	}
	return out
}

// soFar returns the conversation with the messages of the agent at work, for code
// that the run calls. The slices of a run grow at their ends and are replaced,
// never written to, so their beginnings are shared.
func (c *conversation) soFar(current []*Message, calls int, agents []*Agent, state *State) *SoFar {
	s := &SoFar{past: slices.Clip(c.past), results: slices.Clip(c.results), current: slices.Clip(current),
		calls: calls, agents: agents, state: state}
	if len(c.earlier) > 0 {
		s.results = slices.Concat(c.earlier, c.results)
	}
	if !c.inputInHistory {
		s.input = c.input
	}
	return s
}
