package stream

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
)

// ResponseOptions are those of answers in the form of OpenAI's Responses.
type ResponseOptions struct {
	// Response has the members that the request decides. The encoder fills the others in.
	Response Response

	JSON      bool  // the answer is JSON: the last one alone is sent, whole
	Approvals bool  // the client has declared [ApprovalTool]
	From      int64 // the sequence_number of the first frame to send

	// Ended is called with the response when the run has ended, before the frames that say so;
	// nil is not called.
	Ended func(*Response)
}

// Response is a response of OpenAI's API.
type Response struct {
	ID                string                `json:"id"`
	Object            string                `json:"object"`
	CreatedAt         int64                 `json:"created_at"`
	Status            string                `json:"status"` // queued, in_progress, completed, incomplete, failed, cancelled
	Background        bool                  `json:"background"`
	Error             *responseError        `json:"error"`
	IncompleteDetails *incompleteDetails    `json:"incomplete_details"`
	Instructions      *string               `json:"instructions"`
	MaxOutputTokens   *int                  `json:"max_output_tokens"`
	Model             string                `json:"model"`
	Output            []*outputItem         `json:"output"`
	ParallelToolCalls bool                  `json:"parallel_tool_calls"`
	PreviousResponse  *string               `json:"previous_response_id"`
	Conversation      *ResponseConversation `json:"conversation"`
	Store             bool                  `json:"store"`
	Temperature       *float64              `json:"temperature"`
	Text              json.RawMessage       `json:"text"`
	ToolChoice        json.RawMessage       `json:"tool_choice"`
	Tools             json.RawMessage       `json:"tools"`
	TopP              *float64              `json:"top_p"`
	Truncation        string                `json:"truncation"`
	Usage             *responseUsage        `json:"usage"`
	Metadata          map[string]string     `json:"metadata"`
	AgentHost         *openAIRun            `json:"agenthost,omitempty"`
}

// ResponseConversation names the conversation of a response.
type ResponseConversation struct {
	ID string `json:"id"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

// responseUsage are tokens by the names of Responses.
type responseUsage struct {
	Input   int `json:"input_tokens"`
	InputOf struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output   int `json:"output_tokens"`
	OutputOf struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// outputItem is a message, reasoning or a call of the client's tools.
type outputItem struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	Status    string        `json:"status,omitempty"`
	Role      string        `json:"role,omitempty"`
	Content   []outputText  `json:"content,omitempty"`
	Summary   []summaryText `json:"summary,omitempty"`
	CallID    string        `json:"call_id,omitempty"`
	Name      string        `json:"name,omitempty"`
	Arguments *string       `json:"arguments,omitempty"`
}

type outputText struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations"`
	Logprobs    []json.RawMessage `json:"logprobs"`
}

type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// ResponseEncoder makes the frames of a response, and the response itself.
type ResponseEncoder struct {
	openAIFailures
	opts   ResponseOptions
	resp   *Response
	run    string
	seq    int64
	dst    []Frame
	err    error
	silent bool // frames are not wanted

	open    *outputItem // message or reasoning being written
	text    []byte      // of it
	shown   bool        // of the answer that streams, something has been
	last    string      // text of the last answer
	answer  chat.FinishReason
	asks    []*host.Question
	calls   int
	replays bool
}

// Responses returns an encoder of OpenAI's Responses: frames with a name and a
// sequence_number, from response.created to response.completed, .incomplete or .failed. Each
// answer of the run's agents is an item of its own; reasoning comes as its summary, and the
// network's own tools are not shown. Calls that the client is to execute are function_call
// items, each whole, once the host has checked it.
func Responses(opts *ResponseOptions) *ResponseEncoder {
	e := &ResponseEncoder{opts: *opts}
	own := opts.Response
	e.resp = &own
	own.Object, own.Status, own.Output = "response", "in_progress", []*outputItem{}
	*e.resp = own
	return e
}

// LostResponse returns a response whose run is gone without an end that is known.
func LostResponse(opts *ResponseOptions) *Response {
	r := Responses(opts).Response()
	r.Status, r.Error = "failed", &responseError{"server_error", "the host that made the response has ended; its conversation has what was done"}
	return r
}

// Response returns the response with what the events so far have added.
func (e *ResponseEncoder) Response() *Response { return e.resp }

// NewResponse returns the response of a run that has ended: the one with which a stream of
// its events ends. failure is that of a run that failed, whose result may be nil.
func NewResponse(r *runevent.RunResult, failure *fault.Error, opts *ResponseOptions) *Response {
	e := Responses(opts)
	e.silent = true
	if r == nil {
		r = &runevent.RunResult{Run: strings.TrimPrefix(opts.Response.ID, "resp_")}
	}
	e.run, e.replays = r.Run, r.Replayed
	for _, result := range r.Results {
		for _, m := range result.Messages {
			e.wholeMessage(m)
		}
		e.answer = result.FinishReason
	}
	for _, q := range r.Questions {
		e.ask(q)
	}
	e.finish(&runevent.RunFinished{FinishReason: r.FinishReason, Thread: r.Thread, Usage: r.Usage, Error: failure})
	return e.resp
}

// wholeMessage adds an answer with its reasoning.
func (e *ResponseEncoder) wholeMessage(m *chat.Message) {
	if m.Role != chat.Assistant {
		return
	}
	for _, p := range m.Parts {
		if p, ok := p.(*chat.Reasoning); ok {
			e.delta("reasoning", p.Text)
		}
	}
	e.messageDone(m)
}

// Encode implements Encoder.
func (e *ResponseEncoder) Encode(dst []Frame, ev host.Event) ([]Frame, error) {
	e.dst, e.err, e.run = dst, nil, ev.Run
	switch d := ev.Data.(type) {
	case *runevent.RunStarted:
		e.replays = d.Replayed
		e.sendResponse("response.created")
		e.sendResponse("response.in_progress")
	case *runevent.TextDelta:
		e.delta("message", d.Text)
	case *runevent.ReasoningDelta:
		e.delta("reasoning", d.Text)
	case *runevent.ModelRetried, *runevent.ModelFellBack:
		e.close()
		e.shown = false
	case *runevent.MessageDone:
		e.messageDone(d.Message)
	case *runevent.Interrupted:
		e.ask(d.Question)
	case *runevent.AgentFinished:
		e.answer = d.FinishReason
	case *runevent.RunFinished:
		e.finish(ev.ForClient().Data.(*runevent.RunFinished))
	}
	return e.dst, e.err
}

// frame appends a frame with the members that follow type and sequence_number.
func (e *ResponseEncoder) frame(event string, members []byte) {
	if e.silent || e.seq < e.opts.From {
		e.seq++
		return
	}
	b := make([]byte, 0, len(event)+len(members)+48)
	b = append(append(append(b, `{"type":"`...), event...), `","sequence_number":`...)
	b = append(append(append(strconv.AppendInt(b, e.seq, 10), ','), members...), '}')
	e.seq++
	e.dst = append(e.dst, Frame{Event: event, Data: b})
}

// sendResponse appends a frame with the whole response.
func (e *ResponseEncoder) sendResponse(event string) {
	if e.silent {
		return
	}
	e.frame(event, append([]byte(`"response":`), e.encode(e.resp)...))
}

func (e *ResponseEncoder) encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		e.err = host.Errorf(host.Internal, "write a part of response %q: %w", e.resp.ID, err)
		return []byte("null")
	}
	return raw
}

// place appends the members that say which item, and which of its parts, a frame is of.
func (e *ResponseEncoder) place(part string) []byte {
	b := appendQuoted([]byte(`"item_id":`), e.open.ID)
	b = strconv.AppendInt(append(b, `,"output_index":`...), int64(len(e.resp.Output)), 10)
	if part != "" {
		b = append(append(append(b, `,"`...), part...), `":0`...)
	}
	return b
}

// item sends an item that begins, or is done.
func (e *ResponseEncoder) item(event string, item *outputItem) {
	if e.silent {
		return
	}
	b := strconv.AppendInt([]byte(`"output_index":`), int64(len(e.resp.Output)), 10)
	e.frame(event, append(append(b, `,"item":`...), e.encode(item)...))
}

// newItem begins an item.
func (e *ResponseEncoder) newItem(kind, prefix string) *outputItem {
	return &outputItem{Type: kind, ID: prefix + e.run + "_" + strconv.Itoa(len(e.resp.Output)), Status: "in_progress"}
}

// delta adds a piece of text to the message or the reasoning that is being written.
func (e *ResponseEncoder) delta(kind, text string) {
	if text == "" || e.opts.JSON && kind == "message" {
		return
	}
	if e.open != nil && e.open.Type != kind {
		e.close()
	}
	if e.open == nil {
		e.begin(kind)
	}
	e.text = append(e.text, text...)
	if e.shown = e.shown || kind == "message"; e.silent {
		return
	}
	event, part, rest := "response.output_text.delta", "content_index", `,"logprobs":[]`
	if kind == "reasoning" {
		event, part, rest = "response.reasoning_summary_text.delta", "summary_index", ""
	}
	b := appendQuoted(append(e.place(part), `,"delta":`...), text)
	e.frame(event, append(b, rest...))
}

// added sends the item that begins, with members that are still empty.
func (e *ResponseEncoder) added(members string) {
	if e.silent {
		return
	}
	b := strconv.AppendInt([]byte(`"output_index":`), int64(len(e.resp.Output)), 10)
	b = appendQuoted(append(b, `,"item":{"type":`...), e.open.Type)
	b = appendQuoted(append(b, `,"id":`...), e.open.ID)
	b = append(append(b, `,"status":"in_progress",`...), members...)
	e.frame("response.output_item.added", append(b, '}'))
}

func (e *ResponseEncoder) begin(kind string) {
	e.text = e.text[:0]
	if kind == "reasoning" {
		e.open = e.newItem("reasoning", "rs_")
		e.added(`"summary":[]`)
		if !e.silent {
			e.frame("response.reasoning_summary_part.added", append(e.place("summary_index"), `,"part":{"type":"summary_text","text":""}`...))
		}
		return
	}
	e.open = e.newItem("message", "msg_")
	e.open.Role = "assistant"
	e.added(`"role":"assistant","content":[]`)
	if !e.silent {
		e.frame("response.content_part.added", append(e.place("content_index"), `,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}`...))
	}
}

// close ends the item that is being written.
func (e *ResponseEncoder) close() {
	if e.open == nil {
		return
	}
	text := string(e.text)
	if e.open.Type == "reasoning" {
		e.open.Summary = []summaryText{{"summary_text", text}}
		if !e.silent {
			e.frame("response.reasoning_summary_text.done", appendQuoted(append(e.place("summary_index"), `,"text":`...), text))
			e.frame("response.reasoning_summary_part.done", append(append(e.place("summary_index"), `,"part":`...), e.encode(e.open.Summary[0])...))
		}
	} else {
		e.open.Content = []outputText{{"output_text", text, []json.RawMessage{}, []json.RawMessage{}}}
		if !e.silent {
			e.frame("response.output_text.done", append(appendQuoted(append(e.place("content_index"), `,"text":`...), text), `,"logprobs":[]`...))
			e.frame("response.content_part.done", append(append(e.place("content_index"), `,"part":`...), e.encode(e.open.Content[0])...))
		}
	}
	e.open.Status = "completed"
	e.done(e.open)
	e.open = nil
}

// done sends an item that is whole, and adds it to the output.
func (e *ResponseEncoder) done(item *outputItem) {
	e.item("response.output_item.done", item)
	e.resp.Output = append(e.resp.Output, item)
}

// messageDone ends an answer. What of it did not stream is sent now.
func (e *ResponseEncoder) messageDone(m *chat.Message) {
	if m.Role != chat.Assistant {
		return
	}
	if e.last = m.Text(); !e.shown {
		e.delta("message", e.last)
	}
	e.close()
	e.shown = false
}

// ask adds the question of a run: a call of the client's tools, or a message.
func (e *ResponseEncoder) ask(q *host.Question) {
	call, ok := callOf(e.run, q, e.opts.Approvals)
	if !ok {
		e.asks = append(e.asks, q)
		e.message(waitingText(e.run, q))
		return
	}
	e.close()
	e.calls++
	e.open = e.newItem("function_call", "fc_")
	e.open.CallID, e.open.Name = call.id, call.name
	var none string
	begun := *e.open
	begun.Arguments = &none
	e.item("response.output_item.added", &begun)
	if !e.silent {
		e.frame("response.function_call_arguments.delta", appendQuoted(append(e.place(""), `,"delta":`...), call.arguments))
		b := appendQuoted(append(e.place(""), `,"name":`...), call.name)
		e.frame("response.function_call_arguments.done", appendQuoted(append(b, `,"arguments":`...), call.arguments))
	}
	e.open.Arguments, e.open.Status = &call.arguments, "completed"
	e.done(e.open)
	e.open = nil
}

// message adds a message in one piece.
func (e *ResponseEncoder) message(text string) {
	e.close()
	structured := e.opts.JSON
	e.opts.JSON = false
	e.delta("message", text)
	e.close()
	e.opts.JSON, e.shown = structured, false
}

func (e *ResponseEncoder) finish(d *runevent.RunFinished) {
	e.close()
	r := e.resp
	r.Usage = newResponseUsage(d.Usage)
	r.AgentHost = &openAIRun{Run: e.run, Thread: d.Thread, Questions: e.asks, Replayed: e.replays}
	if d.Error == nil && e.opts.JSON && e.calls == 0 && len(e.asks) == 0 {
		e.message(e.last)
	}
	reason := openAIFinish(d.FinishReason, e.answer, e.calls)
	switch {
	case d.Error != nil && d.Error.Code == fault.Canceled:
		r.Status = "cancelled"
	case d.Error != nil:
		r.Status, r.Error = "failed", &responseError{NewOpenAIError(d.Error).Code, NewOpenAIError(d.Error).Message}
	case reason == "length":
		r.Status, r.IncompleteDetails = "incomplete", &incompleteDetails{"max_output_tokens"}
	case reason == "content_filter":
		r.Status, r.IncompleteDetails = "incomplete", &incompleteDetails{"content_filter"}
	default:
		r.Status = "completed"
	}
	if e.opts.Ended != nil {
		e.opts.Ended(r)
	}
	event := r.Status
	if event == "cancelled" {
		event = "failed" // the protocol has no event for it
	}
	e.sendResponse("response." + event)
}

func newResponseUsage(u chat.Usage) *responseUsage {
	o := &responseUsage{Input: u.InputTokens, Output: u.OutputTokens, Total: u.Total()}
	o.InputOf.Cached, o.OutputOf.Reasoning = u.CachedTokens, u.ReasoningTokens
	return o
}
