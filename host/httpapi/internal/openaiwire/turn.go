package openaiwire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/stream"
)

// Turn is a conversation as a client sent it, with its new part apart.
type Turn struct {
	Instructions string          // of system and developer messages
	Past         []*chat.Message // before the new part
	Input        *chat.Message   // the user's messages at the end, as one; may be nil
	Results      []Result        // of the calls at the end; none if there is an Input
	Resent       bool            // the client sends earlier answers again
	Digest       string          // of all messages: the same if they are sent again

	tools map[string]string // of the calls in Past, by their ids
}

// Result is the result of a call that the client has executed.
type Result struct {
	Call string // its id
	Text string
}

// Conversation returns the whole of a turn without an input, for a run that continues from
// its end.
func (t *Turn) Conversation() []*chat.Message {
	return t.appendResults(t.Past[:len(t.Past):len(t.Past)])
}

func (t *Turn) appendResults(to []*chat.Message) []*chat.Message {
	for _, r := range t.Results {
		id := stream.ShortCallID(r.Call)
		to = append(to, chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: id, Name: t.tools[id], Content: jsondoc.Quote(r.Text)}))
	}
	return to
}

// turnReader collects the messages of a conversation in their order.
type turnReader struct {
	turn         Turn
	digest       strings.Builder
	instructions strings.Builder
}

// add takes a message of a role; raw is what the digest of the turn is made of.
func (r *turnReader) add(raw []byte) {
	r.digest.Write(raw)
	r.digest.WriteByte(0)
}

func (r *turnReader) system(text string) {
	if r.instructions.Len() > 0 {
		r.instructions.WriteString("\n\n")
	}
	r.instructions.WriteString(text)
}

// user takes a user's message. Several without an answer between them are one.
func (r *turnReader) user(parts []chat.Part) {
	r.settle()
	if r.turn.Input == nil {
		r.turn.Input = &chat.Message{Role: chat.User}
	}
	r.turn.Input.Parts = append(r.turn.Input.Parts, parts...)
}

// assistant takes an answer.
func (r *turnReader) assistant(parts []chat.Part) {
	r.settle()
	r.endInput()
	r.turn.Resent = true
	r.turn.Past = append(r.turn.Past, &chat.Message{Role: chat.Assistant, Parts: parts})
	for _, p := range parts {
		r.remember(p)
	}
}

// stopped takes an answer that was stopped before it began: the user's message before it was
// sent in an earlier turn all the same.
func (r *turnReader) stopped() {
	if r.turn.Input != nil {
		r.endInput()
		r.turn.Resent = true
	}
}

// remember keeps the name of the tool of a call, for its result.
func (r *turnReader) remember(p chat.Part) {
	call, is := p.(*chat.ToolCall)
	if !is {
		return
	}
	if r.turn.tools == nil {
		r.turn.tools = map[string]string{}
	}
	r.turn.tools[call.ID] = call.Name
}

// call takes a call that is an item of its own: it belongs to the answer before it.
func (r *turnReader) call(c *chat.ToolCall) {
	if n := len(r.turn.Past); n == 0 || len(r.turn.Results) > 0 || r.turn.Input != nil || r.turn.Past[n-1].Role != chat.Assistant {
		r.assistant([]chat.Part{c})
		return
	}
	last := r.turn.Past[len(r.turn.Past)-1]
	last.Parts = append(last.Parts, c)
	r.remember(c)
}

// result takes the result of a call.
func (r *turnReader) result(call, text string) {
	r.endInput()
	r.turn.Results = append(r.turn.Results, Result{Call: call, Text: text})
}

// settle moves results that something follows to the past.
func (r *turnReader) settle() {
	if len(r.turn.Results) > 0 {
		r.turn.Past = r.turn.appendResults(r.turn.Past)
		r.turn.Results = nil
	}
}

func (r *turnReader) endInput() {
	if r.turn.Input != nil {
		r.turn.Past = append(r.turn.Past, r.turn.Input)
		r.turn.Input = nil
	}
}

// end returns the turn. Code invalid_argument for one that ends with an answer.
func (r *turnReader) end() (*Turn, error) {
	t := &r.turn
	t.Instructions = r.instructions.String()
	switch n := len(t.Past); {
	case t.Input != nil || len(t.Results) > 0:
	case n > 0:
		return nil, paramf("messages", "the conversation ends with an answer").WithHint("end it with a user's message or the results of calls")
	default:
		return nil, paramf("messages", "there is no user's message")
	}
	sum := sha256.Sum256([]byte(r.digest.String()))
	t.Digest = hex.EncodeToString(sum[:16])
	return t, nil
}

// ParamError is an error about one member of a request.
type ParamError struct {
	Param string
	Err   *fault.Error
}

// Error returns the text of the error.
func (e *ParamError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the member.
func (e *ParamError) Unwrap() error { return e.Err }

// WithHint sets the hint and returns e.
func (e *ParamError) WithHint(format string, args ...any) *ParamError {
	e.Err = e.Err.WithHint(format, args...)
	return e
}

// paramf returns an error of code invalid_argument about a member of a request.
func paramf(param, format string, args ...any) *ParamError {
	return &ParamError{Param: param, Err: fault.Errorf(fault.InvalidArgument, format, args...)}
}

// media returns a part of an address: one of the network, or data: with its bytes.
func media(param, address, fallback string) (chat.Part, error) {
	rest, isData := strings.CutPrefix(address, "data:")
	if !isData {
		if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
			return nil, paramf(param, "the address of a file is neither http: nor data:")
		}
		return &chat.Media{MediaType: fallback, URL: address}, nil
	}
	head, content, found := strings.Cut(rest, ",")
	kind, isBase64 := strings.CutSuffix(head, ";base64")
	if !found || !isBase64 {
		return nil, paramf(param, "the data of a file is not data:TYPE;base64,BYTES")
	}
	if kind == "" {
		kind = fallback
	}
	return mediaBytes(param, kind, content)
}

func mediaBytes(param, kind, content string) (chat.Part, error) {
	if _, _, err := mime.ParseMediaType(kind); err != nil || !strings.Contains(kind, "/") {
		return nil, paramf(param, "the media type of a file is %.60q", kind)
	}
	raw, err := base64.StdEncoding.DecodeString(content)
	if err != nil {
		return nil, paramf(param, "the data of a file is not base64")
	}
	return &chat.Media{MediaType: kind, Data: raw}, nil
}

// resultJSON is the result of a call as JSON.
func resultJSON(text string) json.RawMessage { return jsondoc.Quote(text) }

// Answers returns the answers to questions of a run: the results of calls of the client's
// tools, and of calls of [stream.ApprovalTool]. A result that is none of them is left out, and
// so is a question without a result.
func Answers(run string, questions []*host.Question, results []Result) []host.Answer {
	byCall := make(map[string]*host.Question, len(questions))
	for _, q := range questions {
		byCall[stream.OpenAICallID(run, q)] = q
	}
	var answers []host.Answer
	for _, r := range results {
		if q := byCall[r.Call]; q != nil {
			answers = append(answers, answerOf(q, r.Text))
		}
	}
	return answers
}

// approval is the result of a call of [stream.ApprovalTool].
type approval struct {
	Approve   bool            `json:"approve"`
	Reason    string          `json:"reason"`
	Arguments json.RawMessage `json:"arguments"`
}

func answerOf(q *host.Question, text string) host.Answer {
	a := host.Answer{Question: q.ID}
	if q.Kind == host.AskResult || q.Kind == host.AskInput {
		a.Decision, a.Value = host.Reply, resultJSON(text)
		return a
	}
	var said approval
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		said = approval{Approve: text == "true" || strings.EqualFold(strings.TrimSpace(text), "approve")}
	}
	if !said.Approve {
		a.Decision, a.Reason = host.Deny, said.Reason
		return a
	}
	a.Decision = host.Approve
	if q.Kind == host.AskApproval && len(said.Arguments) > 0 && string(said.Arguments) != "null" {
		a.Arguments = said.Arguments
	}
	return a
}
