package replay

import (
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runlog"
)

// Kept is the checkpoint of an interrupted run that no journal keeps. It is immutable.
type Kept struct {
	Tenant, Run, Target, Thread string

	Left    *Checkpoint
	Unowned bool // a client had it and may have changed it
}

type keptJSON struct {
	Version int         `json:"version"`
	Tenant  string      `json:"tenant,omitempty"`
	Run     string      `json:"run"`
	Target  string      `json:"target"`
	Thread  string      `json:"thread,omitempty"`
	Left    *Checkpoint `json:"left"`
}

// MarshalJSON writes the checkpoint.
func (c *Kept) MarshalJSON() ([]byte, error) {
	return json.Marshal(keptJSON{Version: Version, Tenant: c.Tenant, Run: c.Run, Target: c.Target, Thread: c.Thread, Left: c.Left})
}

// UnmarshalJSON reads the output of MarshalJSON. Code invalid_argument for bytes
// that are no checkpoint, failed_precondition for one of another version.
func (c *Kept) UnmarshalJSON(raw []byte) error {
	var in keptJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read checkpoint: %w", err)
	}
	if in.Left != nil && in.Left.V != Version {
		return errOtherVersion(in.Run, in.Left.V)
	}
	if in.Left == nil || in.Run == "" || chat.ValidateID("run", in.Run, chat.MaxIDBytes) != nil {
		return fault.Errorf(fault.InvalidArgument, "read checkpoint: it is incomplete")
	}
	if err := in.Left.check(); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read checkpoint: %v", err)
	}
	*c = Kept{Tenant: in.Tenant, Run: in.Run, Target: in.Target, Thread: in.Thread, Left: in.Left}
	return nil
}

// WithoutConversation returns a checkpoint without the messages and the states of
// context providers, for callers that keep these: they come with the request that
// resumes it.
func (c *Kept) WithoutConversation() *Kept {
	out, left := *c, *c.Left
	left.Messages, left.Providers = nil, nil
	out.Left = &left
	return &out
}

// ForClient returns the part of the checkpoint that a client may have, and change:
// the calls that wait, and where in the run they were made. The conversation and
// the state come with the request that resumes it, and nothing in the checkpoint is
// believed that could get around a rule: tools that need an approval are refused
// it, agents used as tools cannot ask, and calls have new idempotency keys. Make it
// when the checkpoint is handed out, and again of the one that comes back: JSON
// does not say that a client had it.
func (c *Kept) ForClient() *Kept {
	left := &Checkpoint{V: Version, Input: c.Left.Input, Last: c.Left.Last, Iterations: clientCount(c.Left.Iterations), Stack: c.Left.Stack,
		Agent: c.Left.Agent, Rounds: clientCount(c.Left.Rounds)}
	if left.Input != nil && left.Input.Role != chat.User {
		left.Input = nil
	}
	for _, call := range c.Left.Calls {
		own := &OpenCall{Question: call.Question, Part: call.Part, Key: call.Key, Attempt: min(max(call.Attempt, 0), MaxToolRetries), Resumed: call.Resumed, Inside: call.Inside, Nested: call.Nested}
		left.Calls = append(left.Calls, own)
	}
	return &Kept{Run: c.Run, Target: c.Target, Left: left, Unowned: true}
}

// maxClientCount bounds the counts that a client writes into a checkpoint: a
// resumed run counts up from there, and compares with its limits.
const maxClientCount = 1 << 20

func clientCount(n int) int { return min(max(n, 0), maxClientCount) }

// ForAnyone reports whether a client that had the checkpoint may answer all of its
// questions.
func (c *Kept) ForAnyone() bool {
	return c != nil && !slices.ContainsFunc(c.Left.Calls, func(call *OpenCall) bool { return !call.ForAnyone() })
}

// ForAnyone reports whether a client that had the call may answer it.
func (c *OpenCall) ForAnyone() bool {
	return c.Inside == nil && c.Question != nil && len(c.Nested) == 0 && (c.Question.Kind == runlog.AskResult || c.Question.Kind == runlog.AskInput)
}

// CheckClientCalls checks that the calls of a client's checkpoint ask only what
// such a checkpoint can ask, and takes them from the conversation, where they are
// in the last answer and have no result.
func CheckClientCalls(resumes string, past []*chat.Message, c *Checkpoint) error {
	open := map[string]*chat.ToolCall{}
	for _, m := range past {
		if m.Role == chat.Assistant {
			clear(open)
		}
		for _, call := range m.ToolCalls() {
			open[call.ID] = call
		}
		for _, result := range m.ToolResults() {
			delete(open, result.ID)
		}
	}
	if len(c.Stack) > MaxScheduledAgents {
		return fault.Errorf(fault.InvalidArgument, "run %q has more than %d agents to run", resumes, MaxScheduledAgents)
	}
	for _, call := range c.Calls {
		if len(call.Key) > chat.MaxIDBytes+maxKeyEnding {
			call.Key = ""
		}
		made := open[call.Part.ID]
		switch {
		case !call.ForAnyone():
			return fault.Errorf(fault.PermissionDenied, "what run %q asks about %s cannot be answered with a checkpoint that a client had", resumes, call.Part.Name).
				WithHint("seal what clients keep, or give the host a journal")
		case made == nil || made.Name != call.Part.Name:
			return fault.Errorf(fault.InvalidArgument, "run %q asks about a call of %s that the conversation does not end with", resumes, call.Part.Name)
		}
		delete(open, made.ID)
		call.Part = &CallPart{ID: made.ID, Name: made.Name, Arguments: made.Arguments}
	}
	return nil
}

// maxKeyEnding is how much longer than its run's id a call's key is at most.
const maxKeyEnding = 64

// Record returns the checkpoint as a journal would have it.
func (c *Kept) Record() (*runlog.Record, error) {
	left := *c.Left
	left.Calls = make([]*OpenCall, len(c.Left.Calls)) // a run writes the answers to them
	for i, call := range c.Left.Calls {
		own := *call
		left.Calls[i] = &own
	}
	step, err := json.Marshal(Entry{Left: &left})
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "checkpoint of run %q: %w", c.Run, err)
	}
	return &runlog.Record{Ref: runlog.Ref{Tenant: c.Tenant, Thread: c.Thread, Run: c.Run}, Target: c.Target, Status: runlog.Interrupted, Steps: []json.RawMessage{step}}, nil
}
