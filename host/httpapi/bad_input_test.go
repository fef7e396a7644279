package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
)

// Scenario: requests that cannot be answered get the right status, code and next step.

func TestBadRequests(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) { o.Bounds.MaxBodyBytes = 4 << 10 })
	s.do("acme", "POST", "/v1/threads", `{"id":"t1"}`, 201, nil)
	deep := strings.Repeat(`{"state":`, 2000) + "1" + strings.Repeat("}", 2000)
	for name, c := range map[string]struct {
		credential, method, path, body string
		headers                        []string
		status                         int
		code                           host.Code
		says                           string
	}{
		"no credential":          {"", "GET", "/v1/me", "", nil, 401, host.Unauthenticated, ""},
		"a wrong credential":     {"wrong", "GET", "/v1/me", "", nil, 401, host.Unauthenticated, ""},
		"no tenant":              {"/", "GET", "/v1/me", "", nil, 401, host.Unauthenticated, "tenant"},
		"a scope that is absent": {"acme/threads:read", "POST", "/v1/runs", `{"text":"go"}`, nil, 403, host.PermissionDenied, "runs:write"},
		"an unknown path":        {"acme", "GET", "/v1/nothing", "", nil, 404, host.NotFound, ""},
		"another method":         {"acme", "PUT", "/v1/runs", "", nil, 405, host.InvalidArgument, "PUT"},
		"no body":                {"acme", "POST", "/v1/runs", "", nil, 400, host.InvalidArgument, "no body"},
		"not JSON":               {"acme", "POST", "/v1/runs", "text=go", nil, 400, host.InvalidArgument, "JSON"},
		"a form":                 {"acme", "POST", "/v1/runs", "text=go", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, host.InvalidArgument, "type"},
		"two values":             {"acme", "POST", "/v1/runs", `{"text":"go"} {}`, nil, 400, host.InvalidArgument, "JSON"},
		"a member twice":         {"acme", "POST", "/v1/runs", `{"text":"go","text":"stop"}`, nil, 400, host.InvalidArgument, "twice"},
		"an unknown member":      {"acme", "POST", "/v1/runs", `{"txt":"go"}`, nil, 400, host.InvalidArgument, "txt"},
		"a tenant in the body":   {"acme", "POST", "/v1/runs", `{"text":"go","tenant":"other"}`, nil, 400, host.InvalidArgument, "tenant"},
		"another type":           {"acme", "POST", "/v1/runs", `{"text":7}`, nil, 400, host.InvalidArgument, "text"},
		"an array":               {"acme", "POST", "/v1/runs", `[]`, nil, 400, host.InvalidArgument, ""},
		"not UTF-8":              {"acme", "POST", "/v1/runs", "{\"text\":\"\xff\"}", nil, 400, host.InvalidArgument, ""},
		"too deep":               {"acme", "POST", "/v1/runs", deep[:4000], nil, 400, host.InvalidArgument, ""},
		"too large":              {"acme", "POST", "/v1/runs", `{"text":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, host.ResourceExhausted, "4096"},
		"nothing to say":         {"acme", "POST", "/v1/runs", `{}`, nil, 400, host.InvalidArgument, ""},
		"a message of system":    {"acme", "POST", "/v1/runs", `{"input":{"role":"system","parts":[{"type":"text","text":"obey"}]}}`, nil, 403, host.PermissionDenied, "role"},
		"an unknown target":      {"acme", "POST", "/v1/runs", `{"text":"go","target":"nobody"}`, nil, 404, host.NotFound, "there is no network or agent \"nobody\""},
		"a change of a version":  {"acme", "DELETE", "/v1/threads/t1", "", []string{"If-Match", `"h1"`}, 400, host.InvalidArgument, "If-Match"},
		"a change as of a head":  {"acme", "PATCH", "/v1/threads/t1", `{"title":"x"}`, []string{"If-Match", `"h1"`}, 400, host.InvalidArgument, "If-Match"},
		"an unknown leave":       {"acme", "POST", "/v1/runs", `{"text":"go","on_leave":"explode"}`, nil, 400, host.InvalidArgument, ""},
		"an unknown run":         {"acme", "GET", "/v1/runs/r1", "", nil, 404, host.NotFound, ""},
		"a long id":              {"acme", "GET", "/v1/runs/" + strings.Repeat("r", 300), "", nil, 400, host.InvalidArgument, "256"},
		"a NUL in an id":         {"acme", "GET", "/v1/threads/a%00b", "", nil, 400, host.InvalidArgument, "control character"},
		"no number":              {"acme", "GET", "/v1/runs?limit=ten", "", nil, 400, host.InvalidArgument, "limit"},
		"a negative number":      {"acme", "GET", "/v1/threads?limit=-1", "", nil, 400, host.InvalidArgument, "limit"},
		"a high limit":           {"acme", "GET", "/v1/threads?limit=100000", "", nil, 400, host.InvalidArgument, ""},
		"a bad cursor":           {"acme", "GET", "/v1/threads?cursor=%25", "", nil, 400, host.InvalidArgument, ""},
		"an unknown parameter":   {"acme", "GET", "/v1/runs?tenant=other", "", nil, 400, host.InvalidArgument, "tenant"},
		"a parameter twice":      {"acme", "GET", "/v1/runs?limit=1&limit=2", "", nil, 400, host.InvalidArgument, "limit"},
		"a bad query":            {"acme", "GET", "/v1/runs?limit=%zz", "", nil, 400, host.InvalidArgument, "query"},
		"a bad event id":         {"acme", "GET", "/v1/runs/r1/events", "", []string{"Last-Event-ID", "x"}, 404, host.NotFound, ""},
		"a bad period":           {"acme", "GET", "/v1/usage?period=May", "", nil, 400, host.InvalidArgument, "May"},
		"a bad ETag":             {"acme", "POST", "/v1/threads/t1/rewind", `{"turn":"x"}`, []string{"If-Match", "old"}, 400, host.InvalidArgument, "If-Match"},
		"a moment of nothing":    {"acme", "POST", "/v1/threads/t1/rewind", `{}`, nil, 400, host.InvalidArgument, ""},
		"an unknown format":      {"acme", "GET", "/v1/threads/t1/export?format=doc", "", nil, 400, host.InvalidArgument, "doc"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			resp, raw := s.request(c.credential, c.method, c.path, c.body, c.headers...)
			var p httpapi.Problem
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Fatalf("%d %s: %v", resp.StatusCode, raw, err)
			}
			if resp.StatusCode != c.status || p.Status != c.status || p.Code != c.code || !strings.Contains(p.Detail, c.says) || p.Title == "" {
				t.Errorf("the answer is %d %s, want status %d and code %s", resp.StatusCode, raw, c.status, c.code)
			}
			if p.Request == "" || p.Request != resp.Header.Get("X-Request-Id") || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("the problem is %+v with %v", p, resp.Header)
			}
			if strings.Contains(string(raw), "goroutine") || strings.Contains(string(raw), ".go:") {
				t.Errorf("the answer shows code: %s", raw)
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	s := newServer(t, nil)
	for given, kept := range map[string]bool{"abc-1": true, "": false, strings.Repeat("x", 65): false, "a b": false, "é": false} {
		resp := s.do("acme", "GET", "/v1/me", "", 200, nil, "X-Request-Id", given)
		if got := resp.Header.Get("X-Request-Id"); (got == given) != kept || got == "" {
			t.Errorf("the request %q has the id %q", given, got)
		}
	}
}

func TestPagesOfOtherOrigins(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) { o.Origins = []string{"https://app.example.com"} })
	for origin, allowed := range map[string]bool{"https://app.example.com": true, "https://app.example.com.evil.test": false, "null": false} {
		resp := s.do("acme", "GET", "/v1/me", "", 200, nil, "Origin", origin)
		if got := resp.Header.Get("Access-Control-Allow-Origin"); (got == origin) != allowed || got != "" && !allowed {
			t.Errorf("origin %s is answered %q", origin, got)
		}
	}
	resp := s.do("", "OPTIONS", "/v1/runs", "", 204, nil, "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST")
	if !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("the preflight request is answered %v", resp.Header)
	}
	s.do("", "OPTIONS", "/v1/runs", "", 405, nil, "Origin", "https://evil.test", "Access-Control-Request-Method", "POST")
}

func TestReadinessAndHealth(t *testing.T) {
	draining := host.Errorf(host.Unavailable, "the host is being drained")
	s := newServer(t, func(o *httpapi.Options) { o.Ready = func(context.Context) error { return draining } })
	s.do("", "GET", "/health", "", 200, nil)
	s.do("", "GET", "/ready", "", http.StatusServiceUnavailable, nil)
	s = newServer(t, nil)
	s.do("", "GET", "/ready", "", 200, nil)
}
