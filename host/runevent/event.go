package runevent

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runlog"
)

// Event is one thing that happened in a run. Seq counts from 0 without gaps.
// Its JSON is
//
//	{"seq","time","type","run","network"?,"agent"?,"data":{...}}
type Event struct {
	Seq     int64
	Time    time.Time
	Run     string
	Network string
	Agent   string // the agent at work, if any
	Data    Data
}

// Data is the data of an event, by its type. The set is closed; its members
// are the types of this file, all of them pointers. A reader ignores types and
// members that it does not know.
type Data interface {
	// Type returns the event's "type" in JSON.
	Type() string
}

type (
	// RunStarted opens every run.
	RunStarted struct {
		Tenant  string `json:"tenant,omitempty"`
		Thread  string `json:"thread,omitempty"`
		Branch  string `json:"branch,omitempty"`  // of the thread, if the run is not on its own line
		Message string `json:"message,omitempty"` // id of the user's message
		Resumes string `json:"resumes,omitempty"` // the interrupted run that this one resumes

		// Replayed tells that the message was answered before: the events that follow
		// are those of the stored turn, under the id of its run, each answer in one
		// piece, and nothing runs.
		Replayed bool `json:"replayed,omitempty"`
	}

	// RouteChosen tells the router's decision. An empty Next ends the run when the
	// stack is empty.
	RouteChosen struct {
		Router string     `json:"router"`
		Call   int        `json:"call"` // agent runs before this decision
		Next   []string   `json:"next"`
		Reason string     `json:"reason,omitempty"`
		Cost   *chat.Cost `json:"cost,omitempty"`
	}

	// ThreadDecided tells that two could keep the messages of an agent thread, its
	// message store and the model's service, and which of them does.
	ThreadDecided struct {
		Kind  chat.ThreadKind `json:"kind"`
		Store string          `json:"store"` // the type of the message store
	}

	// AgentStarted opens one agent's run.
	AgentStarted struct {
		Model  string `json:"model"`
		Result string `json:"result,omitempty"` // id of the [chat.Result] that it makes
	}

	// ProcessorRan tells a processor's changes to the view of history. Tokens are -1
	// when the host has no token counter.
	ProcessorRan struct {
		Processor      string          `json:"processor"`
		Level          string          `json:"level"` // history, network or agent
		MessagesBefore int             `json:"messages_before"`
		MessagesAfter  int             `json:"messages_after"`
		TokensBefore   int             `json:"tokens_before"`
		TokensAfter    int             `json:"tokens_after"`
		Approximate    bool            `json:"approximate,omitempty"` // the model's token tables are not known
		Changed        bool            `json:"changed"`
		Skipped        *fault.Error    `json:"skipped,omitempty"` // it failed and is optional
		Error          *fault.Error    `json:"error,omitempty"`   // it failed, and the run with it
		Report         json.RawMessage `json:"report,omitempty"`
		Cost           *chat.Cost      `json:"cost,omitempty"`
	}

	// ProviderRan tells the additions of a context provider.
	ProviderRan struct {
		Provider     string       `json:"provider"`
		Instructions bool         `json:"instructions,omitempty"`
		Messages     int          `json:"messages,omitempty"`
		Tools        int          `json:"tools,omitempty"`
		Error        *fault.Error `json:"error,omitempty"` // of its after hook
		Cost         *chat.Cost   `json:"cost,omitempty"`
	}

	// ModelCalled tells that a model is asked.
	ModelCalled struct {
		Model    string `json:"model"`
		Round    int    `json:"round"` // from 1
		Messages int    `json:"messages"`
		Tools    int    `json:"tools,omitempty"`
	}

	// ModelThrottled tells that a model was not asked at once, since the tenant
	// asked too often.
	ModelThrottled struct {
		Model  string `json:"model"`
		WaitUS int64  `json:"wait_us"`
	}

	// ModelRetried tells that a model did not answer and is asked again.
	ModelRetried struct {
		Attempt int        `json:"attempt"`
		Code    fault.Code `json:"code"`
		Reason  string     `json:"reason"`
	}

	// ModelFellBack tells that a model does not answer and another is asked in its
	// place: see the package fallbackmodel.
	ModelFellBack struct {
		From   string     `json:"from"`
		To     string     `json:"to"`
		Code   fault.Code `json:"code"`
		Reason string     `json:"reason"`
	}

	// TextDelta is a piece of an answer's text.
	TextDelta struct {
		Text string `json:"text"`
	}

	// ReasoningDelta is a piece of a model's reasoning.
	ReasoningDelta struct {
		Text string `json:"text"`
	}

	// ToolCallDelta is also an event: see its type in package llm.

	// MessageDone carries a whole message that joined the conversation.
	MessageDone struct {
		Message *chat.Message `json:"message"`
		Usage   *chat.Usage   `json:"usage,omitempty"` // of the answer

		Raw json.RawMessage `json:"raw,omitempty"` // the provider's answer, if the model keeps it
	}

	// ToolStarted tells that a tool runs.
	ToolStarted struct {
		ID        string          `json:"id"`
		Key       string          `json:"key,omitempty"` // the call's idempotency key: the same in a run that resumes the call
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Provider  string          `json:"provider,omitempty"` // that has added the tool
		Parent    string          `json:"parent,omitempty"`   // the ID of the call of the tool that calls this one; empty if the model does
	}

	// ToolProgress is an event that a running tool emits.
	ToolProgress struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Kind string          `json:"kind"`
		Data json.RawMessage `json:"data"`
	}

	// ToolRetried tells that an attempt of a tool failed and another follows.
	ToolRetried struct {
		ID      string     `json:"id"`
		Name    string     `json:"name"`
		Attempt int        `json:"attempt"` // the attempt that failed, from 1
		Code    fault.Code `json:"code"`
		Reason  string     `json:"reason"`
	}

	// ToolFinished carries a tool's result.
	ToolFinished struct {
		ID         string          `json:"id"`
		Key        string          `json:"key,omitempty"` // as of ToolStarted
		Name       string          `json:"name"`
		Content    json.RawMessage `json:"content"`
		IsError    bool            `json:"is_error,omitempty"`
		Unknown    bool            `json:"unknown,omitempty"` // there is no tool of the name, which the model invented
		DurationUS int64           `json:"duration_us"`
		Cost       *chat.Cost      `json:"cost,omitempty"`
		Parent     string          `json:"parent,omitempty"` // as of ToolStarted
	}

	// StatePatched tells how the state changed: RFC 6902 operations. The first of
	// a run replaces the whole document. A tool's changes are emitted when it makes
	// them, each by itself; those of a tool that fails are taken back by another
	// StatePatched before its ToolFinished. Changes that the reader is too slow for
	// become one of the whole.
	StatePatched struct {
		Ops []jsondoc.Op `json:"ops"`
	}

	// ArtifactMade carries an artifact, when it is made.
	ArtifactMade struct {
		Artifact *chat.Artifact `json:"artifact"`
	}

	// Interrupted tells that the run will end with a question.
	Interrupted struct {
		Question *runlog.Question `json:"question"`
		Key      string           `json:"key,omitempty"` // of the call that waits: the first of Question.Via, if there are any
	}

	// AgentFinished closes one agent's run.
	AgentFinished struct {
		FinishReason chat.FinishReason `json:"finish_reason"`
		Rounds       int               `json:"rounds"`
		Limit        string            `json:"limit,omitempty"` // of the host that ended it, if the reason is max_rounds
		Usage        chat.Usage        `json:"usage"`
	}

	// RunFinished closes every run, after its results are stored.
	RunFinished struct {
		FinishReason chat.FinishReason `json:"finish_reason"`
		Thread       string            `json:"thread,omitempty"`
		Usage        chat.Usage        `json:"usage"`
		Cost         chat.Cost         `json:"cost"` // of all sandboxed code
		DurationUS   int64             `json:"duration_us"`
		Error        *fault.Error      `json:"error,omitempty"`
		Result       *RunResult        `json:"-"`
	}
)

// Type returns "run.started".
func (*RunStarted) Type() string { return "run.started" }

// Type returns "route".
func (*RouteChosen) Type() string { return "route" }

// Type returns "thread.decided".
func (*ThreadDecided) Type() string { return "thread.decided" }

// Type returns "agent.started".
func (*AgentStarted) Type() string { return "agent.started" }

// Type returns "processor".
func (*ProcessorRan) Type() string { return "processor" }

// Type returns "provider".
func (*ProviderRan) Type() string { return "provider" }

// Type returns "model.called".
func (*ModelCalled) Type() string { return "model.called" }

// Type returns "model.throttled".
func (*ModelThrottled) Type() string { return "model.throttled" }

// Type returns "model.retried".
func (*ModelRetried) Type() string { return "model.retried" }

// Type returns "model.fallback".
func (*ModelFellBack) Type() string { return "model.fallback" }

// Type returns "text.delta".
func (*TextDelta) Type() string { return "text.delta" }

// Type returns "reasoning.delta".
func (*ReasoningDelta) Type() string { return "reasoning.delta" }

// Type returns "message".
func (*MessageDone) Type() string { return "message" }

// Type returns "tool.started".
func (*ToolStarted) Type() string { return "tool.started" }

// Type returns "tool.progress".
func (*ToolProgress) Type() string { return "tool.progress" }

// Type returns "tool.retried".
func (*ToolRetried) Type() string { return "tool.retried" }

// Type returns "tool.finished".
func (*ToolFinished) Type() string { return "tool.finished" }

// Type returns "state.patch".
func (*StatePatched) Type() string { return "state.patch" }

// Type returns "artifact".
func (*ArtifactMade) Type() string { return "artifact" }

// Type returns "interrupted".
func (*Interrupted) Type() string { return "interrupted" }

// Type returns "agent.finished".
func (*AgentFinished) Type() string { return "agent.finished" }

// Type returns "run.finished".
func (*RunFinished) Type() string { return "run.finished" }

// MarshalJSON writes the event as one object.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the output of MarshalJSON to dst.
func (e Event) AppendJSON(dst []byte) ([]byte, error) {
	dst = strconv.AppendInt(append(dst, `{"seq":`...), e.Seq, 10)
	dst = e.Time.AppendFormat(append(dst, `,"time":"`...), time.RFC3339Nano)
	dst = jsondoc.AppendString(append(dst, `","type":`...), e.Data.Type())
	dst = jsondoc.AppendString(append(dst, `,"run":`...), e.Run)
	if e.Network != "" {
		dst = jsondoc.AppendString(append(dst, `,"network":`...), e.Network)
	}
	if e.Agent != "" {
		dst = jsondoc.AppendString(append(dst, `,"agent":`...), e.Agent)
	}
	dst, err := appendData(append(dst, `,"data":`...), e.Data)
	return append(dst, '}'), err
}
