package llm

import (
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// ClientTerms are the terms of one run that its client sets, where the client's protocol
// lets it declare tools of its own and say how models answer: see host.Request.Client. They
// hold for the agents that a run's router picks, and not for agents used as tools.
type ClientTerms struct {
	// Tools are declared to the agents' models beside the agents' own tools, and the client
	// executes them: a run that calls one waits for its result. At most [MaxClientTools].
	Tools []ToolSpec `json:"tools,omitempty"`

	// ToolChoice holds for the first model call of the run, unless the agent has a choice of
	// its own. [ToolChoiceNone] leaves Tools out; a name is that of one of Tools.
	ToolChoice ToolChoice `json:"tool_choice,omitempty"`

	// SerialTools asks for at most one tool call an answer.
	SerialTools bool `json:"serial_tools,omitempty"`

	// Output makes agents answer with JSON of this schema, in the place of their own.
	Output *OutputSpec `json:"output,omitempty"`

	// Temperature replaces the agents' own. MaxOutputTokens counts where it is smaller than
	// an agent's own; 0 is no bound.
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxOutputTokens int      `json:"max_output_tokens,omitempty"`

	// Unstored keeps the run out of the history: the client keeps the conversation, and
	// brings it as host.Request.Messages. The questions of an interrupted run are in the
	// journal all the same, for [UnstoredTimeout] unless they have terms of their own.
	Unstored bool `json:"unstored,omitempty"`
}

// UnstoredTimeout is how long a question of an unstored run waits for its answer: its client
// can continue without the run, and may never come back.
const UnstoredTimeout = 24 * time.Hour

// MaxClientTools is how many tools a client may declare for a run.
const MaxClientTools = 128

// Check returns an error of code invalid_argument for terms that contradict themselves.
func (c *ClientTerms) Check() error {
	known := map[ToolChoice]bool{"": true, ToolChoiceAuto: true, ToolChoiceAny: len(c.Tools) > 0, ToolChoiceNone: true}
	for _, spec := range c.Tools {
		known[ToolChoice(spec.Name)] = true
	}
	switch {
	case len(c.Tools) > MaxClientTools:
		return fault.Errorf(fault.InvalidArgument, "the client declares %d tools, more than %d", len(c.Tools), MaxClientTools)
	case !known[c.ToolChoice]:
		return fault.Errorf(fault.InvalidArgument, "the client wants a call of %.60q, which is none of its tools", string(c.ToolChoice)).
			WithHint("declare the tool, or leave the choice out")
	case c.MaxOutputTokens < 0:
		return fault.Errorf(fault.InvalidArgument, "the client wants at most %d tokens of output", c.MaxOutputTokens)
	}
	return nil
}
