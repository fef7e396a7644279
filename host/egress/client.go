package egress

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/defaults"
)

// The defaults of [Options] and [Limits].
const (
	DefaultTimeout           = 30 * time.Second
	DefaultConnectTimeout    = 5 * time.Second
	DefaultIdleTimeout       = 30 * time.Second
	DefaultRequestBytes      = 1 << 20
	DefaultResponseBytes     = 4 << 20
	DefaultRedirects         = 5
	DefaultHeaderBytes       = 64 << 10
	DefaultInFlight          = 256
	DefaultInFlightPerTenant = 32
	DefaultPools             = 256
	DefaultIdlePerPool       = 4
)

// Options is how a [Client] is made; the zero value is right, and a zero field is
// its default.
type Options struct {
	// Secrets knows the values of secrets; without it none can be sent.
	Secrets Secrets
	// Resolver looks up hosts; the default is the system's.
	Resolver Resolver
	// RootCAs are the authorities that servers' certificates are verified by; the
	// default is the system's.
	RootCAs *x509.CertPool

	ConnectTimeout    time.Duration // of one address, and of the TLS handshake (5 s)
	IdleTimeout       time.Duration // how long a connection is kept (30 s)
	HeaderBytes       int           // of a request, and of a response with its 1xx ones (64 KiB)
	InFlight          int           // requests at one time (256)
	InFlightPerTenant int           // and of one tenant (32)
	Pools             int           // tenants and plugins whose connections are kept (256)
	IdlePerPool       int           // connections kept for each (4)

	own func(netip.Addr) bool // tests replace it
}

func (o Options) withDefaults() Options {
	defaults.Set(&o.ConnectTimeout, DefaultConnectTimeout)
	defaults.Set(&o.IdleTimeout, DefaultIdleTimeout)
	defaults.Set(&o.HeaderBytes, DefaultHeaderBytes)
	defaults.Set(&o.InFlight, DefaultInFlight)
	defaults.Set(&o.InFlightPerTenant, DefaultInFlightPerTenant)
	defaults.Set(&o.Pools, DefaultPools)
	defaults.Set(&o.IdlePerPool, DefaultIdlePerPool)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.own == nil {
		o.own = ownAddress
	}
	return o
}

// Limits bounds one request. A zero field is its default; nothing is unlimited.
type Limits struct {
	Timeout       time.Duration // everything: lookup, redirects, the last byte of the body (30 s)
	RequestBytes  int           // the body sent (1 MiB)
	ResponseBytes int           // the body after decompression (4 MiB)
	Redirects     int           // followed; negative: none, the 3xx response is the response (5)
}

func (l Limits) withDefaults() Limits {
	defaults.Set(&l.Timeout, DefaultTimeout)
	defaults.Set(&l.RequestBytes, DefaultRequestBytes)
	defaults.Set(&l.ResponseBytes, DefaultResponseBytes)
	if l.Redirects == 0 {
		l.Redirects = DefaultRedirects
	}
	return l
}

// Header is one header field of a request or a response. In a request the value
// is either Value, or Prefix and the secret named Secret, which the host fills
// in.
type Header struct {
	Name   string
	Value  string
	Prefix string
	Secret string
}

// Request is a request to fetch, with its tenant and its policy.
type Request struct {
	Tenant string  // whose secrets, connections and share of requests
	Plugin string  // the registration that asks; connections are its own
	Policy *Policy // nil allows nothing

	Method  string // default GET
	URL     string
	Headers []Header
	Body    []byte // read until Fetch returns

	Limits Limits
}

// Response is the answer of the last server in a chain of redirects.
type Response struct {
	Status    int
	Headers   []Header // names in lower case, sorted; several of one name in the server's order
	Body      []byte   // decompressed if it came as gzip
	URL       string   // that answered, after redirects
	Redirects int      // followed
	Secrets   bool     // it was searched for the secrets of the policy
}

// Client sends requests. Any number of goroutines may use one.
type Client struct {
	opts  Options
	pools *pools
}

// New returns a client. Close it when it is no longer needed.
func New(o *Options) *Client {
	if o == nil {
		o = &Options{}
	}
	opts := o.withDefaults()
	return &Client{opts: opts, pools: newPools(opts)}
}

// Close closes the idle connections, and refuses further requests with code
// failed_precondition. Requests in flight continue. It may be called twice.
func (c *Client) Close() error {
	c.pools.close()
	return nil
}

// Fetch sends a request and reads the whole response. A status of 400 or more is
// a response, not an error. It returns at the latest when the deadline of ctx or
// the limit Timeout has passed, regardless of the server. Errors:
//
//   - invalid_argument: the method, URL, header or body can't be sent;
//   - permission_denied: the request, or the target of a redirect, is not
//     granted; the message names the missing grant, and an [*AddressError] in
//     the chain the address for the operator's eyes;
//   - unavailable: the host is unknown, does not answer, or not in HTTP;
//   - resource_exhausted: a limit, which it names;
//   - deadline_exceeded, canceled: time ran out, the caller gave up.
//
// No error and nothing in a response contains a secret, as far as that can be
// recognised; see [Redactor].
func (c *Client) Fetch(ctx context.Context, r *Request) (*Response, error) {
	f, err := c.prepare(r)
	if err != nil {
		return nil, err
	}
	if err := c.pools.acquire(r.Tenant); err != nil {
		return nil, err
	}
	defer c.pools.release(r.Tenant)
	ctx, cancel := context.WithTimeoutCause(ctx, f.limits.Timeout,
		fault.Errorf(fault.DeadlineExceeded, "the request took longer than the limit Timeout of %s", f.limits.Timeout))
	defer cancel()
	resp, err := f.follow(ctx)
	if err != nil {
		return nil, f.redactError(f.translate(ctx, err))
	}
	return resp, nil
}

// fetch is one request on its way through its redirects.
type fetch struct {
	client   *Client
	req      *Request
	limits   Limits
	target   *target
	method   string
	headers  []Header
	body     []byte
	redactor Redactor // of every secret sent so far
}

func (c *Client) prepare(r *Request) (*fetch, error) {
	f := &fetch{client: c, req: r, limits: r.Limits.withDefaults(), method: r.Method, headers: r.Headers, body: r.Body}
	if f.method == "" {
		f.method = http.MethodGet
	}
	if err := checkMethod(f.method); err != nil {
		return nil, err
	}
	if len(f.body) > f.limits.RequestBytes {
		return nil, fault.Errorf(fault.ResourceExhausted, "the body has %d bytes, more than the limit RequestBytes of %d", len(f.body), f.limits.RequestBytes)
	}
	if err := checkHeaders(f.headers, c.opts.HeaderBytes); err != nil {
		return nil, err
	}
	var err error
	f.target, err = parseTarget(r.URL)
	return f, err
}

// follow sends the request, and sends it on as redirects say.
func (f *fetch) follow(ctx context.Context) (*Response, error) {
	for redirects := 0; ; redirects++ {
		resp, err := f.send(ctx)
		if err != nil {
			return nil, err
		}
		location, ok := redirectOf(resp)
		if !ok || f.limits.Redirects < 0 {
			return f.read(ctx, resp, redirects)
		}
		drain(resp.Body)
		if redirects >= f.limits.Redirects {
			return nil, fault.Errorf(fault.ResourceExhausted, "%s redirects more often than the limit Redirects of %d",
				f.target.origin(), f.limits.Redirects)
		}
		if err := f.redirect(resp.StatusCode, location); err != nil {
			return nil, err
		}
	}
}

// send checks the policy and makes one round trip.
func (f *fetch) send(ctx context.Context) (*http.Response, error) {
	granted, err := f.req.Policy.allow(f.target, f.method)
	if err != nil {
		return nil, err
	}
	header, err := f.fill(ctx)
	if err != nil {
		return nil, err
	}
	req := &http.Request{
		Method: f.method, URL: f.target.url, Host: f.target.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(f.body)),
	}
	if len(f.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(f.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.body)), nil }
	} else if f.method != http.MethodGet && f.method != http.MethodHead {
		req.Body = http.NoBody
	}
	resp, err := f.client.pools.get(f.req.Tenant, f.req.Plugin, granted).RoundTrip(req.WithContext(ctx))
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close() // from here on no deadline would reach its reader
		return nil, fault.Errorf(fault.Unavailable, "%s switches to a protocol that was not asked for", f.target.origin())
	}
	return resp, err
}

// translate makes an error of the transport one of ours. Its text is not passed
// on where it may hold addresses.
func (f *fetch) translate(ctx context.Context, err error) error {
	var own *fault.Error
	switch {
	case errors.As(err, &own):
		return own
	case ctx.Err() != nil:
		cause := fault.ContextError(ctx)
		return fault.Errorf(fault.CodeOf(cause), "the request to %s was stopped: %w", f.target.origin(), cause)
	case isTimeout(err):
		return fault.Errorf(fault.Unavailable, "%s does not answer in time", f.target.origin())
	}
	return fault.Errorf(fault.Unavailable, "%s: %s", f.target.origin(), reason(err))
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
