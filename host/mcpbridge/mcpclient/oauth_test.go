package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

// clientSecret is the secret that only its issuer may read.
const clientSecret = "the-secret-of-the-client"

// newIssuer serves an authorization server, which counts the requests that have the secret.
// Its tokens come from the endpoint tokens; "" is one of its own.
func newIssuer(t *testing.T, tokens string) (address string, secrets *atomic.Int64) {
	t.Helper()
	secrets = &atomic.Int64{}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": server.URL, "authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://localhost:1/back?code=c&state="+url.QueryEscape(r.FormValue("state")), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); secret == clientSecret || r.FormValue("client_secret") == clientSecret {
			secrets.Add(1)
		}
		if tokens != "" {
			http.Redirect(w, r, tokens, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "granted", "token_type": "Bearer"})
	})
	return server.URL, secrets
}

// newProtected serves the greeter to requests with a token, and names an authorization server
// to others.
func newProtected(t *testing.T, issuer string) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	greeter := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newGreeter() }, nil)
	mux.HandleFunc("/.well-known/oauth-protected-resource", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": server.URL + "/mcp", "authorization_servers": []string{issuer}})
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer granted" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+server.URL+`/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		greeter.ServeHTTP(w, r)
	})
	return server.URL + "/mcp"
}

// visit is a person whose browser comes back at once.
func visit(ctx context.Context, address string) (*mcpclient.Authorization, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Query().Get("code") == "" {
		return nil, errors.New("the browser does not come back with a code")
	}
	return &mcpclient.Authorization{Code: back.Query().Get("code"), State: back.Query().Get("state")}, nil
}

// TestAClientSecretGoesToItsIssuerAlone has MCP servers name the issuer of the client, and an
// authorization server of their own.
func TestAClientSecretGoesToItsIssuerAlone(t *testing.T) {
	own, ownSecrets := newIssuer(t, "")
	evil, evilSecrets := newIssuer(t, "")
	sends, _ := newIssuer(t, evil+"/token")
	for _, row := range []struct {
		name, named, issuer string
		want                bool
	}{
		{"its issuer", own, own, true},
		{"another server", evil, own, false},
		{"an issuer that sends its tokens elsewhere", sends, sends, false},
	} {
		servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{{Name: "greeter", URL: newProtected(t, row.named),
			OAuth: &mcpclient.OAuth{ClientID: "us", ClientSecret: clientSecret, Issuer: row.issuer, RedirectURL: "http://localhost:1/back", Authorize: visit}}}})
		report, err := servers.Inspect(t.Context(), "acme", "greeter")
		if (err == nil) != row.want || row.want && len(report.Tools) == 0 {
			t.Errorf("an MCP server that names %s: %v", row.name, err)
		}
		if err != nil && strings.Contains(err.Error(), clientSecret) {
			t.Errorf("an MCP server that names %s: the error has the secret", row.name)
		}
	}
	if ownSecrets.Load() == 0 || evilSecrets.Load() != 0 {
		t.Errorf("the issuer has read the secret %d times, another server %d times", ownSecrets.Load(), evilSecrets.Load())
	}
}

func TestAClientSecretWithoutAnIssuerIsRefused(t *testing.T) {
	for name, o := range map[string]*mcpclient.OAuth{
		"without an issuer":           {ClientID: "us", ClientSecret: clientSecret},
		"with an issuer of no scheme": {ClientID: "us", ClientSecret: clientSecret, Issuer: "login.example.com"},
		"with a user in the issuer":   {ClientID: "us", Issuer: "https://me@login.example.com"},
	} {
		o.RedirectURL, o.Authorize = "http://localhost:1/back", visit
		_, err := mcpclient.New(&mcpclient.Options{Servers: []mcpclient.Server{{Name: "a", URL: "https://example.com", OAuth: o}}})
		if fault.CodeOf(err) != fault.InvalidArgument || strings.Contains(err.Error(), clientSecret) {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
}
