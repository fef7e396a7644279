package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// The headers of streamable HTTP.
const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// firstStateless is the protocol version from which on there are no sessions.
const firstStateless = "2026-07-28"

// Serve answers a request of streamable HTTP: POST, GET and DELETE of one address. The
// caller comes from the request's credential; hosts, origins and methods are checked
// before. A request that Serve refuses before it has answered anything returns an error,
// which is for the program to answer: code resource_exhausted for a session too many,
// invalid_argument for a body that is no JSON or too large, unavailable after Close, and
// those of the catalog.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, caller Caller) error {
	e, leave, err := s.enter(r.Context(), &caller)
	if err != nil {
		return err
	}
	defer leave()
	handler := e.withSessions
	if r.Header.Get(versionHeader) >= firstStateless {
		handler = e.stateless
	}
	if r.Method == http.MethodPost {
		if r, err = s.readBody(w, r); err != nil {
			return err
		}
		begins, err := s.admit(e, r.Header)
		if err != nil {
			return err
		}
		if begins {
			defer s.beginning.Add(-1)
		}
	}
	gone, cancel := context.WithCancel(r.Context())
	defer cancel() // ends what the request began and nothing waits for
	handler.ServeHTTP(w, r.WithContext(context.WithValue(gone, requestKey{}, &request{caller: caller, gone: gone})))
	return nil
}

// readBody reads the body of a request, so that the library gets JSON of bounded size and
// depth.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, host.Errorf(host.InvalidArgument, "the body is more than %d bytes", s.opts.MaxBodyBytes)
	case err != nil:
		return nil, host.Errorf(host.InvalidArgument, "the body cannot be read: %w", err)
	}
	if err := jsondoc.Check(raw); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "the body is not JSON: %w", err).WithHint("send a message of JSON-RPC 2.0")
	}
	own := *r
	own.Body = io.NopCloser(bytes.NewReader(raw))
	return &own, nil
}

// admit refuses a session too many, and a request too many that is a session of its own while
// it lasts, such as a stream of notifications. If the request may begin a session, it is one of
// s.beginning, and the caller takes it out when the request ends.
func (s *Server) admit(e *endpoint, head http.Header) (begins bool, err error) {
	lasts := head.Get(versionHeader) < firstStateless
	if lasts && head.Get(sessionHeader) != "" {
		return false, nil // of a session that was admitted
	}
	full := func(limit string, most int) error {
		err := host.Errorf(host.ResourceExhausted, "%d sessions are connected, as many as the limit %s allows", most, limit).
			WithHint("end sessions with DELETE, or wait until idle ones have ended")
		err.Limit, err.RetryAfter = limit, 10*time.Second
		return err
	}
	if s.sessionsOf(e.tenant) >= s.opts.TenantSessions {
		return false, full("TenantSessions", s.opts.TenantSessions)
	}
	if !lasts {
		return false, nil
	}
	s.beginning.Add(1) // before sessions: see Refresh
	if s.sessions.Add(1) > int64(s.opts.MaxSessions) {
		s.sessions.Add(-1)
		s.beginning.Add(-1)
		return false, full("MaxSessions", s.opts.MaxSessions)
	}
	return true, nil
}

// request is a request of a client, for the calls that come with it: the contexts of calls
// have the values of the request that began their session.
type request struct {
	caller Caller
	gone   context.Context // the lifetime of the request: it ends when the client has left

	threads *keptThreads // of a stream, which is a session; nil of a request of HTTP
}

type requestKey struct{}

// tokenRequest is the name of the request among the extra values of a token.
const tokenRequest = "agenthost"

// withToken has each message of a request carry the request: the library hands the token of
// a request, and nothing else that a program can set, to the handlers of its messages.
func withToken(next http.Handler) http.Handler {
	verify := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{Extra: map[string]any{tokenRequest: r.Context().Value(requestKey{})}}, nil
	}
	bearer := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := *r
		own.Header = r.Header.Clone()
		own.Header.Set("Authorization", "Bearer checked") // the caller was, in whatever way
		bearer.ServeHTTP(w, &own)
	})
}
