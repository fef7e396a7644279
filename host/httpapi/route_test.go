package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/sessions"
)

// panickingParts makes routes of s panic: before their answers, and in one.
func panickingParts(logged io.Writer) func(*httpapi.Options) {
	return func(o *httpapi.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(logged, nil))
		o.Ready = func(context.Context) error { panic("a secret of the host") }
		o.Sessions = func(string) (*sessions.Service, error) {
			var none *host.Error
			return nil, errors.New(none.Message)
		}
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
			panic("in the middle")
		})
	}
}

func TestAPanicIsLoggedAndAnswered(t *testing.T) {
	var logged bytes.Buffer
	s := newServer(t, panickingParts(&logged))
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/ready", ""},
		{"POST", "/v1/sessions/clerk/turn", `{"text":"hello"}`},
	} {
		logged.Reset()
		resp, raw := s.request("acme", c.method, c.path, c.body, "X-Request-Id", "request-1")
		if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(string(raw), "request-1") {
			t.Errorf("%s %s is answered %d %s, want 500 and the id of the request", c.method, c.path, resp.StatusCode, raw)
		}
		for _, hidden := range []string{"secret", "goroutine", ".go", "nil pointer"} {
			if strings.Contains(string(raw), hidden) {
				t.Errorf("%s %s shows %q: %s", c.method, c.path, hidden, raw)
			}
		}
		var line struct{ Msg, Request, Route, Stack, Level string }
		must(t, json.Unmarshal(logged.Bytes(), &line)) // a single line
		if line.Request != "request-1" || line.Level != "ERROR" || !strings.Contains(line.Stack, "panickingParts") {
			t.Errorf("the log has %s", logged.Bytes())
		}
	}
}

func TestAPanicLeavesTheConnectionUsable(t *testing.T) {
	s := newServer(t, panickingParts(io.Discard))
	client := s.Client()
	for i, path := range []string{"/health", "/ready", "/health"} {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
		must(t, err)
		resp, err := client.Do(req)
		must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		if i > 0 && !reused {
			t.Errorf("GET %s needs a connection of its own", path)
		}
	}
}

func TestAPanicInAnAnswerCutsItOff(t *testing.T) {
	var logged bytes.Buffer
	s := newServer(t, panickingParts(&logged))
	resp, err := s.Client().Get(s.URL + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer of %d bytes seems to be whole", len(raw))
	}
	if !strings.Contains(logged.String(), "in the middle") {
		t.Errorf("the log has %s", logged.String())
	}
}

func TestRequestsThatAMuxWouldRedirectAreProblems(t *testing.T) {
	s := newServer(t, nil)
	for _, c := range []struct{ method, path string }{
		{"CONNECT", "/v1/me"}, {"CONNECT", "/v1/me/"}, {"CONNECT", "example.com:443"}, {"CONNECT", "/v1/../v1/me"},
		{"GET", "/v1/me/"}, {"GET", "/v1/threads/%2e%2e/me"}, {"GET", "/v1/%2e/me"}, {"POST", "/v1/runs/"}, {"GET", "http://other.test/v1//me"},
	} {
		raw := string(s.raw(c.method, c.path, "acme", ""))
		status, _, _ := strings.Cut(raw, "\r\n")
		if !strings.Contains(raw, "application/problem+json") || !strings.Contains(status, " 40") {
			t.Errorf("%s %s: %s", c.method, c.path, raw)
		}
	}
}
