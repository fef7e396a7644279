package sessions_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/sessions"
)

// pipes is a network of pipes: a server's listener and its clients' dialer.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	serving sync.WaitGroup // requests

	mu  sync.Mutex
	cut int // bytes that the next connection carries to its client, if not 0
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	p.mu.Lock()
	left := p.cut
	p.cut = 0
	p.mu.Unlock()
	if left > 0 {
		client = &cutConn{client, left}
	}
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cutAfter has the next connection lost after so many bytes.
func (p *pipes) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = n
}

type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		c.Conn.Close()
		return 0, errors.New("cut")
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// serveHTTP serves a service over pipes, to the tenant of a header.
func serveHTTP(t testing.TB, s *service) (*sessions.Remote, *pipes) {
	t.Helper()
	p := newPipes()
	handler := s.Handler(func(r *http.Request) (string, error) {
		if tenant := r.Header.Get("X-Tenant"); tenant != "" {
			return tenant, nil
		}
		return "", host.Errorf(host.Unauthenticated, "nobody says who is asking")
	})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serving.Add(1)
		defer p.serving.Done()
		handler.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial, DisableKeepAlives: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-done
	})
	return &sessions.Remote{URL: "http://host", Client: &http.Client{Transport: transport},
		Header: func(context.Context) (http.Header, error) { return http.Header{"X-Tenant": {"ada"}}, nil }}, p
}
