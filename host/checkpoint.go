package host

import (
	"encoding/json"
	"slices"
	"time"
)

// checkpointVersion is the version of checkpoints and journal records.
const checkpointVersion = 1

// checkpoint is the state of an interrupted run for the run that has the answers.
// The thread's messages are not in it, so it grows with the run and not with the
// conversation.
type checkpoint struct {
	V            int             `json:"v"`
	Input        *Message        `json:"input,omitempty"`
	Branch       string          `json:"branch,omitempty"`   // of the thread
	Messages     []*Message      `json:"messages,omitempty"` // the conversation, if no thread has it
	Last         string          `json:"last,omitempty"`     // id of the last message
	State        json.RawMessage `json:"state"`
	Instructions string          `json:"instructions,omitempty"`
	Results      []*Result       `json:"results,omitempty"` // of the agents before
	Parameters   Parameters      `json:"model_parameters,omitempty"`
	Iterations   int             `json:"iterations"` // before the agent at work
	Stack        []string        `json:"stack,omitempty"`
	Tokens       int64           `json:"tokens"`
	ToolCalls    int64           `json:"tool_calls"`
	Executed     int64           `json:"executed,omitempty"` // of WebAssembly
	Artifacts    int64           `json:"artifacts,omitempty"`
	Stored       int64           `json:"artifact_bytes,omitempty"`
	Agent        string          `json:"agent"` // at work
	Rounds       int             `json:"rounds"`
	Calls        []*openCall     `json:"calls"`

	// Providers are the states of context providers, if no thread has them.
	Providers map[string]json.RawMessage `json:"providers,omitempty"`
}

// openCall is a call that waits for an answer.
type openCall struct {
	Question *Question    `json:"question,omitempty"` // nil if it is an agent's, which waits itself
	Part     *callPart    `json:"call"`
	Key      string       `json:"key"`
	Attempt  int          `json:"attempt"` // the last one; 0 before the first
	Resumed  []Resumption `json:"resumed,omitempty"`
	Inside   *inside      `json:"inside,omitempty"`

	answer *Answer   // of the resuming run
	begun  int       // the attempt that began, of a run that did not end
	done   *callDone // its outcome, of a run that did not end
}

// inside is the checkpoint of an agent used as a tool that asks. Its usage and its
// artifacts are the run's already.
type inside struct {
	Agent  string      `json:"agent"`
	Input  *Message    `json:"input"`
	Result *Result     `json:"result"` // so far
	Calls  []*openCall `json:"calls"`
}

// turn returns the saved run of the agent, which continues after the answers.
func (in *inside) turn() *savedTurn {
	result := *in.Result
	result.Usage, result.FinishReason = Usage{}, FinishStop
	return &savedTurn{agent: in.Agent, input: in.Input, calls: in.Calls, result: &result}
}

// addBranches adds the agents that wait behind calls, and behind theirs, to byKey,
// where a resumed call finds its agent.
func addBranches(byKey map[string]*savedTurn, calls []*openCall) {
	for _, call := range calls {
		if call.Inside != nil {
			byKey[call.Key] = call.Inside.turn()
			addBranches(byKey, call.Inside.Calls)
		}
	}
}

// asking returns the calls that ask something: those behind agents used as tools,
// and not the agents'.
func asking(calls []*openCall) []*openCall {
	var out []*openCall
	for _, call := range calls {
		if call.Inside != nil {
			out = append(out, asking(call.Inside.Calls)...)
		} else {
			out = append(out, call)
		}
	}
	return out
}

// callPart is a tool call as the model wrote it.
type callPart struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// savedTurn is an agent's run that another run, or process, began.
type savedTurn struct {
	agent  string
	result *Result // nil if it has not begun
	calls  []*openCall
	misfit *Error // why its answer is not its output

	input     *Message // of an agent used as a tool; nil if it has not begun
	stack     []string // of an agent used as a tool
	artifacts []Artifact
	cost      Cost
}

// checkpoint returns the checkpoint of a run that ends with questions.
func (r *run) checkpoint() *checkpoint {
	interrupted := r.conv.results[len(r.conv.results)-1]
	before := slices.Concat(r.conv.earlier, r.conv.results[:len(r.conv.results)-1])
	c := &checkpoint{
		V: checkpointVersion, Input: r.conv.input, Branch: r.thread.branch, State: r.state.JSON(), Instructions: r.content.instructions, Parameters: r.content.parameters,
		Results: before, Iterations: r.routes.iterations - 1, Stack: r.routes.stack,
		Tokens: r.ledger.spent.tokens.Load(), ToolCalls: r.ledger.spent.toolCalls.Load(), Executed: r.ledger.spent.instructions.Load(),
		Artifacts: r.ledger.spent.artifacts.Load(), Stored: r.ledger.spent.artifactBytes.Load(),
		Agent: interrupted.Agent, Rounds: interrupted.Rounds, Calls: r.journal.openCalls,
	}
	messages := r.conv.messages()
	c.Last = messages[len(messages)-1].ID
	if r.thread.history == nil || r.thread.history.get == nil || r.thread.history.appendResult == nil {
		c.Messages, c.Providers = messages, r.thread.providers.json(false)
	}
	return c
}

func questionsOf(calls []*openCall) []*Question {
	open := asking(calls)
	out := make([]*Question, len(open))
	for i, call := range open {
		out[i] = call.Question
	}
	return out
}

func readCheckpoint(rec *RunRecord) (*checkpoint, error) {
	damaged := func(cause error) error {
		return Errorf(DataLoss, "what run %q left in the journal cannot be read: %v", rec.Run, cause)
	}
	if len(rec.Steps) != 1 {
		return nil, damaged(Errorf(DataLoss, "it has %d steps, not one", len(rec.Steps)))
	}
	var e entry
	if err := json.Unmarshal(rec.Steps[0], &e); err != nil {
		return nil, damaged(err)
	}
	c := e.Left
	if c == nil {
		return nil, damaged(Errorf(DataLoss, "there are no questions"))
	}
	if c.V != checkpointVersion {
		return nil, errOtherVersion(rec.Run, c.V)
	}
	if err := c.check(); err != nil {
		return nil, damaged(err)
	}
	return c, nil
}

func errOtherVersion(run string, version int) error {
	return Errorf(FailedPrecondition, "run %q was written down by another version of the host (%d)", run, version).
		WithHint("resume it with the version that began it")
}

// check returns an error of code data_loss if the checkpoint is incomplete.
func (c *checkpoint) check() error {
	if len(c.Calls) == 0 || c.Agent == "" {
		return Errorf(DataLoss, "there is no question")
	}
	return checkOpen(c.Calls, 0)
}

func checkOpen(calls []*openCall, depth int) error {
	for _, call := range calls {
		switch {
		case call == nil || call.Part == nil:
			return Errorf(DataLoss, "a call is missing")
		case call.Inside == nil && call.Question == nil:
			return Errorf(DataLoss, "a call asks nothing")
		case call.Inside == nil:
			continue
		case depth >= MaxAgentDepth || call.Inside.Result == nil || len(call.Inside.Calls) == 0:
			return Errorf(DataLoss, "an agent used as a tool is damaged")
		}
		if err := checkOpen(call.Inside.Calls, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// turn returns the saved run of the agent, which continues after the answers.
func (c *checkpoint) turn(id string) *savedTurn {
	return &savedTurn{agent: c.Agent, calls: c.Calls,
		result: &Result{ID: id, Agent: c.Agent, CreatedAt: time.Now().UTC(), FinishReason: FinishStop, Rounds: c.Rounds}}
}
