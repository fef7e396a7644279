package responsesmodel

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// DefaultBaseURL is where requests go without [Options].BaseURL.
const DefaultBaseURL = "https://api.openai.com/v1"

// protocol is the common part of all servers of this kind.
func protocol() modelhttp.Protocol {
	return modelhttp.Protocol{
		BaseURL: DefaultBaseURL, OtherURL: "http://localhost:8000/v1", KeyVariable: "OPENAI_API_KEY",
		KeyHeader: "Authorization", KeyScheme: "Bearer ",
		BaseHint: "a server of OpenAI's Responses API; it usually ends in /v1", ModelsPath: "/models",
		Answer: "a response of the Responses API",
	}
}

// Options are the optional parts of a model.
type Options struct {
	Server modelhttp.Options // how to reach the server

	// Store has the service keep every answer, and with it the conversation: see
	// llm.Response.Conversation. It is for agent threads, which then send only
	// the new messages. The conversation of a host.History is sent whole with each
	// request, because its view may change without a request to the service.
	Store bool

	// Effort is how hard the model should reason, and Summary whether the service
	// summarizes the reasoning, in the service's words: such as low, medium or
	// high, and auto. "" leaves it to the service, which sends no summary by
	// default.
	Effort  string
	Summary string
}

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name    string
	opts    Options
	server  *modelhttp.Server
	headers http.Header

	noEncrypted atomic.Bool // the server has refused to give encrypted reasoning
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
	return m, nil
}

// Name returns the model's name as given to [New].
func (m *Model) Name() string { return m.name }

// Provider implements [llm.Provided]: whose protocol the model's server speaks.
func (m *Model) Provider() string { return "openai" }

// CloseIdleConnections closes the connections that no request is using. The
// model can be used again.
func (m *Model) CloseIdleConnections() { m.server.CloseIdleConnections() }

// reasons reports whether the model is one that reasons, by its name or because
// it is asked to.
func (m *Model) reasons() bool {
	if m.opts.Effort != "" || m.opts.Summary != "" {
		return true
	}
	for _, prefix := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6", "gpt-oss", "codex"} {
		if strings.HasPrefix(m.name, prefix) {
			return true
		}
	}
	return false
}

// Generate streams the answer, or asks for it in one piece where the request and
// [modelhttp.Options].Whole allow that. See llm.Model for the contract and the package
// documentation for the form of a conversation. The codes of its errors are
// those of [modelhttp.Server.Ask].
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		q := &question{model: m, req: req}
		if err := q.write(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		m.server.Ask(ctx, yield, q.try)
	}
}

// question is one request, which attempts may make smaller.
type question struct {
	model     *Model
	req       *llm.Request
	body      modelhttp.Body
	encrypted bool // it asks for encrypted reasoning
	bare      bool // earlier reasoning is left out
	noFormat  bool
	noMedia   bool // tools' media is left out
}

// try sends the request once. A member that the server refuses is left out from
// then on.
func (q *question) try(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	f := q.answer(c, x)
	switch {
	case f == nil:
	case !q.bare && f.Says("invalid_encrypted_content", "could not be verified", "could not be decrypted"):
		q.bare = true // it was encrypted for another account
		f.AtOnce = q.write() == nil
	case q.encrypted && f.Says("encrypted content", "encrypted_content"):
		q.model.noEncrypted.Store(true)
		f.AtOnce = q.write() == nil
	case q.req.Conversation != "" && (f.Err.Code == fault.InvalidArgument || f.Err.Code == fault.NotFound) && f.Mentions("previous_response", "previous response", "conversation"):
		f.Err.Code, f.Err.Hint = fault.NotFound, "the service no longer has the conversation; send it whole, or begin a new one"
	case q.req.Output != nil && !q.noFormat && f.Says("text.format", "json_schema"):
		q.noFormat = true // the caller checks the answer anyway
		f.AtOnce = q.write() == nil
	case !q.noMedia && f.AboutMedia() && modelhttp.HasToolMedia(q.req):
		q.noMedia = true
		f.AtOnce = q.write() == nil
	}
	return f
}

const responsesPath = "/responses"

// answer sends the request and passes the answer on.
func (q *question) answer(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	m := q.model
	if m.server.AnswersWhole(q.req) {
		x.ExpectWhole()
	}
	return x.Relay(c, responsesPath, q.body, m.headers, &answer{stored: m.opts.Store})
}
