package replay

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/runlog"
)

// Checkpoint is the state of an interrupted run for the run that has the answers.
// The thread's messages are not in it, so it grows with the run and not with the
// conversation.
type Checkpoint struct {
	V            int                        `json:"v"`
	Input        *chat.Message              `json:"input,omitempty"`
	Branch       string                     `json:"branch,omitempty"`   // of the thread
	Messages     []*chat.Message            `json:"messages,omitempty"` // the conversation, if no thread has it
	Last         string                     `json:"last,omitempty"`     // id of the last message
	State        json.RawMessage            `json:"state"`
	Instructions string                     `json:"instructions,omitempty"`
	Results      []*chat.Result             `json:"results,omitempty"` // of the agents before
	Parameters   map[string]json.RawMessage `json:"model_parameters,omitempty"`
	Client       *llm.ClientTerms           `json:"client,omitempty"`
	Iterations   int                        `json:"iterations"` // before the agent at work
	Stack        []string                   `json:"stack,omitempty"`
	Tokens       int64                      `json:"tokens"`
	ToolCalls    int64                      `json:"tool_calls"`
	Executed     int64                      `json:"executed,omitempty"` // of WebAssembly
	Artifacts    int64                      `json:"artifacts,omitempty"`
	Stored       int64                      `json:"artifact_bytes,omitempty"`
	Agent        string                     `json:"agent"` // at work
	Rounds       int                        `json:"rounds"`
	Calls        []*OpenCall                `json:"calls"`

	// Providers are the states of context providers, if no thread has them.
	Providers map[string]json.RawMessage `json:"providers,omitempty"`
}

// OpenCall is a call that waits for an answer.
type OpenCall struct {
	Question *runlog.Question    `json:"question,omitempty"` // nil if an agent or a nested call of it waits
	Part     *CallPart           `json:"call"`
	Key      string              `json:"key"`
	Attempt  int                 `json:"attempt"` // the last one; 0 before the first
	Resumed  []runlog.Resumption `json:"resumed,omitempty"`
	Inside   *Inside             `json:"inside,omitempty"`
	Nested   []*NestedCall       `json:"nested,omitempty"` // calls of other tools that it has made
	Began    time.Time           `json:"began,omitzero"`   // when the tool began first; zero before

	// Arguments are those that a call which waits for its nested calls has run with: a
	// person may have changed those of Part.
	Arguments json.RawMessage `json:"arguments,omitempty"`

	// Answer is that of the resuming run. Of a run that did not end, Begun is the
	// attempt that began and Done the outcome. None of them is stored here.
	Answer *runlog.Answer `json:"-"`
	Begun  int            `json:"-"`
	Done   *CallDone      `json:"-"`
}

// Inside is the checkpoint of an agent used as a tool that asks. Its usage and its
// artifacts are the run's already.
type Inside struct {
	Agent  string        `json:"agent"`
	Input  *chat.Message `json:"input"`
	Result *chat.Result  `json:"result"` // so far
	Calls  []*OpenCall   `json:"calls"`
}

// Turn returns the saved run of the agent, which continues after the answers.
func (in *Inside) Turn() *SavedTurn {
	result := *in.Result
	result.Usage, result.FinishReason = chat.Usage{}, chat.FinishStop
	return &SavedTurn{Agent: in.Agent, Input: in.Input, Calls: in.Calls, Result: &result}
}

// AddBranches adds the agents that wait behind calls, and behind theirs, to byKey,
// where a resumed call finds its agent.
func AddBranches(byKey map[string]*SavedTurn, calls []*OpenCall) {
	for _, call := range calls {
		if call.Inside != nil {
			byKey[call.Key] = call.Inside.Turn()
			AddBranches(byKey, call.Inside.Calls)
		}
		AddBranches(byKey, openNested(call.Nested))
	}
}

// Asking returns the calls that ask something: those behind agents used as tools and
// behind tools that call others, and not the agents' and the callers'.
func Asking(calls []*OpenCall) []*OpenCall {
	var out []*OpenCall
	for _, call := range calls {
		switch {
		case call.Inside != nil:
			out = append(out, Asking(call.Inside.Calls)...)
		case call.Question == nil:
			out = append(out, Asking(openNested(call.Nested))...)
		default:
			out = append(out, call)
		}
	}
	return out
}

// CallPart is a tool call as the model wrote it.
type CallPart struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// SavedTurn is an agent's run that another run, or process, began.
type SavedTurn struct {
	Agent  string
	Result *chat.Result // nil if it has not begun
	Calls  []*OpenCall
	Misfit *fault.Error // why its answer is not its output

	Input     *chat.Message // of an agent used as a tool; nil if it has not begun
	Stack     []string      // of an agent used as a tool
	Artifacts []chat.Artifact
	Cost      chat.Cost
}

// QuestionsOf returns the questions of calls, those behind agents used as tools among
// them.
func QuestionsOf(calls []*OpenCall) []*runlog.Question {
	open := Asking(calls)
	out := make([]*runlog.Question, len(open))
	for i, call := range open {
		out[i] = call.Question
	}
	return out
}

// ReadCheckpoint returns the checkpoint of an interrupted run. Code data_loss for a
// record that is damaged, failed_precondition for one of another version.
func ReadCheckpoint(rec *runlog.Record) (*Checkpoint, error) {
	damaged := func(cause error) error {
		return fault.Errorf(fault.DataLoss, "what run %q left in the journal cannot be read: %v", rec.Run, cause)
	}
	if len(rec.Steps) != 1 {
		return nil, damaged(fault.Errorf(fault.DataLoss, "it has %d steps, not one", len(rec.Steps)))
	}
	var e Entry
	if err := json.Unmarshal(rec.Steps[0], &e); err != nil {
		return nil, damaged(err)
	}
	c := e.Left
	if c == nil {
		return nil, damaged(fault.Errorf(fault.DataLoss, "there are no questions"))
	}
	if c.V != Version {
		return nil, errOtherVersion(rec.Run, c.V)
	}
	if err := c.check(); err != nil {
		return nil, damaged(err)
	}
	return c, nil
}

func errOtherVersion(run string, version int) error {
	return fault.Errorf(fault.FailedPrecondition, "run %q was written down by another version of the host (%d)", run, version).
		WithHint("resume it with the version that began it")
}

// check returns an error of code data_loss if the checkpoint is incomplete.
func (c *Checkpoint) check() error {
	if len(c.Calls) == 0 || c.Agent == "" {
		return fault.Errorf(fault.DataLoss, "there is no question")
	}
	return checkOpen(c.Calls, 0)
}

// maxOpenDepth bounds how deep calls that wait stand within each other.
const maxOpenDepth = (MaxAgentDepth + 1) * nested.MaxDepth

func checkOpen(calls []*OpenCall, depth int) error {
	for _, call := range calls {
		switch {
		case call == nil || call.Part == nil:
			return fault.Errorf(fault.DataLoss, "a call is missing")
		case slices.Contains(call.Nested, nil) || depth > maxOpenDepth:
			return fault.Errorf(fault.DataLoss, "the calls that a call has made are damaged")
		}
		waiting := openNested(call.Nested)
		if err := checkOpen(waiting, depth+1); err != nil {
			return err
		}
		switch {
		case call.Inside == nil && call.Question == nil && len(waiting) == 0:
			return fault.Errorf(fault.DataLoss, "a call asks nothing")
		case call.Inside == nil:
			continue
		case call.Inside.Result == nil || len(call.Inside.Calls) == 0:
			return fault.Errorf(fault.DataLoss, "an agent used as a tool is damaged")
		}
		if err := checkOpen(call.Inside.Calls, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Turn returns the saved run of the agent, which continues after the answers.
func (c *Checkpoint) Turn(id string) *SavedTurn {
	return &SavedTurn{Agent: c.Agent, Calls: c.Calls,
		Result: &chat.Result{ID: id, Agent: c.Agent, CreatedAt: time.Now().UTC(), FinishReason: chat.FinishStop, Rounds: c.Rounds}}
}
