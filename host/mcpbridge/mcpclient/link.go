package mcpclient

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// The waits between attempts to open a session that failed.
const (
	minRetryWait = 500 * time.Millisecond
	maxRetryWait = time.Minute
)

// link is a tenant's way to a server: the session, while one is open, the definitions that
// were seen first, and the tools made of definitions.
type link struct {
	servers  *Servers
	server   *Server
	tenant   string // empty for a shared server
	ofTenant bool   // the server is the tenant's own

	mu      sync.Mutex
	closed  bool
	session *session      // nil while none is open
	opening chan struct{} // closed when an attempt to open one has ended; nil without
	fails   int           // attempts that failed in a row
	retryAt time.Time
	failure error     // of the last attempt
	used    time.Time // when a call last ended
	first   map[string]string
	tools   map[string]*host.Tool // by digest
}

func newLink(s *Servers, server *Server, tenant string, ofTenant bool) *link {
	return &link{servers: s, server: server, tenant: tenant, ofTenant: ofTenant, used: time.Now(), tools: map[string]*host.Tool{}}
}

// key is the name of the server in a lock.
func (l *link) key() string {
	if l.ofTenant {
		return l.tenant + "/" + l.server.Name
	}
	return l.server.Name
}

// open returns the open session, or opens one. It waits at most as long as ctx; the attempt
// serves all who wait for it.
func (l *link) open(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, errClosed()
		case l.session != nil && !l.session.hasEnded():
			s := l.session
			s.users.Add(1)
			l.mu.Unlock()
			return s, nil
		case l.opening == nil && time.Now().Before(l.retryAt):
			err := l.failure
			l.mu.Unlock()
			return nil, err
		case l.opening == nil:
			l.opening = make(chan struct{})
			l.servers.work.Go(l.connect)
		}
		opening := l.opening
		l.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, fault.ContextError(ctx)
		}
	}
}

// release ends the use of a session that open returned.
func (l *link) release(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.users.Add(-1)
	l.used = time.Now()
}

// connect opens a session, in the place of one that has ended.
func (l *link) connect() {
	ctx, cancel := context.WithTimeout(l.servers.lifetime, l.servers.limits.ConnectTimeout)
	defer cancel()
	l.mu.Lock()
	old := l.session
	l.session = nil
	l.mu.Unlock()
	if old != nil {
		old.close()
	}
	free, err := l.servers.takePlace()
	var s *session
	if err == nil {
		err = guarded(func() (err error) {
			s, err = openSession(ctx, l)
			return err
		})
		if err != nil {
			free()
		} else {
			s.free = free
		}
	}
	if err != nil && l.servers.lifetime.Err() == nil {
		l.servers.logger.WarnContext(ctx, "MCP server does not answer", "server", l.server.Name, "tenant", l.tenant, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.opening)
	l.opening = nil
	if err == nil && l.closed {
		l.servers.work.Go(s.close)
		return
	}
	if err != nil {
		l.fails++
		wait := min(maxRetryWait, minRetryWait<<min(l.fails-1, 10))
		wait = wait/2 + rand.N(wait/2+1) // so that links of one server do not try together
		l.retryAt, l.failure = time.Now().Add(wait), l.unreachable(err, wait)
		return
	}
	l.session, l.fails, l.failure, l.used = s, 0, nil, time.Now()
}

// unreachable is the error of calls while no session can be opened: the server's words stay
// in the host's log.
func (l *link) unreachable(cause error, wait time.Duration) error {
	if code := fault.CodeOf(cause); code == fault.ResourceExhausted || code == fault.PermissionDenied || code == fault.Unauthenticated || code == fault.NotFound {
		return fault.Withhold(fault.Wrap(cause, "MCP server %q", l.server.Name))
	}
	e := fault.Errorf(fault.Unavailable, "The MCP server %s cannot be reached.", l.server.Name)
	e.Err, e.RetryAfter = textOf(cause), wait
	return e
}

// serverText is the text of a cause that the operator reads. It is no error of a system call,
// of which a model would read general words.
type serverText struct{ text string }

func (e *serverText) Error() string { return e.text }

func textOf(err error) error { return &serverText{err.Error()} }

// forOperator returns an error of a server with its cause. Clients do not read it.
func forOperator(err error) error {
	var e *fault.Error
	var cause *serverText
	if !errors.As(err, &e) || !errors.As(err, &cause) {
		return err
	}
	return fault.Withhold(&fault.Error{Code: e.Code, Message: e.Message + " " + cause.text, Err: err, Retryable: e.Retryable, RetryAfter: e.RetryAfter})
}

// idleSince returns when the last call ended; false while one runs, or without a session.
func (l *link) idleSince() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil || l.session.users.Load() > 0 {
		return time.Time{}, false
	}
	return l.used, true
}

// drop closes a session, if it is still the link's. The next call opens another.
func (l *link) drop(s *session) {
	l.mu.Lock()
	if l.session != s {
		l.mu.Unlock()
		return
	}
	l.forget()
	l.mu.Unlock()
	s.close()
}

// dropIdle closes the session if no call has used it for a time, and reports whether it has.
func (l *link) dropIdle(since time.Duration) bool {
	l.mu.Lock()
	s := l.session
	if s == nil || s.users.Load() > 0 || time.Since(l.used) < since {
		l.mu.Unlock()
		return false
	}
	l.forget()
	l.mu.Unlock()
	s.close()
	return true
}

// forget has the link without a session. l.mu is held.
func (l *link) forget() {
	l.session = nil
	clear(l.tools)
}

// close closes the link; calls fail from then on.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	opening := l.opening
	l.mu.Unlock()
	if opening != nil {
		<-opening
	}
	l.mu.Lock()
	s := l.session
	l.forget()
	l.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// settings returns the values of headers or variables for the tenant.
func (l *link) settings(ctx context.Context, list []Setting) ([]egress.Header, error) {
	out := make([]egress.Header, 0, len(list))
	for _, v := range list {
		value := v.Value
		if v.Secret != "" {
			if l.servers.secrets == nil {
				return nil, fault.Errorf(fault.NotFound, "there is no secret %q", v.Secret).WithHint("the program gives MCP servers no secrets")
			}
			secret, err := l.servers.secrets.Secret(ctx, l.tenant, v.Secret)
			if err != nil {
				return nil, err
			}
			value = v.Prefix + secret.Reveal()
		}
		out = append(out, egress.Header{Name: v.Name, Value: value})
	}
	return out, nil
}

// headers returns the server's headers for the tenant.
func (l *link) headers(ctx context.Context) (http.Header, error) {
	list, err := l.settings(ctx, l.server.Headers)
	h := http.Header{}
	for _, v := range list {
		h.Add(v.Name, v.Value)
	}
	return h, err
}

// variables returns the server's variables for the tenant.
func (l *link) variables(ctx context.Context) ([]string, error) {
	list, err := l.settings(ctx, l.server.Env)
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.Name + "=" + v.Value
	}
	return out, err
}

// pinned returns the digests of the accepted definitions: those of the lock, or those that
// were seen first. locked says which.
func (l *link) pinned() (digests map[string]string, locked bool) {
	if defs := l.servers.lock.definitions(l.key()); defs != nil {
		digests = make(map[string]string, len(defs))
		for name, d := range defs {
			digests[name] = d.Digest()
		}
		return digests, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.first), false
}

// pin remembers the definitions that a server gave first.
func (l *link) pin(listed map[string]Definition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first != nil {
		return
	}
	l.first = make(map[string]string, len(listed))
	for name, d := range listed {
		l.first[name] = d.Digest()
	}
}

// repin has accepted definitions count from now on, where the lock has none.
func (l *link) repin(names []string, listed map[string]Definition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = map[string]string{}
	}
	for _, name := range names {
		if d, ok := listed[name]; ok {
			l.first[name] = d.Digest()
		} else {
			delete(l.first, name)
		}
	}
}

// offered returns the accepted definitions that agents get, sorted by name. With a lock they
// are those of the lock, and the server is not asked.
func (l *link) offered(ctx context.Context) ([]Definition, error) {
	defs := l.servers.lock.definitions(l.key())
	if defs == nil {
		listed, err := l.listed(ctx)
		if err != nil {
			return nil, err
		}
		pinned, _ := l.pinned()
		defs = map[string]Definition{}
		for name, d := range listed {
			if pinned[name] == d.Digest() {
				defs[name] = d
			}
		}
	}
	var out []Definition
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if l.server.offers(name) {
			out = append(out, defs[name])
		}
	}
	return out, nil
}

// listed returns the definitions that the server gives now, and pins the first.
func (l *link) listed(ctx context.Context) (map[string]Definition, error) {
	s, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.release(s)
	if err := s.refreshOffers(ctx); err != nil {
		return nil, err
	}
	listed, _ := s.tools()
	l.pin(listed)
	return listed, nil
}
