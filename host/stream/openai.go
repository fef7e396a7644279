package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runevent"
)

// What both of OpenAI's protocols have in common: errors, ids of calls, questions.

// openAIErrors are the types and codes of errors, by our codes, that OpenAI's clients know.
var openAIErrors = map[fault.Code][2]string{
	fault.InvalidArgument:    {"invalid_request_error", "invalid_argument"},
	fault.Unauthenticated:    {"authentication_error", "invalid_api_key"},
	fault.PermissionDenied:   {"permission_error", "permission_denied"},
	fault.NotFound:           {"invalid_request_error", "not_found"},
	fault.AlreadyExists:      {"invalid_request_error", "already_exists"},
	fault.Conflict:           {"conflict_error", "conflict"},
	fault.ResourceExhausted:  {"rate_limit_error", "rate_limit_exceeded"},
	fault.FailedPrecondition: {"invalid_request_error", "failed_precondition"},
	fault.DeadlineExceeded:   {"timeout_error", "deadline_exceeded"},
	fault.Unavailable:        {"server_error", "service_unavailable"},
	fault.Unimplemented:      {"invalid_request_error", "unimplemented"},
}

// OpenAIError is an error as OpenAI's clients read it, in {"error":{...}}.
type OpenAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // the member of the request that is wrong
	Code    string  `json:"code"`
}

// NewOpenAIError returns an error in that form. The text is the error's own: what clients
// may not read is replaced by [fault.ForClient] before.
func NewOpenAIError(e *fault.Error) *OpenAIError {
	of, ok := openAIErrors[e.Code]
	if !ok {
		of = [2]string{"server_error", string(e.Code)}
	}
	text := e.Message
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return &OpenAIError{Message: text, Type: of[0], Code: of[1]}
}

// body returns {"error":{...}}.
func (e *OpenAIError) body() json.RawMessage {
	raw, err := json.Marshal(map[string]any{"error": e})
	if err != nil {
		return json.RawMessage(`{"error":{"message":"the error cannot be written","type":"server_error","param":null,"code":"internal"}}`)
	}
	return raw
}

// openAIFailures writes failures for OpenAI's clients.
type openAIFailures struct{}

var _ failureEncoder = openAIFailures{}

func (openAIFailures) encodeFailure(e *fault.Error) json.RawMessage { return NewOpenAIError(e).body() }

// callIDs of OpenAI's clients name the run that waits and its question, so that a result
// finds them: call_RUN_QUESTION.
const (
	callIDPrefix  = "call_"
	questionBytes = 8
)

// OpenAICallID returns the id by which a client of OpenAI's protocols knows the call that a
// question of a run is about.
func OpenAICallID(run string, q *host.Question) string {
	return callIDPrefix + run + "_" + q.ID[:min(len(q.ID), questionBytes)]
}

// ReadOpenAICallID returns the run of such an id; ok is false for an id of another maker.
func ReadOpenAICallID(id string) (run string, ok bool) {
	rest, ok := strings.CutPrefix(id, callIDPrefix)
	at := strings.LastIndexByte(rest, '_')
	if !ok || at <= 0 || len(rest)-at-1 != questionBytes {
		return "", false
	}
	return rest[:at], true
}

// ShortCallID returns an id of a call that every model's service takes: OpenAI's own takes
// 40 bytes.
func ShortCallID(id string) string {
	const most = 40
	if len(id) <= most {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return callIDPrefix + hex.EncodeToString(sum[:12])
}

// ApprovalTool is the name of the tool that a client declares to be asked about calls that
// a person must agree to, and questions of tools: see [ApprovalCall].
const ApprovalTool = "agenthost_approval"

// ApprovalCall are the arguments of a call of [ApprovalTool].
type ApprovalCall struct {
	Kind      host.QuestionKind `json:"kind"`
	Tool      string            `json:"tool"`
	Arguments json.RawMessage   `json:"arguments,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Data      json.RawMessage   `json:"data,omitempty"`
}

// shownCall is a call that a client is to execute.
type shownCall struct {
	id, name  string
	arguments string
}

// callOf returns a question as a call of the client's tools; ok is false for one that the
// client cannot be asked by a call.
func callOf(run string, q *host.Question, approvals bool) (c shownCall, ok bool) {
	c = shownCall{id: OpenAICallID(run, q), name: q.Tool, arguments: string(q.Arguments)}
	if q.Kind == host.AskResult {
		return c, true
	}
	if !approvals {
		return c, false
	}
	raw, err := json.Marshal(ApprovalCall{Kind: q.Kind, Tool: q.Tool, Arguments: q.Arguments, Reason: q.Reason, Data: q.Data})
	c.name, c.arguments = ApprovalTool, string(raw)
	return c, err == nil
}

// waitingText says which question a run waits with, to a client that is not asked by a call.
func waitingText(run string, q *host.Question) string {
	text := "The tool " + q.Tool + " waits for a person's answer"
	if q.Reason != "" {
		text += " (" + q.Reason + ")"
	}
	return text + ": POST /v1/runs/" + run + "/answers."
}

// openAIRun are the members of an answer that OpenAI's protocols do not have.
type openAIRun struct {
	Run       string           `json:"run"`
	Thread    string           `json:"thread,omitempty"`
	Questions []*host.Question `json:"questions,omitempty"`
	Replayed  bool             `json:"replayed,omitempty"` // the message had been answered before
}

// openAIUsage are tokens by the names of Chat Completions.
type openAIUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	PromptOf   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newOpenAIUsage(u chat.Usage) *openAIUsage {
	o := &openAIUsage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.Total()}
	o.PromptOf.Cached, o.CompletionOf.Reasoning = u.CachedTokens, u.ReasoningTokens
	return o
}

// answerText joins the texts of answers as a client shows them.
type answerText struct {
	structured bool // the answer is JSON: the last one alone counts
	written    bool // a text has been returned
	open       bool // of the answer that streams, something has been returned
	last       string
}

// delta returns the text to show for a piece of an answer.
func (t *answerText) delta(text string) string {
	if t.structured || text == "" {
		return ""
	}
	if t.written && !t.open {
		text = "\n\n" + text
	}
	t.written, t.open = true, true
	return text
}

// done returns the text to show when an answer is whole: what of it did not stream.
func (t *answerText) done(m *chat.Message) (text string) {
	if m.Role != chat.Assistant {
		return ""
	}
	if t.last = m.Text(); !t.open {
		text = t.delta(t.last)
	}
	t.open = false
	return text
}

// notice returns a text of the host's to show behind the answers.
func (t *answerText) notice(text string) string {
	if t.written {
		text = "\n\n" + text
	}
	t.written = true
	return text
}

// again forgets that an answer has begun: another follows in its place.
func (t *answerText) again() { t.open = false }

// end returns the text to show at the end.
func (t *answerText) end() string {
	if !t.structured {
		return ""
	}
	return t.last
}

// openAIFinish returns the finish reason of a run for Chat Completions. answer is that of its
// last agent.
func openAIFinish(run, answer chat.FinishReason, calls int) string {
	if run == chat.FinishStop && answer != "" {
		run = answer
	}
	switch {
	case calls > 0:
		return "tool_calls"
	case run == chat.FinishLength || run == chat.FinishMaxRounds || run == chat.FinishMaxIterations:
		return "length"
	case run == chat.FinishContentFilter:
		return "content_filter"
	}
	return "stop"
}

// resultText returns the text of a run's answers, as a stream of them shows it.
func resultText(r *runevent.RunResult, structured bool) string {
	t := answerText{structured: structured}
	var b strings.Builder
	for _, result := range r.Results {
		for _, m := range result.Messages {
			b.WriteString(t.done(m))
		}
	}
	return b.String() + t.end()
}

// appendQuoted appends a text as JSON.
func appendQuoted(dst []byte, s string) []byte { return jsondoc.AppendString(dst, s) }
