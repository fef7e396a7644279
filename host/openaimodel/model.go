package openaimodel

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// DefaultBaseURL is where requests go without [Options].BaseURL.
const DefaultBaseURL = "https://api.openai.com/v1"

var protocol = modelhttp.Protocol{
	BaseURL: DefaultBaseURL, OtherURL: "http://localhost:11434/v1", KeyVariable: "OPENAI_API_KEY",
	KeyHeader: "Authorization", KeyScheme: "Bearer ",
	BaseHint: "an OpenAI-compatible server; it usually ends in /v1", ModelsPath: "/models", Answer: "a chat completion",
}

// Options are the optional parts of a model.
type Options struct {
	Server modelhttp.Options // how to reach the server

	// Reasoning says whether the model receives its earlier reasoning.
	Reasoning ReasoningUse

	// Effort is how hard a model that reasons should, in the server's words: such
	// as low, medium or high. "" leaves it to the server.
	Effort string
}

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name       string
	server     *modelhttp.Server
	reasoning  ReasoningUse
	effort     string
	headers    http.Header
	encodings  encodings
	noUsageAsk atomic.Bool

	noToolMedia atomic.Bool                 // the server has refused to be sent it
	noReasoning atomic.Bool                 // the server has refused to be sent it
	envelopes   atomic.Pointer[[]*envelope] // the last first
}

var _ llm.Model = (*Model)(nil)

// New returns a model; nothing is sent yet. The name goes to the server
// unchanged. Code invalid_argument for a missing name or options that cannot
// work.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	server, err := modelhttp.New(model, protocol, opts.Server)
	if err != nil {
		return nil, err
	}
	switch opts.Reasoning {
	case ReasoningAuto, ReasoningAlways, ReasoningNever:
	default:
		return nil, fault.Errorf(fault.InvalidArgument, "model %q has no use of reasoning %q", model, opts.Reasoning).
			WithHint("use always or never, or leave it out")
	}
	m := &Model{name: model, server: server, reasoning: opts.Reasoning, effort: opts.Effort, headers: server.Header()}
	m.encodings = m.newEncodings()
	return m, nil
}

// Name returns the model's name as given to [New].
func (m *Model) Name() string { return m.name }

// Provider implements [llm.Provided]: whose protocol the model's server speaks.
func (m *Model) Provider() string { return "openai" }

// CloseIdleConnections closes the connections that no request is using. The
// model can be used again.
func (m *Model) CloseIdleConnections() { m.server.CloseIdleConnections() }

// Generate streams the answer. See llm.Model for the contract and the package
// documentation for the peculiarities of servers. The codes of its errors are those
// of [modelhttp.Server.Ask].
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		q, err := m.question(req, m.noToolMedia.Load())
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		m.server.Ask(ctx, yield, q.try)
	}
}

// question is one request, which attempts may make smaller.
type question struct {
	model    *Model
	req      *llm.Request
	body     modelhttp.Body
	thinks   bool // there is reasoning in the messages
	hasMedia bool // there is media of tools in them
	noMedia  bool // there is a sentence in its place
	envelope *envelope
}

func (m *Model) question(req *llm.Request, noMedia bool) (*question, error) {
	if req.Conversation != "" {
		return nil, modelhttp.NoConversations(m.name)
	}
	q := &question{model: m, req: req, noMedia: noMedia}
	var err error
	if q.envelope, err = m.envelope(req); err != nil {
		return nil, err
	}
	return q, q.write()
}

// try sends the request once. A member that the server refuses is left out from
// then on.
func (q *question) try(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	f := q.answer(c, x)
	switch {
	case f == nil:
	case q.envelope.askUsage && f.Says("stream_options", "include_usage"):
		q.model.noUsageAsk.Store(true)
		f.AtOnce = q.rewrite()
	case q.req.Output != nil && f.Says("response_format", "json_schema"):
		req := *q.req
		req.Output, q.req = nil, &req // the caller checks the answer anyway
		f.AtOnce = q.rewrite()
	case q.thinks && f.Says("reasoning"):
		q.model.noReasoning.Store(true)
		f.AtOnce = q.rewrite()
	case q.hasMedia && !q.noMedia && f.AboutMedia():
		if q.noMedia = true; f.Says("support", "not a multimodal") { // of the model, not of this image
			q.model.noToolMedia.Store(true)
		}
		f.AtOnce = q.rewrite()
	}
	return f
}

// rewrite makes the request again. It reports whether that succeeded.
func (q *question) rewrite() bool {
	anew, err := q.model.question(q.req, q.noMedia)
	if err == nil {
		*q = *anew
	}
	return err == nil
}
