package llm

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// Model answers a conversation. Implementations are safe for concurrent use.
type Model interface {
	// Name returns the model's name as its provider knows it. It also chooses
	// the token tables that history is counted with.
	Name() string

	// Generate streams the answer: any number of deltas, then exactly one chunk
	// with Response set, which is the whole answer. An error is the last thing
	// yielded; its code says whose fault it was (unavailable and
	// deadline_exceeded for an upstream that is down or slow,
	// resource_exhausted when it refuses load, permission_denied or
	// unauthenticated for a bad key, invalid_argument for a request it does not
	// take). Breaking out of the loop ends the request. The request must not be
	// changed or kept.
	//
	// With Request.Whole a model may have its service answer in one piece. Its chunks
	// are then those of a stream that came at once: a delta for each part, and the
	// whole answer. A model that always streams does nothing about it.
	Generate(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Provided is an optional interface of a [Model]: Provider returns whose model it is, by the
// name that the GenAI conventions of OpenTelemetry have for it, such as openai, anthropic
// or gcp.gemini. A model that wraps another has Unwrap() Model instead.
type Provided interface{ Provider() string }

// ProviderOf returns whose model m is; "" if it does not say.
func ProviderOf(m Model) string {
	for range maxWrappers {
		if p, ok := m.(Provided); ok {
			return p.Provider()
		}
		w, ok := m.(interface{ Unwrap() Model })
		if !ok {
			break
		}
		m = w.Unwrap()
	}
	return ""
}

// maxWrappers bounds how many models wrap each other.
const maxWrappers = 16

// Request is one question to a model.
type Request struct {
	Messages        []*chat.Message // system messages first, then the view of history
	Tools           []ToolSpec
	ProviderTools   []ProviderTool // of all providers: see ProviderToolsOf
	ToolChoice      ToolChoice
	Temperature     *float64
	Output          *OutputSpec // answer with JSON; nil is text
	MaxOutputTokens int         // 0 is the provider's default
	Parameters      Parameters  // members of the request to the service, beside those of the fields here
	SerialTools     bool        // ask for at most one tool call an answer; more are run one after the other
	Whole           bool        // the caller reads no deltas: the answer need not be streamed, see Model
	Scope           Scope       // who is asking, for logs; never sent

	// Conversation is the id, from an earlier [Response], of the conversation
	// that the model's service keeps: Messages are then those since, after the
	// system messages, which come with every request. "" is none. A model whose
	// service keeps none answers failed_precondition.
	Conversation string
}

// Scope says who is asking and where: every part of a run receives it.
type Scope struct {
	Tenant  string `json:"tenant,omitempty"`
	Thread  string `json:"thread,omitempty"`
	Run     string `json:"run,omitempty"`
	Network string `json:"network,omitempty"`
	Agent   string `json:"agent,omitempty"`
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of an object
}

// ToolChoice says whether a model must call a tool: "" or "auto" lets it choose,
// "any" makes it call one, "none" forbids it, anything else names the tool to
// call.
type ToolChoice string

// The tool choices that are not a tool's name.
const (
	ToolChoiceAuto ToolChoice = "auto"
	ToolChoiceAny  ToolChoice = "any"
	ToolChoiceNone ToolChoice = "none"
)

// Forces reports whether a model must call a tool.
func (c ToolChoice) Forces() bool { return c != "" && c != ToolChoiceAuto && c != ToolChoiceNone }

// OutputSpec asks a model to answer with JSON of a schema. A model without support
// for one ignores it: the host checks every answer.
type OutputSpec struct {
	Name   string          // of the agent, made fit for providers
	Schema json.RawMessage // JSON Schema
	Strict bool            // the schema keeps the rules of strict providers
}

// Chunk is one piece of a streamed answer. Deltas are for showing; the
// last chunk's Response holds everything again.
type Chunk struct {
	Text      string          // text delta
	Reasoning string          // reasoning delta
	ToolCall  *ToolCallDelta  // a call begins or continues
	Retry     *RetryNotice    // the model is being asked again
	Fallback  *FallbackNotice // another model is being asked
	Response  *Response       // the whole answer; last
}

// ToolCallDelta is a piece of a tool call. ID and Name come with the first.
type ToolCallDelta struct {
	Index     int    `json:"index"` // which call of the answer, from 0
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"` // a fragment of JSON text
}

// Type returns "tool_call.delta": a run sends the piece as an event of that type.
func (*ToolCallDelta) Type() string { return "tool_call.delta" }

// RetryNotice tells that an attempt failed and another follows.
type RetryNotice struct {
	Attempt int        // the attempt that failed, from 1
	Code    fault.Code // why
	Reason  string     // one sentence
}

// FallbackNotice tells that a model failed, now or a moment ago, and another is
// asked in its place.
type FallbackNotice struct {
	From, To string     // names of models
	Code     fault.Code // why
	Reason   string     // one sentence
}

// Response is a model's whole answer.
type Response struct {
	ID           string      // the provider's
	Model        string      // the model that answered
	Parts        []chat.Part // reasoning, text, tool calls
	FinishReason chat.FinishReason
	Usage        chat.Usage
	Raw          json.RawMessage // the provider's answer, if the model is configured to keep it

	// Conversation is set if the service keeps the conversation up to this answer:
	// the id to ask on with. It may be another one after each answer.
	Conversation string
}
