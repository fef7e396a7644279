package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

// offersOf is a catalog with an agent for each tenant.
type offersOf func(tenant string) host.Target

func (f offersOf) Revision(string) uint64 { return 1 }

func (f offersOf) Offers(_ context.Context, tenant string) (*mcpserver.Offers, error) {
	return &mcpserver.Offers{Targets: []mcpserver.Target{{Target: f(tenant), Tool: "clerk-of-" + tenant, Description: "Repeats."}}}, nil
}

// newMCPServer has the routes of the protocol.
func newMCPServer(t *testing.T, change func(*httpapi.MCP)) *server {
	t.Helper()
	var served *mcpserver.Server
	s := newServer(t, func(o *httpapi.Options) {
		var err error
		served, err = mcpserver.New(o.Runs, offersOf(func(string) host.Target {
			target, err := o.Targets.Target("clerk")
			must(t, err)
			return target
		}), &mcpserver.Options{Threads: o.Threads})
		must(t, err)
		o.Origins = []string{"https://app.example.com"}
		o.MCP = &httpapi.MCP{Serve: func(w http.ResponseWriter, r *http.Request, p *keys.Principal) error {
			return served.Serve(w, r, mcpserver.Caller{Tenant: p.Tenant, Key: p.Key, Thread: p.Thread, MayRun: p.Has(httpapi.WriteRuns), MayRead: p.Has(httpapi.ReadThreads)})
		}}
		if change != nil {
			change(o.MCP)
		}
	})
	t.Cleanup(func() { must(t, served.Close()) })
	return s
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// mcp sends a message of the protocol.
func (s *server) mcp(credential, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	resp, raw := s.request(credential, "POST", "/mcp", body, append([]string{"Accept", "application/json, text/event-stream", "Content-Type", "application/json"}, headers...)...)
	return resp, string(raw)
}

func TestEachTenantFindsItsToolsAtOneAddress(t *testing.T) {
	s := newMCPServer(t, nil)
	for _, tenant := range []string{"acme", "globex"} {
		resp, _ := s.mcp(tenant, initialize)
		session := resp.Header.Get("Mcp-Session-Id")
		_, list := s.mcp(tenant, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", session)
		if !strings.Contains(list, `"clerk-of-`+tenant+`"`) || strings.Count(list, `"name"`) != 1 {
			t.Errorf("%s sees %s", tenant, list)
		}
		for _, other := range []string{"acme", "globex", "umbrella", "acme/runs:read", "acme//t1"} {
			if other == tenant {
				continue
			}
			if resp, got := s.mcp(other, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", session); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s uses the session of %s: %d %s", other, tenant, resp.StatusCode, got)
			}
		}
	}
}

func TestRequestsOfTheProtocolAreRefusedAsItSays(t *testing.T) {
	s := newMCPServer(t, func(m *httpapi.MCP) {
		m.OnlyLoopback, m.AuthorizationServers = true, []string{"https://login.example.com"}
	})
	for name, c := range map[string]struct {
		credential string
		headers    []string
		status     int
		code       host.Code
	}{
		"without a credential":             {"", nil, 401, host.Unauthenticated},
		"with a wrong credential":          {"wrong", nil, 401, host.Unauthenticated},
		"of an administrator":              {"@root", nil, 403, host.PermissionDenied},
		"of another site":                  {"acme", []string{"Origin", "https://evil.example"}, 403, host.PermissionDenied},
		"of no site":                       {"acme", []string{"Origin", "null"}, 403, host.PermissionDenied},
		"by another name of this machine":  {"acme", []string{"Host", "evil.example"}, 403, host.PermissionDenied},
		"with a body that is no JSON":      {"acme", nil, 400, host.InvalidArgument},
		"of a suspended tenant":            {"suspended", nil, 403, host.PermissionDenied},
		"with a parameter in the query":    {"acme", nil, 400, host.InvalidArgument},
		"with the origin that is allowed":  {"acme", []string{"Origin", "https://app.example.com"}, 200, ""},
		"with the origin of its own":       {"acme", []string{"Origin", s.URL}, 200, ""},
		"with the name of the machine":     {"acme", []string{"Host", "localhost:1"}, 200, ""},
		"with the address of the machine6": {"acme", []string{"Host", "[::1]:1"}, 200, ""},
	} {
		body, path := initialize, "/mcp"
		if strings.Contains(name, "no JSON") {
			body = "{"
		}
		if strings.Contains(name, "query") {
			path += "?a=b"
		}
		resp, raw := s.request(c.credential, "POST", path, body, append([]string{"Accept", "application/json, text/event-stream", "Content-Type", "application/json"}, c.headers...)...)
		var answer struct {
			JSONRPC string
			Error   struct {
				Message string
				Data    struct{ Code host.Code }
			}
		}
		if c.code != "" {
			must(t, json.Unmarshal(raw, &answer))
		}
		if resp.StatusCode != c.status || answer.Error.Data.Code != c.code || c.code != "" && (answer.JSONRPC != "2.0" || answer.Error.Message == "") {
			t.Errorf("a request %s: %d %s, want %d %s", name, resp.StatusCode, raw, c.status, c.code)
		}
		if got := resp.Header.Get("WWW-Authenticate"); c.status == 401 && !strings.Contains(got, `resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("a request %s: WWW-Authenticate is %q", name, got)
		}
	}
}

func TestMetadataNamesTheOAuthServers(t *testing.T) {
	s := newMCPServer(t, func(m *httpapi.MCP) { m.AuthorizationServers = []string{"https://login.example.com"} })
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		var got httpapi.ProtectedResource
		s.do("", "GET", path, "", 200, &got)
		if got.Resource != s.URL+"/mcp" || !slices.Equal(got.AuthorizationServers, []string{"https://login.example.com"}) {
			t.Errorf("%s = %+v", path, got)
		}
	}
	if resp, _ := newMCPServer(t, nil).request("", "GET", "/.well-known/oauth-protected-resource", ""); resp.StatusCode != 404 {
		t.Errorf("without OAuth servers the metadata is %d", resp.StatusCode)
	}
}
