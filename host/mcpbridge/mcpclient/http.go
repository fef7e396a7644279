package mcpclient

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of the HTTP of one session.
const (
	maxResponseHeader = 64 << 10
	dialWait          = 5 * time.Second
	idleConn          = 30 * time.Second
	maxConns          = 32
	maxGetBurst       = 8 // streams that may be opened at once; then one a second
	getInterval       = time.Second
)

// httpSession is the HTTP client of one session: it sends the server's headers to its origin
// and nothing anywhere else, follows no redirects, and bounds all that it reads.
type httpSession struct {
	origin   *url.URL
	headers  http.Header
	limits   *Limits
	reading  *readLimiter
	inner    *http.Transport
	interval time.Duration

	mu   sync.Mutex
	gets int       // of the burst
	last time.Time // when gets was last reduced
}

func newHTTPSession(s *Server, headers http.Header, limits *Limits, reading *readLimiter) *httpSession {
	origin, _ := url.Parse(s.URL) // it was checked
	dialer := &net.Dialer{Timeout: dialWait}
	if s.PublicOnly {
		dialer.Control = onlyPublic
	}
	inner := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialWait, IdleConnTimeout: idleConn, MaxConnsPerHost: maxConns,
		MaxResponseHeaderBytes: maxResponseHeader, DisableCompression: true, ForceAttemptHTTP2: true,
	}
	if !s.PublicOnly {
		inner.Proxy = http.ProxyFromEnvironment
	}
	return &httpSession{origin: origin, headers: headers, limits: limits, reading: reading, inner: inner, interval: getInterval}
}

// client returns the client for the transport of the protocol.
func (h *httpSession) client() *http.Client {
	return &http.Client{Transport: h, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (h *httpSession) close() { h.inner.CloseIdleConnections() }

// onlyPublic refuses an address that is not of the public internet, when it is about to be
// dialed.
func onlyPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fault.Errorf(fault.PermissionDenied, "the address of the MCP server cannot be read")
	}
	if kind := egress.Classify(at.Addr()); kind != egress.Public {
		return fault.Errorf(fault.PermissionDenied, "the MCP server has an address that is not of the public internet")
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (h *httpSession) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != h.origin.Scheme || req.URL.Host != h.origin.Host {
		return nil, fault.Errorf(fault.PermissionDenied, "the MCP server names another origin, which gets no request")
	}
	if req.Method == http.MethodGet {
		if err := h.waitForGet(req.Context()); err != nil {
			return nil, err
		}
	}
	req = req.Clone(req.Context())
	for name, values := range h.headers {
		req.Header[name] = values
	}
	resp, err := h.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	most := h.limits.MessageBytes
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		most = h.limits.StreamBytes
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, ctx: req.Context(), left: most, reading: h.reading}
	return resp, nil
}

// waitForGet lets a burst of streams be opened, and then one in each interval: a server says
// how soon a broken one is opened again.
func (h *httpSession) waitForGet(ctx context.Context) error {
	h.mu.Lock()
	now := time.Now()
	if passed := int(now.Sub(h.last) / h.interval); passed > 0 {
		h.gets, h.last = max(0, h.gets-passed), now
	}
	h.gets++
	wait := time.Duration(max(0, h.gets-maxGetBurst)) * h.interval
	h.mu.Unlock()
	return sleep(ctx, wait)
}

// errTooLarge is the end of a body that passes its limit.
var errTooLarge = errors.New("the MCP server sends more than the limit")

// boundedBody is a body that fails past its limit, and is read no faster than its session
// may.
type boundedBody struct {
	io.ReadCloser
	ctx     context.Context // its lifetime is that of the request
	left    int
	reading *readLimiter
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	if wait := b.reading.take(n); wait > 0 && err == nil {
		err = sleep(b.ctx, wait)
	}
	return n, err
}

// readLimiter bounds how many bytes a session reads in a time: a burst, and then a rate. A server
// that sends without end is slowed down to it.
type readLimiter struct {
	mu    sync.Mutex
	owed  int // bytes read ahead of the rate
	since time.Time
}

// The rate of a session.
const (
	readBurst  = 64 << 20 // bytes
	readRate   = 8 << 20  // bytes a second
	maxOneWait = time.Second
)

// take counts bytes and returns how long to wait before the next.
func (l *readLimiter) take(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.since.IsZero() {
		l.owed = max(0, l.owed-int(now.Sub(l.since).Seconds()*readRate))
	}
	l.since = now
	l.owed += n
	if l.owed <= readBurst {
		return 0
	}
	return min(maxOneWait, time.Duration(float64(l.owed-readBurst)/readRate*float64(time.Second)))
}

// isQuietSince reports whether nothing was read since a time.
func (l *readLimiter) isQuietSince(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since.Before(at)
}

// sleep waits, at most as long as ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
