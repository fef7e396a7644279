package openaimodel

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// request is a question in the protocol's words, without its messages: those are
// written by [Model.appendMessage], each once in its life.
func (m *Model) request(req *llm.Request) openai.ChatCompletionRequest {
	out := openai.ChatCompletionRequest{Model: m.name, Stream: !m.server.AnswersWhole(req), ReasoningEffort: m.effort}
	if out.Stream && !m.noUsageAsk.Load() {
		out.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	out.ResponseFormat = responseFormat(req.Output)
	if req.Temperature != nil {
		out.Temperature = temperature(*req.Temperature)
	}
	if reasons(m.name) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		//lint:ignore SA1019 it is all that servers other than OpenAI's are sure to know
		out.MaxTokens = req.MaxOutputTokens
	}
	if len(req.Tools)+len(req.ProviderToolsOf(provider)) > 0 {
		out.Tools, out.ToolChoice = tools(req.Tools), toolChoice(req.ToolChoice)
		if req.SerialTools && !oSeries(m.name) {
			out.ParallelToolCalls = false
		}
	}
	return out
}

func responseFormat(o *llm.OutputSpec) *openai.ChatCompletionResponseFormat {
	if o == nil {
		return nil
	}
	return &openai.ChatCompletionResponseFormat{
		Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: o.Name, Schema: o.Schema, Strict: o.Strict},
	}
}

// temperature keeps a zero: go-openai leaves a field out that is exactly zero,
// and the server would take its default.
func temperature(t float64) float32 {
	if t == 0 {
		return math.SmallestNonzeroFloat32
	}
	return float32(t)
}

// oSeries reports whether a name is of OpenAI's o-series, which refuses
// parallel_tool_calls.
func oSeries(model string) bool {
	return strings.HasPrefix(model, "o1") || strings.HasPrefix(model, "o3") || strings.HasPrefix(model, "o4")
}

// reasons reports whether a model refuses max_tokens and wants
// max_completion_tokens, which older servers do not know.
func reasons(model string) bool {
	return oSeries(model) || strings.HasPrefix(model, "gpt-5") || strings.HasPrefix(model, "gpt-6")
}

func tools(specs []llm.ToolSpec) []openai.Tool {
	out := make([]openai.Tool, len(specs))
	for i, s := range specs {
		out[i] = openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: s.Name, Description: s.Description, Parameters: modelhttp.ToolSchema(s),
		}}
	}
	return out
}

func toolChoice(c llm.ToolChoice) any {
	switch c {
	case "":
		return nil
	case llm.ToolChoiceAuto, llm.ToolChoiceNone:
		return string(c)
	case llm.ToolChoiceAny:
		return "required"
	}
	return openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: string(c)}}
}

// envelope is a request around its messages, as bytes. One is kept for the next
// requests that differ in nothing but their messages.
type envelope struct {
	of         llm.Request // without messages and scope; Tools is a copy
	askUsage   bool
	head, tail []byte
}

// maxEnvelopes is how many a model keeps: one for each agent that asks it.
const maxEnvelopes = 32

// envelope returns the request of req around its messages.
func (m *Model) envelope(req *llm.Request) (*envelope, error) {
	askUsage := !m.noUsageAsk.Load()
	for _, e := range m.kept() {
		if e.askUsage == askUsage && e.fits(req) {
			return e, nil
		}
	}
	parameters, err := modelhttp.OpenAICache(req.Parameters)
	if err != nil {
		return nil, err
	}
	e, err := newEnvelope(m.request(req), req.ProviderToolsOf(provider), parameters)
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "write request to model %q: %w", m.name, err)
	}
	e.of, e.askUsage = *req, askUsage
	e.of.Messages, e.of.Scope, e.of.Tools = nil, llm.Scope{}, slices.Clone(req.Tools)
	m.keep(e)
	return e, nil
}

func (m *Model) kept() []*envelope {
	if list := m.envelopes.Load(); list != nil {
		return *list
	}
	return nil
}

// keep makes e the first of the envelopes. Two at once may lose one of them,
// which is then made again.
func (m *Model) keep(e *envelope) {
	list := m.kept()
	list = append([]*envelope{e}, list[:min(len(list), maxEnvelopes-1)]...)
	m.envelopes.Store(&list)
}

// fits reports whether the envelope is that of req. Tools that an agent has
// given before are the same slices, which compare in no time.
func (e *envelope) fits(req *llm.Request) bool {
	o := &e.of
	return o.Whole == req.Whole && o.ToolChoice == req.ToolChoice && o.MaxOutputTokens == req.MaxOutputTokens && o.SerialTools == req.SerialTools &&
		sameNumber(o.Temperature, req.Temperature) && sameOutput(o.Output, req.Output) && slices.EqualFunc(o.Tools, req.Tools, sameTool) &&
		slices.EqualFunc(o.ProviderTools, req.ProviderTools, sameProviderTool) && maps.EqualFunc(o.Parameters, req.Parameters, sameJSON)
}

func sameJSON(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

func sameNumber(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

func sameOutput(a, b *llm.OutputSpec) bool {
	return a == b || a != nil && b != nil && a.Name == b.Name && a.Strict == b.Strict && bytes.Equal(a.Schema, b.Schema)
}

func sameTool(a, b llm.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
}

func sameProviderTool(a, b llm.ProviderTool) bool {
	return a.Provider == b.Provider && bytes.Equal(a.Declaration, b.Declaration)
}

// reserved are the members that agents' model parameters may not set: those that
// the host writes, those that decide the form of the answer, and the limit that the
// host counts with.
var reserved = []string{"model", "messages", "stream", "stream_options", "tools", "tool_choice", "functions", "function_call",
	"response_format", "n", "modalities", "max_tokens", "max_completion_tokens"}

var noMessages = []byte(`"messages":null`)

// provider is the name by which agents' provider tools are sent to servers of
// this protocol.
const provider = "openai"

// newEnvelope has go-openai judge and write a request, and cuts it where the
// messages belong. Declared tools go beside the others unchanged: go-openai has
// no type for them.
func newEnvelope(wire openai.ChatCompletionRequest, declared []json.RawMessage, parameters llm.Parameters) (*envelope, error) {
	if err := openai.NewReasoningValidator().Validate(wire); err != nil {
		return nil, err
	}
	own := wire.Tools
	if len(declared) > 0 {
		wire.Tools = nil
	}
	b, err := json.Marshal(wire)
	if err == nil && len(declared) > 0 {
		b, err = withTools(b, own, declared)
	}
	if err == nil {
		b, err = modelhttp.AddParameters(b, parameters, reserved...)
	}
	if err != nil {
		return nil, err
	}
	head, tail, _ := bytes.Cut(b, noMessages)
	e := &envelope{head: append(slices.Clip(head), `"messages":[`...), tail: append([]byte{']'}, tail...)}
	return e, nil
}

// withTools adds the list of tools to a request that has none.
func withTools(request []byte, own []openai.Tool, declared []json.RawMessage) ([]byte, error) {
	all := make([]any, 0, len(own)+len(declared))
	for i := range own {
		all = append(all, own[i])
	}
	for _, d := range declared {
		all = append(all, d)
	}
	list, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	request = append(bytes.TrimSuffix(request, []byte("}")), `,"tools":`...)
	return append(append(request, list...), '}'), nil
}

var comma = []byte{','}

// write writes the request: its messages within its envelope.
func (q *question) write() error {
	m, messages := q.model, q.req.Messages
	q.body = append(make(modelhttp.Body, 0, 2*len(messages)+1), q.envelope.head)
	last := lastUser(messages)
	var results []*chat.Message // with media, since the last message of another role
	for i, msg := range messages {
		if msg.Role == chat.ToolRole {
			if hasToolMedia(msg) {
				results = append(results, msg)
			}
		} else if err := q.addToolMedia(&results); err != nil {
			return err
		}
		b, err := msg.Encoded(q.encodingOf(i, last))
		if err != nil {
			return err
		}
		q.add(b)
	}
	if err := q.addToolMedia(&results); err != nil {
		return err
	}
	if len(q.body) == 1 {
		return m.server.NoContent()
	}
	q.body = append(q.body, q.envelope.tail)
	return nil
}

// encodingOf returns how message i is written; lastUser is the index of the user's last.
func (q *question) encodingOf(i, lastUser int) (form any, write func(*chat.Message) ([]byte, error)) {
	m, msg := q.model, q.req.Messages[i]
	as := &m.encodings.plain
	switch {
	case m.sendsReasoning(q.req.Messages, i, lastUser):
		as, q.thinks = &m.encodings.thoughts, true
	case hasVendorCall(msg):
		as = &m.encodings.own
	case q.noMedia && msg.Role == chat.ToolRole:
		as = &m.encodings.noMedia
	}
	return as.form, as.write
}

// add adds a message; servers refuse empty ones.
func (q *question) add(message []byte) {
	if len(message) == 0 {
		return
	}
	if len(q.body) > 1 {
		q.body = append(q.body, comma)
	}
	q.body = append(q.body, message)
}

// addToolMedia adds the media of results, and empties their list.
func (q *question) addToolMedia(results *[]*chat.Message) error {
	if len(*results) == 0 {
		return nil
	}
	b, err := q.model.toolMedia(*results, wireForm{noMedia: q.noMedia})
	q.hasMedia = q.hasMedia || len(b) > 0
	q.add(b)
	*results = nil
	return err
}

func hasToolMedia(msg *chat.Message) bool {
	return slices.ContainsFunc(msg.ToolResults(), func(r *chat.ToolResult) bool { return len(r.Media) > 0 })
}

// wireForm is the key of the encodings that messages cache. An encoding must
// depend only on the message and its wireForm.
type wireForm struct {
	model    string // calls of this model include their unknown members; "" for none
	thoughts bool   // the encoding includes the model's reasoning
	noMedia  bool   // sentences in the place of tools' media
}
