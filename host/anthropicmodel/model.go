package anthropicmodel

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

const (
	// DefaultBaseURL is where requests go without [Options].BaseURL.
	DefaultBaseURL = "https://api.anthropic.com"

	// APIVersion is the version of the API that is spoken.
	APIVersion = "2023-06-01"

	// DefaultMaxOutputTokens bounds an answer without another bound: the
	// protocol demands one.
	DefaultMaxOutputTokens = 8192

	// MinThinkingTokens is the least that the provider takes.
	MinThinkingTokens = 1024
)

// protocol is the common part of all servers of this kind.
func protocol() modelhttp.Protocol {
	return modelhttp.Protocol{
		BaseURL: DefaultBaseURL, OtherURL: "http://localhost:8080", KeyVariable: "ANTHROPIC_API_KEY",
		KeyHeader: "X-Api-Key",
		BaseHint:  "a server of Anthropic's Messages API; it is written without /v1", ModelsPath: "/v1/models",
		Answer: "a message of the Messages API",
	}
}

// Options are the optional parts of a model.
type Options struct {
	Server modelhttp.Options // how to reach the server

	// MaxOutputTokens bounds an answer where the agent does not. 0 is
	// [DefaultMaxOutputTokens].
	MaxOutputTokens int

	// ThinkingTokens lets the model think, with so many tokens at most, which come
	// on top of the answer's. 0 is not at all; at least [MinThinkingTokens]. The
	// provider takes no temperature then, which is left out, and does not let the
	// model think where it must call a tool or continue an answer: such a request
	// is made without thinking.
	ThinkingTokens int

	// Cache asks the provider to cache the prompt, with marks behind the tools, the
	// system prompt and the last message, which makes long conversations cheaper and
	// the first request a little dearer. An llm.PromptCache of a request says
	// otherwise for that request.
	Cache bool
}

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name   string
	opts   Options
	server *modelhttp.Server

	headers http.Header
	outputs outputs

	noOutputs atomic.Bool // the model takes no schema of its output
}

var _ llm.Model = (*Model)(nil)

// New returns a model; nothing is sent yet. The name goes to the server
// unchanged. Code invalid_argument for a missing name or options that cannot
// work.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	server, err := modelhttp.New(model, protocol(), opts.Server)
	if err != nil {
		return nil, err
	}
	m := &Model{name: model, opts: *opts, server: server, headers: server.Header()}
	m.headers.Set("Anthropic-Version", APIVersion)
	switch {
	case opts.MaxOutputTokens < 0:
		return nil, fault.Errorf(fault.InvalidArgument, "output tokens of model %q are %d", model, opts.MaxOutputTokens)
	case opts.MaxOutputTokens == 0:
		m.opts.MaxOutputTokens = DefaultMaxOutputTokens
	}
	if n := opts.ThinkingTokens; n != 0 && n < MinThinkingTokens {
		return nil, fault.Errorf(fault.InvalidArgument, "thinking tokens of model %q are %d", model, n).
			WithHint("the provider takes %d or more; leave it out for none", MinThinkingTokens)
	}
	return m, nil
}

// Name returns the model's name as given to [New].
func (m *Model) Name() string { return m.name }

// Provider implements [llm.Provided]: whose protocol the model's server speaks.
func (m *Model) Provider() string { return "anthropic" }

// CloseIdleConnections closes the connections that no request is using. The
// model can be used again.
func (m *Model) CloseIdleConnections() { m.server.CloseIdleConnections() }

// Generate streams the answer, or asks for it in one piece where the request and
// [modelhttp.Options].Whole allow that. See llm.Model for the contract and the package
// documentation for the form of a conversation. The codes of its errors are
// those of [modelhttp.Server.Ask].
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if req.Conversation != "" {
			yield(llm.Chunk{}, modelhttp.NoConversations(m.name))
			return
		}
		q := &question{model: m, req: req, hasMedia: modelhttp.HasToolMedia(req)}
		if err := q.write(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		m.server.Ask(ctx, yield, q.try)
	}
}

// question is one request, which attempts may change.
type question struct {
	model    *Model
	req      *llm.Request
	body     modelhttp.Body
	form     wireForm
	inWords  bool // the schema of the output stands in the system prompt
	hasMedia bool // a tool's result has
}

// try sends the request once. A part that the provider refuses is changed for the next
// attempt, which follows at once.
func (q *question) try(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	f := q.answer(c, x)
	switch {
	case f == nil:
	case !q.form.bare && f.Says("signature"):
		q.form.bare = true
		f.AtOnce = q.write() == nil
	case q.req.Output != nil && !q.inWords && f.Says(aboutOutputs...):
		q.refusedOutput(f)
		f.AtOnce = q.write() == nil
	case q.hasMedia && !q.form.noMedia && f.AboutMedia():
		q.form.noMedia = true
		f.AtOnce = q.write() == nil
	}
	return f
}

// The provider's words about the schema of an output, and those among them that mean the
// schema, not that the model takes none.
var (
	aboutOutputs = []string{"output_config", "output_format", "output format", "structured output", "grammar", "schema"}
	aboutSchemas = []string{"format.schema", "grammar"}
)

// refusedOutput has the schema of the output stand in words, and notes that for the next
// requests: the caller checks the answer anyway.
func (q *question) refusedOutput(f *modelhttp.Fault) {
	q.inWords = true
	switch {
	case f.Says(aboutSchemas...):
		q.model.outputs.refuse(q.req.Output.Schema)
	case f.Says("output"):
		q.model.noOutputs.Store(true)
	}
}

const messagesPath = "/v1/messages"

// answer sends the request and passes the answer on.
func (q *question) answer(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	m := q.model
	if m.server.AnswersWhole(q.req) {
		x.ExpectWhole()
	}
	return x.Relay(c, messagesPath, q.body, m.headers, &answer{})
}
