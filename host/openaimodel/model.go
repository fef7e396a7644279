package openaimodel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// DefaultBaseURL is where requests go without [Options].BaseURL.
const DefaultBaseURL = "https://api.openai.com/v1"

// The defaults and bounds of asking.
const (
	// DefaultTimeout is how long a server may be silent: before the first byte
	// of its answer, and between two pieces of it.
	DefaultTimeout = modelhttp.DefaultTimeout

	// DefaultMaxRetries is how often a failed request is sent again.
	DefaultMaxRetries = modelhttp.DefaultMaxRetries

	// MaxRetryAfter is the longest wait that a server's Retry-After may ask for.
	// One that asks for more gets no retry: the error tells the caller how long.
	MaxRetryAfter = modelhttp.MaxRetryAfter
)

var protocol = modelhttp.Protocol{
	BaseURL: DefaultBaseURL, OtherURL: "http://localhost:11434/v1", KeyVariable: "OPENAI_API_KEY",
	BaseHint: "an OpenAI-compatible server; it usually ends in /v1", ModelsPath: "/models", Answer: "a chat completion",
}

// Options are the optional parts of a model.
type Options struct {
	// BaseURL is the server's address up to, and without, /chat/completions.
	// Default: [DefaultBaseURL].
	BaseURL string

	// APIKey is sent as a bearer token; "" sends none. It never appears in an
	// error or a log.
	APIKey string

	// Headers are sent with every request, for gateways that want their own.
	Headers http.Header

	// HTTPClient sends the requests. The default keeps connections open, follows
	// the proxy variables of the environment and does not follow a redirect to
	// another host, which would carry the conversation there. Do not set its
	// Timeout: it would cut long answers.
	HTTPClient *http.Client

	// MaxRetries is how often a failed request is sent again: 0 is
	// [DefaultMaxRetries], negative is never, at most 10.
	MaxRetries int

	// Timeout is how long the server may be silent. 0 is [DefaultTimeout]; give
	// models that think before they stream more.
	Timeout time.Duration

	// Reasoning says whether the model is sent what it thought before.
	Reasoning ReasoningUse

	// Effort is how hard a model that reasons should, in the server's words: such
	// as low, medium or high. "" leaves it to the server.
	Effort string

	// KeepRaw keeps what the server sent on ModelResponse.Raw: a JSON array of
	// its chunks (of one document, if it did not stream), cut at 1 MiB, in which
	// case the last element is {"left_out_bytes": n}.
	KeepRaw bool

	Logger *slog.Logger // nil discards
}

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name       string
	server     *modelhttp.Server
	keepRaw    bool
	reasoning  ReasoningUse
	effort     string
	headers    http.Header
	noUsageAsk atomic.Bool

	noReasoning atomic.Bool                 // the server has refused to be sent it
	envelopes   atomic.Pointer[[]*envelope] // the last first
}

var _ host.Model = (*Model)(nil)

// New returns a model; nothing is sent yet. The name goes to the server as it
// is. Code invalid_argument for a missing name or options that cannot work.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	server, err := modelhttp.New(model, protocol, modelhttp.Options{
		BaseURL: opts.BaseURL, Key: opts.APIKey, Headers: opts.Headers, HTTPClient: opts.HTTPClient,
		MaxRetries: opts.MaxRetries, Timeout: opts.Timeout, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	switch opts.Reasoning {
	case ReasoningAuto, ReasoningAlways, ReasoningNever:
	default:
		return nil, host.Errorf(host.InvalidArgument, "model %q has no use of reasoning %q", model, opts.Reasoning).
			WithHint("use always or never, or leave it out")
	}
	m := &Model{name: model, server: server, keepRaw: opts.KeepRaw, reasoning: opts.Reasoning, effort: opts.Effort, headers: http.Header{}}
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

// Generate streams the answer. See host.Model for the contract and the package
// documentation for what becomes of a server's oddities. Codes of its errors:
//
//	unauthenticated      no key, or a wrong one
//	permission_denied    the key may not do this
//	not_found            the server does not know the model, or the address
//	invalid_argument     the server does not take the request
//	resource_exhausted   too many requests (retryable), no credit, or a
//	                     conversation too long for the model
//	deadline_exceeded    silent for longer than Timeout, or ctx's deadline
//	canceled             ctx was cancelled
//	unavailable          down, overloaded, broken off, or not speaking the
//	                     protocol
func (m *Model) Generate(ctx context.Context, req *host.ModelRequest) iter.Seq2[host.ModelChunk, error] {
	return func(yield func(host.ModelChunk, error) bool) {
		q, err := m.question(req)
		if err != nil {
			yield(host.ModelChunk{}, err)
			return
		}
		m.server.Ask(ctx, yield, q.try)
	}
}

// question is one request, which attempts may make smaller.
type question struct {
	model    *Model
	req      *host.ModelRequest
	messages [][]byte
	thinks   bool // there is reasoning in the messages
	envelope *envelope
}

func (m *Model) question(req *host.ModelRequest) (*question, error) {
	if req.Conversation != "" {
		return nil, modelhttp.NoConversations(m.name)
	}
	q := &question{model: m, req: req}
	var err error
	if q.messages, q.thinks, err = m.messages(req); err != nil {
		return nil, err
	}
	q.envelope, err = m.envelope(req)
	return q, err
}

// try sends the request once. What a server refuses to know about it is left out
// from then on.
func (q *question) try(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	f := q.answer(c, x)
	switch {
	case f == nil:
	case q.envelope.askUsage && f.Says("stream_options", "include_usage"):
		q.model.noUsageAsk.Store(true)
		f.AtOnce = q.rewrite()
	case q.req.Output != nil && f.Says("response_format", "json_schema"):
		req := *q.req
		req.Output, q.req = nil, &req // whoever asks checks the answer anyway
		f.AtOnce = q.rewrite()
	case q.thinks && f.Says("reasoning"):
		q.model.noReasoning.Store(true)
		f.AtOnce = q.rewrite()
	}
	return f
}

// rewrite makes the envelope anew. It reports whether it could.
func (q *question) rewrite() bool {
	anew, err := q.model.question(q.req)
	if err == nil {
		*q = *anew
	}
	return err == nil
}

// answer sends the request and passes the answer on.
func (q *question) answer(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	m := q.model
	if err := x.Post(completionsPath, q.envelope.body(q.messages), m.headers); err != nil {
		return x.Fault(err)
	}
	got := answer{raw: modelhttp.Raw{Keep: m.keepRaw}}
	for !got.done {
		line, err := x.Events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = m.take(c, x, &got, line)
		}
		if c.Left() {
			return nil
		}
		if err != nil {
			if got.finish != "" && !x.Cancelled() {
				break // all was said before the connection broke
			}
			return x.Fault(err)
		}
	}
	if f := got.verdict(m.server, x); f != nil {
		return f
	}
	x.Drain()
	c.Send(host.ModelChunk{Response: got.response(m.name)})
	return nil
}

const completionsPath = "/chat/completions"

// doneMark is the last line of a stream.
var doneMark = []byte("[DONE]")

// take reads one line of the stream and passes its deltas on.
func (m *Model) take(c *modelhttp.Call, x *modelhttp.Exchange, got *answer, line []byte) error {
	if bytes.Equal(line, doneMark) {
		got.done = true
		return nil
	}
	deltas, err := got.add(line)
	switch {
	case err != nil:
		return x.LineFault(line, err)
	case got.fault != nil:
		return m.server.WireFault(got.fault)
	}
	for _, d := range deltas {
		if !c.Send(d) {
			return nil
		}
	}
	if got.finish != "" {
		x.Said()
	}
	return nil
}
