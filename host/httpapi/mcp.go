package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/keys"
)

// MCP serves clients of the Model Context Protocol at /mcp, by streamable HTTP: the server
// of package mcpserver, for example.
type MCP struct {
	// Serve answers a request of a caller. It returns the error of a request that it
	// refuses, if nothing is answered yet. Scopes are for Serve to look at: a credential of
	// any is a caller.
	Serve func(w http.ResponseWriter, r *http.Request, p *keys.Principal) error

	// AuthorizationServers are the addresses of the OAuth servers whose tokens callers have.
	// With one the API serves the protected-resource metadata of RFC 9728, and names them to
	// requests without a credential. Authenticate verifies the tokens: see package oidc.
	AuthorizationServers []string
	// URL is the address of /mcp for clients, such as https://agents.example.com/mcp.
	// Default: that of the request.
	URL string

	// OnlyLoopback refuses requests that name another host than this machine: for an API
	// that listens at loopback addresses alone, and behind no proxy. Otherwise the page of a
	// site whose name has come to mean this machine could send requests.
	OnlyLoopback bool

	// Recheck is how often the credential of a request that lasts, such as a stream of
	// notifications, is verified again (1 min). The request ends when the credential is not
	// valid any more, or has lost a scope that tools or resources need: the next request is
	// served with what is left.
	Recheck time.Duration
	// RecheckOutage is how long such a request lasts while its credential cannot be verified,
	// because a store or an issuer does not answer (5 min).
	RecheckOutage time.Duration
}

// The defaults of [MCP].
const (
	DefaultRecheck       = time.Minute
	DefaultRecheckOutage = 5 * time.Minute
)

// MCPMessage is the body of POST /mcp: a request, notification or response of JSON-RPC 2.0.
type MCPMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// ProtectedResource is the metadata of RFC 9728 about /mcp.
type ProtectedResource struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Scopes               []string `json:"scopes_supported"`
	Name                 string   `json:"resource_name,omitempty"`
}

// mcpPath is the address of the protocol, and metadataPath that of its metadata, to which the
// first may be appended.
const (
	mcpPath      = "/mcp"
	metadataPath = "/.well-known/oauth-protected-resource"
)

// mcpHandlers answer the routes of the Model Context Protocol.
type mcpHandlers struct {
	mcp     *MCP
	origins map[string]bool
}

func (h *mcpHandlers) routes() []*route {
	session := param{name: "Mcp-Session-Id", kind: "string", doc: "the session, as the answer to initialize gave it; clients of 2026-07-28 have none"}
	version := param{name: "Mcp-Protocol-Version", kind: "string", doc: "the version of the protocol"}
	last := param{name: "Last-Event-ID", kind: "string", doc: "is refused: streams are not replayed"}
	list := []*route{
		{method: "POST", path: mcpPath, id: "sendMCP", group: "mcp", any: true, stream: true, headers: []param{session, version}, body: MCPMessage{}, raw: "text/event-stream",
			summary: "Send a message of the Model Context Protocol. Accept names application/json and text/event-stream."},
		{method: "GET", path: mcpPath, id: "listenMCP", group: "mcp", any: true, stream: true, headers: []param{session, version, last}, raw: "text/event-stream",
			summary: "Receive the messages of a session of the Model Context Protocol that belong to no request."},
		{method: "DELETE", path: mcpPath, id: "endMCP", group: "mcp", any: true, stream: true, headers: []param{session, version}, status: http.StatusNoContent,
			summary: "End a session of the Model Context Protocol."},
	}
	for _, r := range list {
		r.handle, r.refuse = h.serve, h.refuse
	}
	if len(h.mcp.AuthorizationServers) == 0 {
		return list
	}
	return append(list,
		&route{method: "GET", path: metadataPath, id: "protectedResource", group: "mcp", summary: "Which OAuth servers give out tokens for the host.", answer: ProtectedResource{}, handle: h.metadata},
		&route{method: "GET", path: metadataPath + mcpPath, id: "protectedResourceMCP", group: "mcp", summary: "The same, at the address that belongs to /mcp.", answer: ProtectedResource{}, handle: h.metadata},
	)
}

// serve answers a request while its credential is valid.
func (h *mcpHandlers) serve(c *call) error {
	if c.principal.Tenant == "" {
		return host.Errorf(host.PermissionDenied, "the credential is an administrator's, which reaches no tenant's data").WithHint("use a key of the tenant")
	}
	if err := h.checkNames(c.r); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer h.recheck(c, cancel)()
	if err := h.mcp.Serve(&slowAnswer{ResponseWriter: c.w, call: c}, c.r.WithContext(ctx), c.principal); err != nil {
		return err
	}
	return errAnswered
}

// checkNames refuses a request of a page of another site, and one that reached a server of
// this machine alone by the name of another.
func (h *mcpHandlers) checkNames(r *http.Request) error {
	if h.mcp.OnlyLoopback && !isLoopbackName(r.Host) {
		return host.Errorf(host.PermissionDenied, "the request names another host than this machine").WithHint("use localhost, or serve behind a proxy")
	}
	origin := r.Header.Get("Origin")
	if origin == "" || h.origins[origin] || h.origins["*"] {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host == r.Host {
		return nil
	}
	return host.Errorf(host.PermissionDenied, "the request is of a page of another site").WithHint("name the origin of the page to the server")
}

func isLoopbackName(name string) bool {
	if bare, _, err := net.SplitHostPort(name); err == nil {
		name = bare
	}
	name = strings.Trim(name, "[]")
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// url returns the address of /mcp for the sender of a request.
func (h *mcpHandlers) url(r *http.Request) string {
	if h.mcp.URL != "" {
		return h.mcp.URL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + mcpPath
}

func (h *mcpHandlers) metadata(c *call) error {
	return c.answer(ProtectedResource{Resource: h.url(c.r), AuthorizationServers: h.mcp.AuthorizationServers, BearerMethods: []string{"header"},
		Scopes: mcpScopes(), Name: "agenthost"})
}

// refuse answers with an error of JSON-RPC.
func (h *mcpHandlers) refuse(c *call, err error) {
	c.api.logMasked(c, err)
	e := c.api.forClient(err, c.id)
	status := e.Code.HTTPStatus()
	if other := (*statusError)(nil); errors.As(err, &other) {
		status = other.status
	}
	header := c.w.Header()
	e.SetRetryAfter(header)
	if e.Code == host.Unauthenticated {
		with := authenticateWith
		if len(h.mcp.AuthorizationServers) > 0 {
			if u, err := url.Parse(h.url(c.r)); err == nil {
				with += `, resource_metadata="` + u.Scheme + "://" + u.Host + metadataPath + mcpPath + `"`
			}
		}
		header.Set("WWW-Authenticate", with)
	}
	const serverError = -32000 // of JSON-RPC: the first that programs define
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": serverError, "message": e.Error(), "data": e}})
	if err != nil {
		raw = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the answer cannot be written"}}`)
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(raw)+1))
	c.sending()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(raw, '\n'))
}
