package runevent

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runlog"
)

// RunResult is the result of a whole run.
type RunResult struct {
	Run          string            `json:"run"`
	Thread       string            `json:"thread,omitempty"`
	Branch       string            `json:"branch,omitempty"` // of the thread, if the run was not on its own line
	FinishReason chat.FinishReason `json:"finish_reason"`
	Results      []*chat.Result    `json:"results"`
	State        json.RawMessage   `json:"state"`
	Artifacts    []chat.Artifact   `json:"artifacts,omitempty"`
	Usage        chat.Usage        `json:"usage"`
	Cost         chat.Cost         `json:"cost"`
	Error        *fault.Error      `json:"error,omitempty"`

	// Replayed tells that the run's message had been answered before: Run is the run
	// that answered it, Results, State and Artifacts are those stored of that run,
	// and Usage and Cost are zero, as nothing was used.
	Replayed bool `json:"replayed,omitempty"`

	// Providers are the states of context providers, by key, of a run without a
	// history: for the caller that keeps its conversation. After a failed run they
	// are those from before it.
	Providers map[string]json.RawMessage `json:"-"`

	// Questions are those of an interrupted run: the run that resumes it brings their
	// answers.
	Questions []*runlog.Question `json:"questions,omitempty"`

	// Checkpoint is where an interrupted run stopped, if the host has no journal that
	// keeps it. The run that resumes it brings it with the answers.
	Checkpoint *Checkpoint `json:"-"`
}

// Text returns the text of the last agent's last answer.
func (r *RunResult) Text() string {
	if len(r.Results) == 0 {
		return ""
	}
	return r.Results[len(r.Results)-1].Text()
}

// Decode reads the output of the last agent that has one into v. Code
// failed_precondition if none has.
func (r *RunResult) Decode(v any) error {
	for i := len(r.Results) - 1; i >= 0; i-- {
		if out := r.Results[i].Output; out != nil {
			if err := json.Unmarshal(out, v); err != nil {
				return fault.Errorf(fault.InvalidArgument, "read the output of agent %q: %w", r.Results[i].Agent, err)
			}
			return nil
		}
	}
	return fault.Errorf(fault.FailedPrecondition, "no agent of the run has an output").WithHint("give the agent the option Output")
}

// StateAs returns the state that a run has ended with as a T: with [encoding/json]. Code
// invalid_argument if it does not fit, failed_precondition for a run that failed
// before it had a state.
func StateAs[T any](r *RunResult) (T, error) {
	var v T
	if r == nil || len(r.State) == 0 {
		return v, fault.Errorf(fault.FailedPrecondition, "the run has no state")
	}
	if err := json.Unmarshal(r.State, &v); err != nil {
		return v, fault.Errorf(fault.InvalidArgument, "read the state of run %q: %w", r.Run, err)
	}
	return v, nil
}
