package modelhttp

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// The defaults and bounds of asking.
const (
	// DefaultTimeout is how long a server may be silent: before the first byte
	// of its answer, and between two pieces of it.
	DefaultTimeout = 2 * time.Minute

	// DefaultWholeTimeout is how long a server may take for an answer in one piece.
	DefaultWholeTimeout = 10 * time.Minute

	// DefaultMaxRetries is how often a failed request is sent again.
	DefaultMaxRetries = 3

	// MaxRetryAfter is the longest wait that a server's Retry-After may ask for.
	// One that asks for more gets no retry: the error tells the caller how long.
	MaxRetryAfter = time.Minute

	maxRetriesLimit = 10
	maxRedirects    = 5
	idleConnections = 1024 // kept open to the one server: as many as runs ask it at once
)

// Protocol describes the servers of one kind.
type Protocol struct {
	BaseURL     string // the default
	OtherURL    string // another one, for hints
	KeyVariable string // the environment variable that usually has the key
	KeyHeader   string // the header that carries the key
	KeyScheme   string // before the key in that header, such as "Bearer "
	BaseHint    string // the usual form of a base URL, for an error that shows one
	ModelsPath  string // of the list of a server's models, for hints
	Answer      string // the name of an answer, with its article
}

// Options are how to reach a server: the same for every kind of model. The zero
// Options are those of the protocol's own service, without a key.
type Options struct {
	// BaseURL is the server's address up to the paths of the protocol, without a slash
	// at its end. Default: the package's DefaultBaseURL.
	BaseURL string

	// APIKey is sent in the header of the protocol; "" sends none. It never appears in
	// an error or a log.
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

	// Whole has the model ask for an answer in one piece where the caller reads no
	// deltas ([llm.Request].Whole). Reading a stream takes most of the time of asking,
	// and a stream has more bytes. But the server is silent until such an answer is
	// complete, so a slow one is not told from a dead one before WholeTimeout, and of
	// one that is canceled nothing is known. Default: answers are always streamed.
	Whole bool

	// WholeTimeout takes the place of Timeout for an answer in one piece. 0 is
	// [DefaultWholeTimeout], or Timeout if that is longer.
	WholeTimeout time.Duration

	// KeepRaw keeps the server's events on ModelResponse.Raw: a JSON array (of one
	// document, if the server did not stream), cut at 1 MiB, in which case the last
	// element is {"left_out_bytes": n}.
	KeepRaw bool

	Logger *slog.Logger // nil discards
}

// Server is one model of one server. It is safe for concurrent use.
type Server struct {
	model    string
	protocol Protocol
	opts     Options
	client   *http.Client
	direct   *http.Transport // the client's, where nothing of the client is needed; or nil
	where    string          // scheme and host, for people
	url      *url.URL
}

// New returns a server; nothing is sent yet. Code invalid_argument for a missing
// model name, a base URL that is no http address, a key with characters that no key
// has, and numbers out of their range.
func New(model string, protocol Protocol, opts Options) (*Server, error) {
	s := &Server{model: model, protocol: protocol, opts: opts}
	if model == "" {
		return nil, fault.Errorf(fault.InvalidArgument, "model has no name").WithHint("give the name that the server knows")
	}
	if err := s.setServer(); err != nil {
		return nil, err
	}
	if err := s.setLimits(); err != nil {
		return nil, err
	}
	s.opts.Headers = opts.Headers.Clone()
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if s.client = opts.HTTPClient; s.client == nil {
		transport := newTransport()
		s.client = &http.Client{Transport: transport, CheckRedirect: sameHostOnly}
		if s.url.User == nil { // the client makes a header of it
			s.direct = transport
		}
	}
	return s, nil
}

func (s *Server) setServer() error {
	if s.opts.BaseURL == "" {
		s.opts.BaseURL = s.protocol.BaseURL
	}
	s.opts.BaseURL = strings.TrimRight(s.opts.BaseURL, "/")
	u, err := url.Parse(s.opts.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fault.Errorf(fault.InvalidArgument, "base URL of model %q is not an http or https address", s.model).
			WithHint("it looks like %s or %s", s.protocol.BaseURL, s.protocol.OtherURL)
	}
	s.where, s.url = u.Scheme+"://"+u.Host, u
	s.opts.APIKey = strings.TrimSpace(s.opts.APIKey)
	if strings.ContainsFunc(s.opts.APIKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fault.Errorf(fault.InvalidArgument, "API key of model %q has characters that no key has", s.model).
			WithHint("check how %s was set", s.protocol.KeyVariable)
	}
	return nil
}

func (s *Server) setLimits() error {
	switch {
	case s.opts.Timeout < 0:
		return fault.Errorf(fault.InvalidArgument, "timeout of model %q is %s", s.model, s.opts.Timeout).WithHint("leave it out for the default")
	case s.opts.Timeout == 0:
		s.opts.Timeout = DefaultTimeout
	}
	switch {
	case s.opts.WholeTimeout < 0:
		return fault.Errorf(fault.InvalidArgument, "timeout of model %q for whole answers is %s", s.model, s.opts.WholeTimeout).
			WithHint("leave it out for the default")
	case s.opts.WholeTimeout == 0:
		s.opts.WholeTimeout = max(DefaultWholeTimeout, s.opts.Timeout)
	}
	switch n := s.opts.MaxRetries; {
	case n > maxRetriesLimit:
		return fault.Errorf(fault.InvalidArgument, "retries of model %q are %d, more than %d", s.model, n, maxRetriesLimit)
	case n == 0:
		s.opts.MaxRetries = DefaultMaxRetries
	case n < 0:
		s.opts.MaxRetries = 0
	}
	return nil
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	t.ReadBufferSize, t.WriteBufferSize = readBuffer, readBuffer // larger bodies are written past it
	return t
}

// roundTrip sends a request. The default client is there for redirects alone, for which it
// copies the header and the address of each request: a tenth of the time that this package
// and net/http take for one. So its transport is asked first, and the client if the answer
// is a redirect; the server has then done nothing yet.
func (s *Server) roundTrip(req *http.Request) (*http.Response, error) {
	if s.direct == nil {
		return s.client.Do(req)
	}
	resp, err := s.direct.RoundTrip(req)
	if err != nil || resp.StatusCode < 300 || resp.StatusCode >= 400 || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	resp.Body.Close()
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return s.client.Do(again)
}

// errRedirect is the default client's error for a redirect to another host.
var errRedirect = errors.New("redirects to another host")

func sameHostOnly(req *http.Request, via []*http.Request) error {
	from, to := via[0].URL, req.URL
	if to.Host != from.Host || from.Scheme == "https" && to.Scheme != "https" {
		return fmt.Errorf("%w, %s://%s", errRedirect, to.Scheme, to.Host)
	}
	if len(via) >= maxRedirects {
		return errors.New("redirects too often")
	}
	return nil
}

// Model returns the model's name.
func (s *Server) Model() string { return s.model }

// BaseURL returns the address without a slash at its end. It may hold secrets.
func (s *Server) BaseURL() string { return s.opts.BaseURL }

// Header returns a header for requests, with the key if there is one.
func (s *Server) Header() http.Header {
	h := http.Header{}
	if key := s.opts.APIKey; key != "" {
		h.Set(s.protocol.KeyHeader, s.protocol.KeyScheme+key)
	}
	return h
}

// AnswersWhole reports whether the model asks for an answer in one piece.
func (s *Server) AnswersWhole(req *llm.Request) bool { return s.opts.Whole && req.Whole }

// Logger returns the logger, never nil.
func (s *Server) Logger() *slog.Logger { return s.opts.Logger }

// CloseIdleConnections closes the connections that no request is using.
func (s *Server) CloseIdleConnections() { s.client.CloseIdleConnections() }

// base returns the base URL without its possible secrets.
func (s *Server) base() string {
	u, err := url.Parse(s.opts.BaseURL)
	if err != nil {
		return s.where
	}
	return s.where + u.Path
}

// secrets are the texts that must not appear in an error.
func (s *Server) secrets() []string {
	list := []string{s.opts.APIKey}
	for _, values := range s.opts.Headers {
		list = append(list, values...)
		for _, v := range values { // a token without its scheme, as servers repeat it
			_, token, _ := strings.Cut(v, " ")
			list = append(list, strings.TrimSpace(token))
		}
	}
	if u, err := url.Parse(s.opts.BaseURL); err == nil {
		password, set := u.User.Password()
		if list = append(list, password); !set { // a token in the place of the name
			list = append(list, u.User.Username())
		}
		for pair := range strings.SplitSeq(u.RawQuery, "&") { // gateways take keys there
			_, raw, _ := strings.Cut(pair, "=")
			plain, _ := url.QueryUnescape(raw)
			list = append(list, raw, plain)
		}
	}
	return slices.DeleteFunc(list, func(v string) bool { return len(v) < minSecret })
}

// minSecret is the length from which a header's value may be a secret; shorter
// ones would turn ordinary words into holes.
const minSecret = 6

func (s *Server) redact(text string) string {
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return text
}

// maxSeen bounds the part of an answer that an error shows.
const maxSeen = 200

// beginning is as much of an answer as is read for an error. It ends before a word
// that is cut, which may be half a key, unless the words are so long that an error
// shows none of their ends.
func beginning(b []byte) []byte {
	if len(b) <= maxErrorBytes {
		return b
	}
	b = b[:maxErrorBytes]
	if end := bytes.LastIndexAny(b, " \t\r\n"); end > maxErrorBytes/2 {
		return b[:end]
	}
	return b
}

// snippet is the beginning of an answer, on one line.
func (s *Server) snippet(b []byte) string {
	text := string(beginning(b))
	text = strings.Join(strings.Fields(strings.ToValidUTF8(s.redact(text), "\ufffd")), " ")
	if len(text) > maxSeen {
		text = strings.ToValidUTF8(text[:maxSeen], "") + "…"
	}
	return text
}
