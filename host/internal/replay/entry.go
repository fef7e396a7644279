package replay

import (
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runlog"
)

// Version is the version of checkpoints and journal records.
const Version = 1

// Entry is one step of a run in the journal: State, Undo and In beside one of the rest.
type Entry struct {
	In    string       `json:"in,omitempty"`    // the key of the call whose agent takes the step
	State []jsondoc.Op `json:"state,omitempty"` // the changes of the state since the last step
	Undo  []jsondoc.Op `json:"undo,omitempty"`  // undoes those of calls without an outcome, if no step follows

	SameUndo bool `json:"same_undo,omitempty"` // Undo is that of the step before, and not written again

	Ended *statedoc.View `json:"-"` // the state of the call whose outcome the step is, if it is one

	Begin  *Begin      `json:"begin,omitempty"` // the first
	Route  *RouteStep  `json:"route,omitempty"`
	Answer *AnswerStep `json:"answer,omitempty"`
	Call   *CallStep   `json:"call,omitempty"`
	Agent  *AgentStep  `json:"agent,omitempty"`
	Step   *NamedStep  `json:"step,omitempty"`
	End    *EndStep    `json:"end,omitempty"`  // before the results are stored
	Left   *Checkpoint `json:"left,omitempty"` // the only one of an interrupted run
}

type (
	// Begin is the beginning of a run: a request, or the checkpoint of an
	// interrupted run, with the answers.
	Begin struct {
		V            int                        `json:"v"`
		Key          string                     `json:"key,omitempty"` // the credential that usage is recorded by
		Input        *chat.Message              `json:"input,omitempty"`
		Messages     []*chat.Message            `json:"messages,omitempty"`  // the client's
		Providers    map[string]json.RawMessage `json:"providers,omitempty"` // likewise
		Artifacts    []chat.Artifact            `json:"artifacts,omitempty"` // likewise
		Instructions string                     `json:"instructions,omitempty"`
		Parameters   map[string]json.RawMessage `json:"model_parameters,omitempty"`
		Client       *llm.ClientTerms           `json:"client,omitempty"`
		State        json.RawMessage            `json:"state,omitempty"`
		Foreign      bool                       `json:"foreign,omitempty"` // the state is the client's
		Head         string                     `json:"head,omitempty"`
		History      *LoadedStep                `json:"history,omitempty"` // nil if it is to be loaded again
		Branch       string                     `json:"branch,omitempty"`
		From         *Checkpoint                `json:"from,omitempty"`
		Answers      []runlog.Answer            `json:"answers,omitempty"`
		Expired      *runlog.Question           `json:"expired,omitempty"` // the question that ends the run
		Stopped      bool                       `json:"stopped,omitempty"` // by the Start hook of the network
	}

	// LoadedStep is the history adapter's answer, so that a resumed run does not ask
	// it again.
	LoadedStep struct {
		Messages  json.RawMessage            `json:"messages"`
		Providers map[string]json.RawMessage `json:"providers,omitempty"`
	}

	// RouteStep is a router's decision. Usage and cost are the run's so far.
	RouteStep struct {
		Next   []string   `json:"next"`
		Usage  chat.Usage `json:"usage"`
		Cost   chat.Cost  `json:"cost"`
		Tokens int64      `json:"tokens"`
	}

	// AnswerStep is a model's answer. Usage is the agent's so far.
	AnswerStep struct {
		Agent     string            `json:"agent"`
		First     bool              `json:"first,omitempty"`
		CreatedAt time.Time         `json:"created_at"`
		Round     int               `json:"round"`
		Message   *chat.Message     `json:"message"`
		Finish    chat.FinishReason `json:"finish_reason"`
		Usage     chat.Usage        `json:"usage"`
		Output    json.RawMessage   `json:"output,omitempty"`
		Misfit    *fault.Error      `json:"misfit,omitempty"`
		Stack     []string          `json:"stack,omitempty"`   // the agents that wait behind this one
		Service   string            `json:"service,omitempty"` // the conversation that the model's service keeps
		Cost      chat.Cost         `json:"cost"`
		Tokens    int64             `json:"tokens"`
	}

	// CallStep is a tool call that begins, or its outcome.
	CallStep struct {
		ID      string    `json:"id"`
		Attempt int       `json:"attempt,omitempty"`
		Began   time.Time `json:"began,omitzero"` // of a call that begins to make others
		Done    *CallDone `json:"done,omitempty"`
		Key     string    `json:"key,omitempty"` // beside Done, of a call that has made others

		// Of is the key of the call that makes this one, which is the call At of Name
		// with Arguments among those that it makes; empty for a call of the model.
		Of        string          `json:"of,omitempty"`
		At        int             `json:"at,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}

	// CallDone is the outcome of a call: a message or a question.
	CallDone struct {
		Message   *chat.Message   `json:"message,omitempty"`
		Open      *OpenCall       `json:"open,omitempty"`
		Artifacts []chat.Artifact `json:"artifacts,omitempty"`
		Schedule  []string        `json:"schedule,omitempty"`
		Cost      *chat.Cost      `json:"cost,omitempty"`
		Usage     *chat.Usage     `json:"usage,omitempty"`
		Code      fault.Code      `json:"code,omitempty"`   // of a nested call that failed
		Joined    bool            `json:"joined,omitempty"` // Message is one with those of the answer's other calls
	}

	// AgentStep is the end of an agent's run.
	AgentStep struct {
		Finish   chat.FinishReason `json:"finish_reason"`
		Messages []*chat.Message   `json:"messages,omitempty"` // if a hook has replaced them
	}

	// NamedStep is a step of [Steps] that begins, fails or is done.
	NamedStep struct {
		Name   string          `json:"name"`
		Failed bool            `json:"failed,omitempty"`
		Done   bool            `json:"done,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
	}

	// EndStep is how a run ends.
	EndStep struct {
		Finish chat.FinishReason `json:"finish_reason"`
		Error  *fault.Error      `json:"error,omitempty"`
	}
)

// The bounds of stored documents, which are those of runs.
const (
	MaxAgentDepth      = 4  // of agents used as tools
	MaxToolRetries     = 10 // of one call
	MaxScheduledAgents = 64 // that wait to run
)
