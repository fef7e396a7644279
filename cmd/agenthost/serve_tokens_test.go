package main

// Scenario: users of tenants call a server with tokens of their identity provider.

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
)

// provider is an OpenID Connect provider behind a listener.
type provider struct {
	*httptest.Server
	t   *testing.T
	key *rsa.PrivateKey
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, p.URL, p.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","use":"sig","alg":"RS256","kid":"k1","e":"AQAB","n":%q}]}`, base64.RawURLEncoding.EncodeToString(key.N.Bytes()))
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// token returns a token with the claims of Ann of acme, with some replaced.
func (p *provider) token(claims map[string]any) string {
	p.t.Helper()
	all := map[string]any{"iss": p.URL, "aud": "shop", "sub": "ann", "org": "acme", "scp": []string{"runs:read", "runs:write", "plugins:grant"}, "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	raw, err := json.Marshal(all)
	if err != nil {
		p.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","kid":"k1"}`)) + "." + encode(raw)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	if err != nil {
		p.t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

func TestAServerTakesTokensOfAnIdentityProvider(t *testing.T) {
	dir, exits := dataProject(t, "")
	data := filepath.Join(dir, "data")
	m := newMachine(t, data)
	p := newProvider(t)
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0", "--jwt-issuer", p.URL, "--jwt-audience", "shop", "--jwt-tenant-claim", "org", "--jwt-scopes-claim", "scp", "--jwt-scope", "runs:read,runs:write,threads:read")
	ann, bob := p.token(nil), p.token(map[string]any{"org": "umbrella", "sub": "bob"})
	me := s.wants(200, `"acme"`, ann, "GET", "/v1/me", "")
	if !strings.Contains(me, "runs:write") || strings.Contains(me, "threads:read") || strings.Contains(me, "plugins:grant") {
		t.Errorf("the token's caller is %s", me)
	}
	var run struct{ ID, Thread string }
	if err := json.Unmarshal([]byte(s.wants(200, "", ann, "POST", "/v1/runs", `{"text":"hello"}`)), &run); err != nil {
		t.Fatal(err)
	}
	s.wants(200, run.ID, ann, "GET", "/v1/runs/"+run.ID, "")
	s.wants(404, "", bob, "GET", "/v1/runs/"+run.ID, "")
	s.wants(403, "threads:read", ann, "GET", "/v1/threads", "")
	s.wants(403, "", ann, "GET", "/v1/admin/tenants", "")
	s.wants(200, run.ID, m.key(t), "GET", "/v1/runs/"+run.ID, "")

	for name, claims := range map[string]map[string]any{
		"another audience": {"aud": "other"}, "another issuer": {"iss": "https://login.example.com"}, "expired": {"exp": time.Now().Add(-time.Hour).Unix()},
		"no tenant": {"org": ""}, "a tenant that is none": {"org": 7},
	} {
		t.Log(name)
		s.wants(401, "unauthenticated", p.token(claims), "GET", "/v1/me", "")
	}
	s.wants(401, "unauthenticated", ann[:len(ann)-8]+"AAAAAAAA", "GET", "/v1/me", "")
	s.wants(403, "", p.token(map[string]any{"scp": "openid email"}), "POST", "/v1/runs", `{"text":"hello"}`)

	exits(cli.ExitOK, "", "tenant", "create", "acme", "--data", data)
	exits(cli.ExitOK, "", "tenant", "suspend", "acme", "--data", data)
	s.becomes(403, "permission_denied", ann, "GET", "/v1/me", "")
	s.wants(200, "umbrella", bob, "GET", "/v1/me", "")
	http.DefaultClient.CloseIdleConnections()
	s.end()
}

func TestFlagsOfTokensThatDoNotGoTogether(t *testing.T) {
	dir, exits := dataProject(t, "")
	whole := []string{"--jwt-issuer", "https://login.example.com", "--jwt-audience", "shop", "--jwt-tenant-claim", "org"}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--jwt-issuer is required", whole[2:]},
		{"--jwt-audience is required", whole[:2]},
		{"--jwt-tenant-claim is required", whole[:4]},
		{"in the clear", append([]string{"--jwt-issuer", "http://login.example.com"}, whole[2:]...)},
		{"in the clear", append([]string{"--jwt-issuer", "login.example.com"}, whole[2:]...)},
		{"is no scope", append([]string{"--jwt-scope", "everything"}, whole...)},
	} {
		exits(cli.ExitUsage, c.want, append([]string{"serve", dir, "--data", filepath.Join(dir, "data")}, c.args...)...)
	}
}
