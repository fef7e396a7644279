package host

import (
	"encoding/json"
	"slices"
)

// Checkpoint is where an interrupted run stopped, of a host without a [Journal]: see
// [RunResult].Checkpoint and [Request].Checkpoint. Keep it as its JSON, and where its
// reader cannot change it: it says which calls were approved, with which arguments,
// under which idempotency key. For a client that may change it, make another with
// [Checkpoint.ForClient]. It is immutable.
type Checkpoint struct {
	tenant, run, target, thread string

	left    *checkpoint
	unowned bool // a client had it and may have changed it
}

type checkpointJSON struct {
	Version int         `json:"version"`
	Tenant  string      `json:"tenant,omitempty"`
	Run     string      `json:"run"`
	Target  string      `json:"target"`
	Thread  string      `json:"thread,omitempty"`
	Left    *checkpoint `json:"left"`
}

// MarshalJSON writes the checkpoint.
func (c *Checkpoint) MarshalJSON() ([]byte, error) {
	return json.Marshal(checkpointJSON{checkpointVersion, c.tenant, c.run, c.target, c.thread, c.left})
}

// UnmarshalJSON reads the output of MarshalJSON. Code invalid_argument for bytes
// that are no checkpoint, failed_precondition for one of another version.
func (c *Checkpoint) UnmarshalJSON(raw []byte) error {
	var in checkpointJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return Errorf(InvalidArgument, "read checkpoint: %w", err)
	}
	if in.Left != nil && in.Left.V != checkpointVersion {
		return errOtherVersion(in.Run, in.Left.V)
	}
	if in.Left == nil || in.Run == "" || ValidateID("run", in.Run, MaxIDBytes) != nil {
		return Errorf(InvalidArgument, "read checkpoint: it is incomplete")
	}
	if err := in.Left.check(); err != nil {
		return Errorf(InvalidArgument, "read checkpoint: %v", err)
	}
	*c = Checkpoint{in.Tenant, in.Run, in.Target, in.Thread, in.Left, false}
	return nil
}

// Run returns the id of the interrupted run.
func (c *Checkpoint) Run() string { return c.run }

// WithoutConversation returns a checkpoint without the messages and the states of
// context providers, for callers that keep these: they come with the request that
// resumes it.
func (c *Checkpoint) WithoutConversation() *Checkpoint {
	out, left := *c, *c.left
	left.Messages, left.Providers = nil, nil
	out.left = &left
	return &out
}

// ForClient returns the part of the checkpoint that a client may have, and change:
// the calls that wait, and where in the run they were made. The conversation and
// the state come with the request that resumes it, and nothing in the checkpoint is
// believed that could get around a rule: tools that need an approval are refused
// it, agents used as tools cannot ask, and calls have new idempotency keys. Make it
// when the checkpoint is handed out, and again of the one that comes back: JSON
// does not say that a client had it.
func (c *Checkpoint) ForClient() *Checkpoint {
	left := &checkpoint{V: checkpointVersion, Input: c.left.Input, Last: c.left.Last, Iterations: clientCount(c.left.Iterations), Stack: c.left.Stack,
		Agent: c.left.Agent, Rounds: clientCount(c.left.Rounds)}
	if left.Input != nil && left.Input.Role != User {
		left.Input = nil
	}
	for _, call := range c.left.Calls {
		own := &openCall{Question: call.Question, Part: call.Part, Key: call.Key, Attempt: min(max(call.Attempt, 0), MaxToolRetries), Resumed: call.Resumed, Inside: call.Inside}
		left.Calls = append(left.Calls, own)
	}
	return &Checkpoint{run: c.run, target: c.target, left: left, unowned: true}
}

// maxClientCount bounds the counts that a client writes into a checkpoint: a
// resumed run counts up from there, and compares with its limits.
const maxClientCount = 1 << 20

func clientCount(n int) int { return min(max(n, 0), maxClientCount) }

// forAnyone reports whether a client that had the checkpoint may answer all of its
// questions.
func (c *Checkpoint) forAnyone() bool {
	return c != nil && !slices.ContainsFunc(c.left.Calls, func(call *openCall) bool { return !call.forAnyone() })
}

func (c *openCall) forAnyone() bool {
	return c.Inside == nil && (c.Question.Kind == AskResult || c.Question.Kind == AskInput)
}

// checkClientCalls checks that the calls of a client's checkpoint ask only what
// such a checkpoint can ask, and takes them from the conversation, where they are
// in the last answer and have no result.
func checkClientCalls(resumes string, past []*Message, c *checkpoint) error {
	open := map[string]*ToolCall{}
	for _, m := range past {
		if m.Role == Assistant {
			clear(open)
		}
		for _, call := range m.ToolCalls() {
			open[call.ID] = call
		}
		for _, result := range m.ToolResults() {
			delete(open, result.ID)
		}
	}
	if len(c.Stack) > maxScheduledAgents {
		return Errorf(InvalidArgument, "run %q has more than %d agents to run", resumes, maxScheduledAgents)
	}
	for _, call := range c.Calls {
		if len(call.Key) > MaxIDBytes+maxKeyEnding {
			call.Key = ""
		}
		made := open[call.Part.ID]
		switch {
		case !call.forAnyone():
			return Errorf(PermissionDenied, "what run %q asks about %s cannot be answered with a checkpoint that a client had", resumes, call.Part.Name).
				WithHint("seal what clients keep, or give the host a journal")
		case made == nil || made.Name != call.Part.Name:
			return Errorf(InvalidArgument, "run %q asks about a call of %s that the conversation does not end with", resumes, call.Part.Name)
		}
		delete(open, made.ID)
		call.Part = &callPart{made.ID, made.Name, made.Arguments}
	}
	return nil
}

// maxKeyEnding is how much longer than its run's id a call's key is at most.
const maxKeyEnding = 64

// record returns the checkpoint as a journal would have it.
func (c *Checkpoint) record() (*RunRecord, error) {
	left := *c.left
	left.Calls = make([]*openCall, len(c.left.Calls)) // a run writes the answers to them
	for i, call := range c.left.Calls {
		own := *call
		left.Calls[i] = &own
	}
	step, err := json.Marshal(entry{Left: &left})
	if err != nil {
		return nil, Errorf(InvalidArgument, "checkpoint of run %q: %w", c.run, err)
	}
	return &RunRecord{Ref: RunRef{Tenant: c.tenant, Thread: c.thread, Run: c.run}, Target: c.target, Status: RunInterrupted, Steps: []json.RawMessage{step}}, nil
}
