package soak

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is the network between hosts and their database. It can be made slow.
type Proxy struct {
	listener         net.Listener
	network, address string
	slow             atomic.Pointer[Slowness] // nil: as fast as can be
	serving          sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after Close
}

// Slowness says how slow a network, or the disk of the database behind it, is.
type Slowness struct {
	Delay time.Duration // the most that each piece of data waits, in both directions
	Rate  int           // bytes a second of each connection; 0 is no bound
}

// maxPiece bounds the bytes that the proxy forwards at once.
const maxPiece = 4096

// NewProxy starts a proxy of a server.
func NewProxy(network, address string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, network: network, address: address, conns: map[net.Conn]bool{}}
	p.serving.Go(p.serve)
	return p, nil
}

// Address returns the host and port at which the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Slow makes the network slow; nil ends that.
func (p *Proxy) Slow(s *Slowness) { p.slow.Store(s) }

// Close ends all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.serving.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.network, p.address)
		if err != nil { // the database is down
			_ = client.Close()
			continue
		}
		if !p.hold(client, server) {
			return
		}
		p.serving.Go(func() { p.forward(server, client) })
		p.serving.Go(func() { p.forward(client, server) })
	}
}

// hold keeps the ends of a connection for Close, and reports whether it was not called yet.
func (p *Proxy) hold(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		if p.conns == nil {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return p.conns != nil
}

// forward copies what arrives, and ends both ends with the first.
func (p *Proxy) forward(to, from net.Conn) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	piece := make([]byte, maxPiece)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			p.wait(n)
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits as long as n bytes take.
func (p *Proxy) wait(n int) {
	s := p.slow.Load()
	if s == nil {
		return
	}
	var wait time.Duration
	if s.Delay > 0 {
		wait = rand.N(s.Delay)
	}
	if s.Rate > 0 {
		wait += time.Duration(n) * time.Second / time.Duration(s.Rate)
	}
	time.Sleep(wait)
}
