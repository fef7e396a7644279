package scriptedmodel

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The server's times.
const (
	readTimeout = 30 * time.Second
	idleTimeout = 2 * time.Minute
)

// Server is a scripted model that listens on loopback.
type Server struct {
	http   *http.Server
	url    string
	cancel context.CancelFunc
	served chan struct{}
	conns  sync.WaitGroup
	unhook func() bool
	close  func() error
}

// Start listens on a free port of 127.0.0.1 and serves until Close is called or
// ctx ends. Code invalid_argument for a bad rule, unavailable when there is no
// port.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	handler, err := New(opts)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, host.Errorf(host.Unavailable, "listen for the scripted model: %w", err)
	}
	serving, cancel := context.WithCancel(ctx)
	s := &Server{
		url: "http://" + listener.Addr().String() + "/v1", cancel: cancel, served: make(chan struct{}),
		http: &http.Server{
			Handler: handler, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
			ErrorLog:    log.New(io.Discard, "", 0), // the client reports these errors
			BaseContext: func(net.Listener) context.Context { return serving },
		},
	}
	s.http.ConnState = s.count
	s.close = sync.OnceValue(s.shutDown)
	go func() {
		defer close(s.served)
		s.http.Serve(listener)
	}()
	s.unhook = context.AfterFunc(ctx, func() { s.close() })
	return s, nil
}

// BaseURL returns the address for a client's base URL: http://127.0.0.1:PORT/v1.
func (s *Server) BaseURL() string { return s.url }

// Close stops the server and returns when it has stopped: requests on their way
// are cut off. It may be called twice.
func (s *Server) Close() error {
	s.unhook()
	return s.close()
}

// count counts the connections that are being served.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	}
}

// shutDown does not ask connections to finish, as http.Server.Shutdown does: it
// would wait seconds for one that a client has opened and not used.
func (s *Server) shutDown() error {
	s.cancel()
	err := s.http.Close()
	<-s.served
	s.conns.Wait()
	return err
}
