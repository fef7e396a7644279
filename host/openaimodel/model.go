package openaimodel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host"
)

// DefaultBaseURL is where requests go without [Options].BaseURL.
const DefaultBaseURL = "https://api.openai.com/v1"

// The defaults and bounds of asking.
const (
	// DefaultTimeout is how long a server may be silent: before the first byte
	// of its answer, and between two pieces of it.
	DefaultTimeout = 2 * time.Minute

	// DefaultMaxRetries is how often a failed request is sent again.
	DefaultMaxRetries = 3

	// MaxRetryAfter is the longest wait that a server's Retry-After may ask for.
	// One that asks for more gets no retry: the error tells the caller how long.
	MaxRetryAfter = time.Minute

	maxRetriesLimit = 10
	firstWait       = 500 * time.Millisecond
	longestWait     = 8 * time.Second
	waitGrowth      = 2
	waitJitter      = 0.5 // a wait is up to this part longer or shorter
	idlePerHost     = 64  // connections kept open; parallel agents ask one server
	idleConnections = 128
)

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

	// KeepRaw keeps what the server sent on ModelResponse.Raw: a JSON array of
	// its chunks (of one document, if it did not stream), cut at 1 MiB, in which
	// case the last element is {"left_out_bytes": n}.
	KeepRaw bool

	Logger *slog.Logger // nil discards
}

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name       string
	opts       Options
	client     *http.Client
	where      string // scheme and host, for people
	noUsageAsk atomic.Bool
}

var _ host.Model = (*Model)(nil)

// New returns a model; nothing is sent yet. The name goes to the server as it
// is. Code invalid_argument for a missing name or options that cannot work.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	m := &Model{name: model, opts: *opts}
	if model == "" {
		return nil, host.Errorf(host.InvalidArgument, "model has no name").WithHint("give the name that the server knows, as in gpt-4o-mini")
	}
	if err := m.setServer(); err != nil {
		return nil, err
	}
	if err := m.setLimits(); err != nil {
		return nil, err
	}
	m.opts.Headers = opts.Headers.Clone()
	if m.opts.Logger == nil {
		m.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if m.client = opts.HTTPClient; m.client == nil {
		m.client = &http.Client{Transport: newTransport(), CheckRedirect: sameHostOnly}
	}
	return m, nil
}

func (m *Model) setServer() error {
	if m.opts.BaseURL == "" {
		m.opts.BaseURL = DefaultBaseURL
	}
	m.opts.BaseURL = strings.TrimRight(m.opts.BaseURL, "/")
	u, err := url.Parse(m.opts.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return host.Errorf(host.InvalidArgument, "base URL of model %q is not an http or https address", m.name).
			WithHint("it looks like %s or http://localhost:11434/v1", DefaultBaseURL)
	}
	m.where = u.Scheme + "://" + u.Host
	m.opts.APIKey = strings.TrimSpace(m.opts.APIKey)
	if strings.ContainsFunc(m.opts.APIKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return host.Errorf(host.InvalidArgument, "API key of model %q has characters that no key has", m.name).
			WithHint("check how OPENAI_API_KEY was set")
	}
	return nil
}

func (m *Model) setLimits() error {
	switch {
	case m.opts.Timeout < 0:
		return host.Errorf(host.InvalidArgument, "timeout of model %q is %s", m.name, m.opts.Timeout).WithHint("leave it out for the default")
	case m.opts.Timeout == 0:
		m.opts.Timeout = DefaultTimeout
	}
	switch n := m.opts.MaxRetries; {
	case n > maxRetriesLimit:
		return host.Errorf(host.InvalidArgument, "retries of model %q are %d, more than %d", m.name, n, maxRetriesLimit)
	case n == 0:
		m.opts.MaxRetries = DefaultMaxRetries
	case n < 0:
		m.opts.MaxRetries = 0
	}
	return nil
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idlePerHost
	return t
}

// errRedirect is what the default client answers a redirect to another host.
var errRedirect = errors.New("redirects to another host")

func sameHostOnly(req *http.Request, via []*http.Request) error {
	from, to := via[0].URL, req.URL
	if to.Host != from.Host || from.Scheme == "https" && to.Scheme != "https" {
		return fmt.Errorf("%w, %s://%s", errRedirect, to.Scheme, to.Host)
	}
	if len(via) >= 5 {
		return errors.New("redirects too often")
	}
	return nil
}

// Name returns the model's name as given to [New].
func (m *Model) Name() string { return m.name }

// CloseIdleConnections closes the connections that no request is using. The
// model can be used again.
func (m *Model) CloseIdleConnections() { m.client.CloseIdleConnections() }

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
		c := &call{model: m, yield: yield}
		if err := c.run(ctx, req); err != nil && !c.left {
			yield(host.ModelChunk{}, err)
		}
	}
}

// call is one Generate: attempts until one succeeds or fails for good.
type call struct {
	model *Model
	yield func(host.ModelChunk, error) bool
	wire  openai.ChatCompletionRequest
	began bool // a piece of the answer has been passed on
	left  bool // the caller has left the loop
}

func (c *call) send(chunk host.ModelChunk) bool {
	if !c.left && !c.yield(chunk, nil) {
		c.left = true
	}
	return !c.left
}

func (c *call) run(ctx context.Context, req *host.ModelRequest) error {
	var err error
	if c.wire, err = c.model.request(req); err != nil {
		return err
	}
	waits := newWaits()
	for attempt := 1; ; attempt++ {
		f := c.try(ctx)
		if f == nil || c.left {
			return nil
		}
		if f.usageAsk && c.wire.StreamOptions != nil {
			c.forgetUsage()
			attempt--
			continue
		}
		if f.shapeAsk && c.wire.ResponseFormat != nil {
			c.wire.ResponseFormat = nil // whoever asks checks the answer anyway
			attempt--
			continue
		}
		if !c.retry(f, attempt) {
			return f.final(attempt)
		}
		c.model.opts.Logger.DebugContext(ctx, "ask model again", "model", c.model.name, "attempt", attempt, "err", f.err)
		if !c.send(host.ModelChunk{Retry: &host.RetryNotice{Attempt: attempt, Code: f.err.Code, Reason: f.err.Message}}) {
			return nil
		}
		if err := sleep(ctx, f.wait(waits)); err != nil {
			return c.model.ended(err)
		}
	}
}

// forgetUsage stops asking this server for usage: it refuses requests that do.
func (c *call) forgetUsage() {
	c.model.noUsageAsk.Store(true)
	c.wire.StreamOptions = nil
}

func (c *call) retry(f *fault, attempt int) bool {
	return f.again && !c.began && attempt <= c.model.opts.MaxRetries && f.after <= MaxRetryAfter
}

func newWaits() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: firstWait, MaxInterval: longestWait,
		Multiplier: waitGrowth, RandomizationFactor: waitJitter,
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try sends the request once and passes the answer on.
func (c *call) try(ctx context.Context) *fault {
	a := newAttempt(ctx, c.model)
	defer a.close()
	stream, err := a.open(c.wire)
	if err != nil {
		return a.fault(err)
	}
	defer stream.Close()
	got := answer{keepRaw: c.model.opts.KeepRaw}
	for {
		line, err := stream.RecvRaw()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.take(a, &got, line)
		}
		if c.left {
			return nil
		}
		if err != nil {
			if got.finish != "" && ctx.Err() == nil {
				break // all was said before the connection broke
			}
			return a.fault(err)
		}
	}
	if f := a.verdict(&got); f != nil {
		return f
	}
	a.drain()
	c.send(host.ModelChunk{Response: got.response(c.model.name)})
	return nil
}

// take reads one line of the stream and passes its deltas on.
func (c *call) take(a *attempt, got *answer, line []byte) error {
	deltas, err := got.add(line)
	switch {
	case err != nil:
		return a.lineFault(line, err)
	case got.fault != nil:
		return c.model.wireFault(got.fault)
	}
	for _, d := range deltas {
		c.began = true
		if !c.send(d) {
			return nil
		}
	}
	if got.finish != "" {
		a.watch.hurry(finishGrace)
	}
	return nil
}

// base returns the base URL without what may be secret in it.
func (m *Model) base() string {
	u, err := url.Parse(m.opts.BaseURL)
	if err != nil {
		return m.where
	}
	return m.where + u.Path
}

// secrets are what must not appear in an error.
func (m *Model) secrets() []string {
	s := []string{m.opts.APIKey}
	for _, values := range m.opts.Headers {
		s = append(s, values...)
	}
	if u, err := url.Parse(m.opts.BaseURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		s = append(s, password)
	}
	return slices.DeleteFunc(s, func(v string) bool { return len(v) < minSecret })
}

// minSecret is the length from which a header's value may be a secret; shorter
// ones would turn ordinary words into holes.
const minSecret = 6

func (m *Model) redact(s string) string {
	for _, secret := range m.secrets() {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}
