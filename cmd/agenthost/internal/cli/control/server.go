package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
)

// The bounds of a server.
const (
	MaxRequestBytes = 1 << 20          // of the body of a local route
	MaxAnswerBytes  = 32 << 20         // that a client reads, or one line of a stream
	MaxRequests     = 64               // at one time; further ones get an error
	IdleTime        = time.Minute      // for a header, a body, a part of an answer, and between requests
	HandlerTime     = 10 * time.Minute // for one local request, such as building a plugin
	maxHeaderBytes  = 64 << 10
)

// TenantHeader names the tenant that a request acts for; without it that is the
// project's.
const TenantHeader = "Agenthost-Tenant"

// Authenticate returns the function that makes each request one of an administrator who
// acts for the tenant of [TenantHeader]. The server has checked the process at the other
// end. tenant completes the name, which may be empty.
func Authenticate(tenant func(string) string) httpapi.Authenticate {
	subject, scopes := fmt.Sprintf("socket/%d", os.Getuid()), slices.Concat(httpapi.Scopes(), httpapi.AdminScopes())
	slices.Sort(scopes)
	scopes = slices.Compact(scopes) // some are of both
	return func(r *http.Request) (*keys.Principal, error) {
		return &keys.Principal{Tenant: tenant(r.Header.Get(TenantHeader)), Subject: subject, Scopes: scopes, Admin: true}, nil
	}
}

// mayAdminister reports whether a process of user peer may use a host of user own.
func mayAdminister(peer, own int) bool { return peer == own || peer == 0 }

// Server answers requests until it is closed.
type Server struct {
	path   string
	file   fs.FileInfo
	server *http.Server
	cancel context.CancelFunc // ends the contexts of requests
	slots  chan struct{}
	routes map[string]Route
	table  []Route // in the order of Listen's

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // requests and the loop of the listener
}

// Listen makes a socket at path and serves api and the local routes there; a nil api has
// no routes. A stale socket, without a listener, is replaced. Code failed_precondition if
// another host listens at path, or if path is not a socket.
func Listen(path string, api http.Handler, routes []Route) (*Server, error) {
	listener, err := ListenSocket(path)
	if err != nil {
		return nil, err
	}
	s := &Server{path: path, slots: make(chan struct{}, MaxRequests), routes: map[string]Route{}, table: routes}
	for _, r := range routes {
		s.routes[r.Name] = r
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.server = &http.Server{
		Handler: s.mount(api), ReadHeaderTimeout: IdleTime, IdleTimeout: IdleTime, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, checkPeer(conn))
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // it would log each client that leaves
	}
	if !isAbstract(path) {
		if s.file, err = os.Lstat(path); err != nil {
			cancel()
			return nil, errors.Join(host.Errorf(host.FailedPrecondition, "open control socket: %w", err), listener.Close())
		}
	}
	s.running.Go(func() { _ = s.server.Serve(listener) })
	return s, nil
}

// peerKey is the key in a request's context of whether its sender may use the host.
type peerKey struct{}

// Path returns the path of the socket.
func (s *Server) Path() string { return s.path }

// Close ends all connections and requests, waits for them, and removes the socket. It may
// be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.server.Close()
	s.running.Wait()
	if now, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(now, s.file) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

// mount returns the handler of all requests.
func (s *Server) mount(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /local", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.table) })
	mux.HandleFunc("POST /local/{name}", s.local)
	mux.HandleFunc("/local/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, host.Errorf(host.NotFound, "there is no %s %s", r.Method, r.URL.Path).WithHint("GET /local lists the local routes, which take POST"))
	})
	if api != nil {
		mux.Handle("/", api)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.begin(r); err != nil {
			fail(w, err)
			return
		}
		defer s.end()
		mux.ServeHTTP(w, r)
	})
}

// begin admits a request, which end ends.
func (s *Server) begin(r *http.Request) error {
	if allowed, _ := r.Context().Value(peerKey{}).(bool); !allowed {
		return host.Errorf(host.PermissionDenied, "the host is another user's").WithHint("run the command as the user of the host, or as root")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return host.Errorf(host.Unavailable, "the host ends")
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return host.Errorf(host.ResourceExhausted, "the host answers %d requests over its control socket", MaxRequests).WithHint("try again")
	}
	s.running.Add(1)
	return nil
}

func (s *Server) end() {
	<-s.slots
	s.running.Done()
}

// local answers a request of a local route.
func (s *Server) local(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(IdleTime))
	route, ok := s.routes[r.PathValue("name")]
	if !ok {
		fail(w, host.Errorf(host.Unimplemented, "this host has no operation %.60q", r.PathValue("name")).WithHint("is it of another version of agenthost?"))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequestBytes))
	if err != nil {
		fail(w, badBody(err))
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(r.Context(), HandlerTime)
	defer cancel()
	result, err := route.handle(ctx, body)
	events, streams := result.(Events)
	switch {
	case err != nil:
		fail(w, err)
	case streams:
		stream(ctx, w, control, events)
	default:
		_ = control.SetWriteDeadline(time.Now().Add(IdleTime))
		answer(w, result)
	}
}

func badBody(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return host.Errorf(host.ResourceExhausted, "a request is more than %d bytes", MaxRequestBytes)
	}
	return host.Errorf(host.InvalidArgument, "the body cannot be read: %w", err)
}

// stream sends events, a line each, until they end or the client hangs up. The answer
// begins with the first event: an error before it is the answer. Events that end because
// the host does are not all of them, which the last line says.
func stream(ctx context.Context, w http.ResponseWriter, control *http.ResponseController, events Events) {
	begun := false
	begin := func() {
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.WriteHeader(http.StatusOK)
		}
		begun = true
	}
	send := func(line []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(IdleTime))
		_, err := w.Write(append(line, '\n'))
		return err == nil && control.Flush() == nil
	}
	for ev, err := range whole(ctx, events) {
		switch {
		case err != nil && !begun:
			fail(w, err)
			return
		case err != nil:
			line, _ := json.Marshal(lastLine{fault.AsError(err)})
			send(line)
			return
		}
		begin()
		if !send(ev) {
			return
		}
	}
	begin()
}

// whole yields events, and an error behind them if they ended because ctx did.
func whole(ctx context.Context, events Events) Events {
	return func(yield func(json.RawMessage, error) bool) {
		for ev, err := range events {
			if !yield(ev, err) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(nil, host.Errorf(host.Unavailable, "the host ended before the operation did"))
		}
	}
}

// lastLine is the last line of a stream that an error ends.
type lastLine struct {
	Error *host.Error `json:"error"`
}

func answer(w http.ResponseWriter, result any) {
	raw, err := json.Marshal(result)
	if err != nil {
		fail(w, host.Errorf(host.Internal, "encode the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(raw, '\n')) // a client that has left reads nothing
}

// fail answers with the whole text of an error: the client is an administrator.
func fail(w http.ResponseWriter, err error) {
	httpapi.NewProblem(fault.AsError(err), chat.NewID()).Answer(w)
}
