package chat

import (
	"encoding/json"
	"slices"
	"time"
)

// Result is the result of one run of an agent.
type Result struct {
	ID           string          `json:"id"` // of the run and the place in it: the same whenever it is stored again
	Agent        string          `json:"agent"`
	Messages     []*Message      `json:"messages"`         // answers and tool results, in order
	Output       json.RawMessage `json:"output,omitempty"` // the last answer, checked, if the agent has an output schema
	FinishReason FinishReason    `json:"finish_reason"`
	Rounds       int             `json:"rounds"`
	Usage        Usage           `json:"usage"`
	Limit        string          `json:"limit,omitempty"` // of the host that ended it, if the reason is max_rounds
	CreatedAt    time.Time       `json:"created_at"`

	// Raw has the provider's answers, one for each round, if the model keeps them.
	// They are not stored, so a run that was resumed has those of its last process.
	Raw []json.RawMessage `json:"-"`
}

// Checksum returns a hash of the result's agent, its answers and tool results, and its
// time of creation to the nanosecond. It depends on no time zone and on no id: see
// [Checksum].
func (r *Result) Checksum() string { return Checksum(r.Agent, r.CreatedAt, r.Messages...) }

// Text returns the text of the agent's last answer.
func (r *Result) Text() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == Assistant {
			return r.Messages[i].Text()
		}
	}
	return ""
}

// ToolResults returns the results of all tools the agent called, in order.
func (r *Result) ToolResults() []*ToolResult {
	var out []*ToolResult
	for _, m := range r.Messages {
		out = append(out, m.ToolResults()...)
	}
	return out
}

// Clone returns a copy whose fields and lists may be changed. The messages are shared.
func (r *Result) Clone() *Result {
	c := *r
	c.Messages, c.Output, c.Raw = slices.Clone(r.Messages), slices.Clone(r.Output), slices.Clone(r.Raw)
	return &c
}

// DeepClone returns a copy with messages of its own. Raw is shared.
func (r *Result) DeepClone() *Result {
	c := *r
	c.Messages = make([]*Message, len(r.Messages))
	for i, m := range r.Messages {
		c.Messages[i] = m.DeepClone()
	}
	c.Output = slices.Clone(r.Output)
	return &c
}

// FailedAnswers returns how many of the last answers have tool calls that all failed.
func (r *Result) FailedAnswers() int {
	n, failed := 0, false
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := r.Messages[i]
		for _, answer := range m.ToolResults() {
			if failed = true; !answer.IsError {
				return n
			}
		}
		if m.Role != Assistant {
			continue
		}
		if !failed {
			return n
		}
		n, failed = n+1, false
	}
	return n
}

// FinishReason says why an answer, an agent's run or a network's run ended.
type FinishReason string

// The finish reasons.
const (
	FinishStop          FinishReason = "stop"           // it had said everything
	FinishToolCalls     FinishReason = "tool_calls"     // an answer that calls tools
	FinishLength        FinishReason = "length"         // the answer was cut at its token limit
	FinishContentFilter FinishReason = "content_filter" // the provider withheld the answer
	FinishPaused        FinishReason = "paused"         // an answer that the provider's own tools interrupt; it continues when asked again
	FinishMaxRounds     FinishReason = "max_rounds"     // an agent's rounds were used up
	FinishMaxIterations FinishReason = "max_iterations" // a network's iterations were used up
	FinishInterrupted   FinishReason = "interrupted"    // a tool asks a person
	FinishFailed        FinishReason = "failed"
	FinishCanceled      FinishReason = "canceled"
)
