package responsesmodel

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// DefaultBaseURL is where requests go without [Options].BaseURL.
const DefaultBaseURL = "https://api.openai.com/v1"

// protocol is what all servers of this kind have in common.
func protocol() modelhttp.Protocol {
	return modelhttp.Protocol{
		BaseURL: DefaultBaseURL, OtherURL: "http://localhost:8000/v1", KeyVariable: "OPENAI_API_KEY",
		BaseHint: "a server of OpenAI's Responses API; it usually ends in /v1", ModelsPath: "/models",
		Answer: "a response of the Responses API",
	}
}

// Options are the optional parts of a model.
type Options struct {
	// BaseURL is the server's address up to, and without, /responses. Default:
	// [DefaultBaseURL].
	BaseURL string

	// APIKey is sent as a bearer token; "" sends none. It never appears in an
	// error or a log.
	APIKey string

	// Headers are sent with every request, for gateways that want their own.
	Headers http.Header

	// HTTPClient sends the requests. The default keeps connections open, follows
	// the proxy variables of the environment and does not follow a redirect to
	// another host. Do not set its Timeout: it would cut long answers.
	HTTPClient *http.Client

	// MaxRetries is how often a failed request is sent again: 0 is 3, negative is
	// never, at most 10.
	MaxRetries int

	// Timeout is how long the server may be silent. 0 is two minutes; models that
	// think hard may want more.
	Timeout time.Duration

	// Store has the service keep every answer, and with it the conversation: see
	// host.ModelResponse.Conversation. It is for agent threads, of which only what is
	// new is sent then. The conversation of a host.History is sent whole with each
	// request, for what it shows may change in ways that the service does not hear of.
	Store bool

	// Effort is how hard the model should reason, and Summary whether the service
	// tells what it thought, in the service's words: such as low, medium or high,
	// and auto. "" leaves it to the service, which tells nothing by default.
	Effort  string
	Summary string

	// KeepRaw keeps what the server sent on ModelResponse.Raw: a JSON array of
	// its events, cut at 1 MiB, in which case the last element is
	// {"left_out_bytes": n}.
	KeepRaw bool

	Logger *slog.Logger // nil discards
}

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name    string
	opts    Options
	server  *modelhttp.Server
	headers http.Header

	noEncrypted atomic.Bool // the server has refused to give encrypted reasoning
}

var _ host.Model = (*Model)(nil)

// New returns a model; nothing is sent yet. The name goes to the server as it
// is. Code invalid_argument for a missing name or options that cannot work.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	server, err := modelhttp.New(model, protocol(), modelhttp.Options{
		BaseURL: opts.BaseURL, Key: opts.APIKey, Headers: opts.Headers, HTTPClient: opts.HTTPClient,
		MaxRetries: opts.MaxRetries, Timeout: opts.Timeout, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	m := &Model{name: model, opts: *opts, server: server, headers: http.Header{}}
	if key := server.Key(); key != "" {
		m.headers.Set("Authorization", "Bearer "+key)
	}
	return m, nil
}

// Name returns the model's name as given to [New].
func (m *Model) Name() string { return m.name }

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

// Generate streams the answer. See host.Model for the contract and the package
// documentation for what becomes of a conversation. Codes of its errors:
//
//	unauthenticated      no key, or a wrong one
//	permission_denied    the key may not do this
//	not_found            the server does not know the model, the conversation or
//	                     the address
//	invalid_argument     the server does not take the request
//	resource_exhausted   too many requests (retryable), no credit, or a
//	                     conversation too long for the model
//	deadline_exceeded    silent for longer than Timeout, or ctx's deadline
//	canceled             ctx was cancelled
//	unavailable          down, overloaded, broken off, or not speaking the
//	                     protocol
func (m *Model) Generate(ctx context.Context, req *host.ModelRequest) iter.Seq2[host.ModelChunk, error] {
	return func(yield func(host.ModelChunk, error) bool) {
		q := &question{model: m, req: req}
		if err := q.write(); err != nil {
			yield(host.ModelChunk{}, err)
			return
		}
		m.server.Ask(ctx, yield, q.try)
	}
}

// question is one request, which attempts may make smaller.
type question struct {
	model     *Model
	req       *host.ModelRequest
	body      modelhttp.Body
	encrypted bool // it asks for encrypted reasoning
	bare      bool // what was thought before is left out
	noFormat  bool
}

// try sends the request once. What a server refuses to know about it is left out
// from then on.
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
	case q.req.Conversation != "" && (f.Err.Code == host.InvalidArgument || f.Err.Code == host.NotFound) && f.Mentions("previous_response", "previous response", "conversation"):
		f.Err.Code, f.Err.Hint = host.NotFound, "the service no longer has the conversation; send it whole, or begin a new one"
	case q.req.Output != nil && !q.noFormat && f.Says("text.format", "json_schema"):
		q.noFormat = true // whoever asks checks the answer anyway
		f.AtOnce = q.write() == nil
	}
	return f
}

const responsesPath = "/responses"

// answer sends the request and passes the answer on.
func (q *question) answer(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	m := q.model
	if err := x.Post(responsesPath, q.body, m.headers); err != nil {
		return x.Fault(err)
	}
	got := answer{raw: modelhttp.Raw{Keep: m.opts.KeepRaw}}
	for got.final == nil {
		event, err := x.Events.Next()
		if errors.Is(err, io.EOF) {
			return x.Ended()
		}
		if err == nil {
			err = m.take(c, x, &got, event)
		}
		if c.Left() {
			return nil
		}
		if err != nil {
			return x.Fault(err)
		}
	}
	if f := got.verdict(m.server); f != nil {
		return f
	}
	x.Drain()
	c.Send(host.ModelChunk{Response: got.response(m.name, m.opts.Store)})
	return nil
}

// take reads one event of the stream and passes its deltas on.
func (m *Model) take(c *modelhttp.Call, x *modelhttp.Exchange, got *answer, event []byte) error {
	deltas, err := got.add(event)
	switch {
	case err != nil:
		return x.LineFault(event, err)
	case got.fault != nil:
		return m.server.WireFault(got.fault)
	}
	for _, d := range deltas {
		if !c.Send(d) {
			return nil
		}
	}
	return nil
}
