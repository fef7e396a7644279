package mcpclient

//lint:file-ignore SA1019 servers of versions before 2026-07-28 ask for samples

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/fault"
)

const (
	// lastHandshakeProtocol is the newest version that begins with a handshake. A server
	// that does not answer the newer way of asking is asked in this one.
	lastHandshakeProtocol = "2025-11-25"
	floodWindow           = 10 * time.Second
	refreshInterval       = time.Second // the shortest time between two lists for offers
	closeWait             = 5 * time.Second
)

// session is an open session with a server.
type session struct {
	link    *link
	cs      *mcp.ClientSession
	kept    *keptTransport
	reading readLimiter
	http    *httpSession // nil for a process
	proc    *process     // nil for a URL
	ended   chan struct{}
	users   atomic.Int32 // calls that use it
	news    atomic.Int64 // how often the server has said that its list of tools changed
	broken  atomic.Bool  // the connection is broken, or was silent during a whole call
	asks    askBack      // requests of the server during calls

	closing sync.Once
	free    func() // gives the place among Limits.Sessions back; nil of one that has none
	flood   floodGate
	lister  chan struct{} // has a place for the one who lists the tools

	mu      sync.Mutex
	listing time.Time             // when the tools were last listed
	known   int64                 // the news that the last list has taken in
	defs    map[string]Definition // as listed last
	refused map[string]string     // why a tool is left out, by its name
	calls   map[string]func(*mcp.ProgressNotificationParams)
}

// openSession opens a session and lists its tools.
func openSession(ctx context.Context, l *link) (*session, error) {
	protocol := l.server.Protocol
	first, cancel := ctx, context.CancelFunc(func() {})
	if protocol == "" {
		if at, ok := ctx.Deadline(); ok {
			first, cancel = context.WithTimeout(ctx, time.Until(at)/2)
		}
	}
	s, err := connectSession(first, l, protocol)
	silent := err != nil && first.Err() != nil && ctx.Err() == nil
	cancel()
	if silent { // it does not answer requests that it does not know
		s, err = connectSession(ctx, l, lastHandshakeProtocol)
	}
	if err != nil {
		return nil, err
	}
	if err := s.list(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connectSession opens a session with a version of the protocol.
func connectSession(ctx context.Context, l *link, protocol string) (_ *session, err error) {
	s := &session{link: l, ended: make(chan struct{}), calls: map[string]func(*mcp.ProgressNotificationParams){}, lister: make(chan struct{}, 1), flood: floodGate{most: l.servers.limits.Messages}}
	s.asks.sampling, s.asks.elicitation = l.server.Sampling, l.server.Elicitation
	s.asks.calling = make(chan struct{}, 1)
	transport, err := s.transport(ctx)
	if err != nil {
		return nil, err
	}
	s.kept = &keptTransport{Transport: transport}
	client := mcp.NewClient(&mcp.Implementation{Name: "agenthost", Version: cmp.Or(l.servers.version, "0")}, s.clientOptions())
	client.AddReceivingMiddleware(s.receive)
	client.AddSendingMiddleware(s.send)
	s.cs, err = client.Connect(ctx, s.kept, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		s.abort()
		return nil, s.explain(ctx, err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cs.Wait()
	}()
	return s, nil
}

// clientOptions returns the handlers of the session, and so the abilities that the server is
// told of.
func (s *session) clientOptions() *mcp.ClientOptions {
	opts := &mcp.ClientOptions{
		Logger:                      slog.New(slog.DiscardHandler),
		Capabilities:                &mcp.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.news.Add(1) },
		ProgressNotificationHandler: s.progress,
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true}, // calls do it themselves
	}
	if s.asks.sampling {
		opts.CreateMessageHandler = s.asks.createMessage
	}
	if s.asks.elicitation {
		opts.ElicitationHandler = s.asks.elicit
	}
	return opts
}

// transport returns the way to the server.
func (s *session) transport(ctx context.Context) (mcp.Transport, error) {
	l, limits := s.link, &s.link.servers.limits
	if l.server.URL == "" {
		env, err := l.variables(ctx)
		if err != nil {
			return nil, err
		}
		if s.proc, err = startProcess(l.servers.spawner, l.server, env, l.servers.logger); err != nil {
			return nil, err
		}
		return &mcp.IOTransport{Reader: &throttledProcess{s.proc, &s.reading}, Writer: s.proc, MaxLineLength: limits.MessageBytes}, nil
	}
	headers, err := l.headers(ctx)
	if err != nil {
		return nil, err
	}
	s.http = newHTTPSession(l.server, headers, limits, &s.reading)
	if l.server.SSE {
		return &mcp.SSEClientTransport{Endpoint: l.server.URL, HTTPClient: s.http.client(), MaxEventSize: limits.MessageBytes}, nil
	}
	t := &mcp.StreamableClientTransport{Endpoint: l.server.URL, HTTPClient: s.http.client(), MaxEventSize: limits.MessageBytes}
	if l.server.OAuth != nil {
		if t.OAuthHandler, err = l.server.OAuth.handler(l.server); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// keptTransport keeps the connection of a transport, which a client that cannot connect does
// not always close, and has it outlive the context under which it is opened.
type keptTransport struct {
	mcp.Transport
	conn   mcp.Connection
	cancel context.CancelFunc // ends the streams of the connection
}

func (t *keptTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	conn, err := t.Transport.Connect(own)
	t.conn, t.cancel = conn, cancel
	return conn, err
}

// close closes the connection and its streams.
func (t *keptTransport) close() {
	if t.conn != nil {
		_ = t.conn.Close()
	}
	if t.cancel != nil {
		t.cancel()
	}
}

// throttledProcess reads a process no faster than its session may.
type throttledProcess struct {
	*process
	reading *readLimiter
}

func (p *throttledProcess) Read(b []byte) (int, error) {
	n, err := p.process.Read(b)
	if wait := p.reading.take(n); wait > 0 && err == nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.exited:
		}
	}
	return n, err
}

// explain returns the error of a session for the operator: how a process ended, or the
// limit that its messages passed.
func (s *session) explain(ctx context.Context, err error) error {
	var own *fault.Error
	switch {
	case errors.As(err, &own):
		return own
	case s.flood.passed.Load():
		return s.errFlood()
	case ctx.Err() != nil:
		return fault.Errorf(fault.DeadlineExceeded, "it did not answer in time: %w", err)
	case s.proc != nil:
		return fault.Errorf(fault.Unavailable, "%w; its messages end with: %s", err, s.proc.stderr.last())
	}
	return fault.Errorf(fault.Unavailable, "%w", err)
}

func (s *session) errFlood() error {
	e := fault.Errorf(fault.ResourceExhausted, "The MCP server %s sends more than %d messages in %s on its own account.", s.link.server.Name, s.flood.most, floodWindow)
	e.Limit = "Messages"
	return e
}

func (s *session) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.flood.passed.Load() || s.broken.Load()
	}
}

// close ends the session: it waits for the server a short time only.
func (s *session) close() {
	s.closing.Do(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.cs.Close()
		}()
		wait := time.NewTimer(closeWait)
		defer wait.Stop()
		select {
		case <-done:
		case <-wait.C:
		}
		s.abort()
		<-done
		<-s.ended
		if s.free != nil {
			s.free()
		}
	})
}

// abort closes the streams of the session.
func (s *session) abort() {
	if s.kept != nil {
		s.kept.close()
	}
	if s.proc != nil {
		_ = s.proc.Close()
	}
	if s.http != nil {
		s.http.close()
	}
}

// receive guards the requests and notifications of the server: their number, and handlers
// that panic over them.
func (s *session) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.link.servers.logger.WarnContext(ctx, "MCP server sends a message that cannot be read", "server", s.link.server.Name, "method", plainLine(method, maxOwnName), "panic", fmt.Sprint(p))
				res, err = nil, fault.Errorf(fault.InvalidArgument, "the request cannot be read")
			}
		}()
		if !s.flood.admit(time.Now()) {
			if s.flood.passed.CompareAndSwap(false, true) {
				go s.abort() // the reader ends, and with it this handler's queue
			}
			return nil, s.errFlood()
		}
		return next(ctx, method, req)
	}
}

// guarded runs a function that reads a server's answer, over which the SDK may panic.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Errorf(fault.Unavailable, "the answer cannot be read: %v", p)
		}
	}()
	return fn()
}

// floodGate counts the messages of a server in a window of time.
type floodGate struct {
	most   int
	passed atomic.Bool

	mu    sync.Mutex
	since time.Time
	n     int
}

func (g *floodGate) admit(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.since) > floodWindow {
		g.since, g.n = now, 0
	}
	g.n++
	return g.n <= g.most
}

// send keeps the SDK's caches small: it files each page of a list, and each resource that it
// reads, under the names that a request has, which a server could make endless.
func (s *session) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		switch p := req.GetParams().(type) {
		case *mcp.ReadResourceParams:
			p.URI = ""
		case *mcp.ListResourcesParams:
			p.Cursor = ""
		case *mcp.ListPromptsParams:
			p.Cursor = ""
		case *mcp.ListToolsParams:
			if p.Cursor != "" {
				p.Cursor = pageKey(ctx)
			}
		}
		return res, err
	}
}

// progress passes a report on to the call that it belongs to.
func (s *session) progress(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	if req.Params == nil {
		return
	}
	token, _ := req.Params.ProgressToken.(string)
	s.mu.Lock()
	tell := s.calls[token]
	s.mu.Unlock()
	if tell != nil {
		tell(req.Params)
	}
}

// watchProgress has the reports of a call told to a function, until the returned one is
// called.
func (s *session) watchProgress(token string, tell func(*mcp.ProgressNotificationParams)) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[token] = tell
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, token)
	}
}

var _ http.RoundTripper = (*httpSession)(nil)
