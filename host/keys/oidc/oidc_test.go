package oidc_test

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/keys/oidc"
	"github.com/agenthost/agenthost/host/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is an identity provider behind a listener.
type provider struct {
	*httptest.Server
	key    *rsa.PrivateKey
	reads  atomic.Int64 // of its keys
	broken atomic.Bool
}

func newProvider(t *testing.T) *provider {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key}
	of := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k1", Algorithm: "RS256"}}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.broken.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if !strings.Contains(r.URL.Path, "well-known") {
			p.reads.Add(1)
		}
		of.ServeHTTP(w, r)
	}))
	of.SetIssuer(p.URL)
	t.Cleanup(p.Close)
	return p
}

// token returns a token whose claims are the valid ones, with some replaced.
func (p *provider) token(keyID string, key *rsa.PrivateKey, replace ...string) string {
	claims := fmt.Sprintf(`{"iss":%q,"aud":"agenthost","sub":"ann","org":"acme","scope":"runs:write other","exp":%d}`, p.URL, time.Now().Add(time.Hour).Unix())
	return oidctest.SignIDToken(key, keyID, "RS256", strings.NewReplacer(replace...).Replace(claims))
}

func (p *provider) verifier(t *testing.T, change func(*oidc.Config)) *oidc.Verifier {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &oidc.Config{Issuer: p.URL, Audience: "agenthost", TenantClaim: "org", Scopes: []string{"runs:write", "runs:read"}, Transport: transport}
	if change != nil {
		change(c)
	}
	v, err := oidc.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTokensOfTheProviderAreVerified(t *testing.T) {
	p := newProvider(t)
	s := keys.New(kv.NewMemory(), &keys.Options{Tokens: p.verifier(t, nil)})
	defer func() { _ = s.Close() }()
	who, err := s.Verify(t.Context(), p.token("k1", p.key))
	if err != nil || who.Tenant != "acme" || who.Subject != "ann" || who.Admin || !slices.Equal(who.Scopes, []string{"runs:write"}) {
		t.Fatalf("Verify = %+v, %v", who, err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := p.token("k1", p.key)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"another audience": p.token("k1", p.key, `"agenthost"`, `"others"`), "another issuer": p.token("k1", p.key, p.URL, "https://evil.example"),
		"expired": p.token("k1", p.key, `"exp":`, `"exp":1,"x":`), "no tenant": p.token("k1", p.key, `"org"`, `"team"`),
		"a tenant of the host's": p.token("k1", p.key, `"acme"`, `"agenthost/keys"`), "a tenant that is no text": p.token("k1", p.key, `"acme"`, `{}`),
		"another key": p.token("k1", other), "an unknown key": p.token("k2", other), "no signature": parts[0] + "." + parts[1] + ".",
		"algorithm none": "eyJhbGciOiJub25lIn0." + parts[1] + ".", "HMAC": "eyJhbGciOiJIUzI1NiJ9." + parts[1] + "." + parts[2],
		"not base64": "a.b.c", "two parts": parts[0] + "." + parts[1],
	} {
		if _, err := s.Verify(t.Context(), token); fault.CodeOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAdministratorsHaveNoTenant(t *testing.T) {
	p := newProvider(t)
	v := p.verifier(t, func(c *oidc.Config) { c.TenantClaim, c.Admin = "", true })
	if who, err := v.VerifyToken(t.Context(), p.token("k1", p.key)); err != nil || !who.Admin || who.Tenant != "" {
		t.Errorf("VerifyToken = %+v, %v", who, err)
	}
}

func TestInventedKeysDoNotReachTheProvider(t *testing.T) {
	p := newProvider(t)
	v := p.verifier(t, nil)
	good := p.token("k1", p.key)
	var invented []string
	for i := range 50 {
		invented = append(invented, p.token(fmt.Sprint("invented", i), p.key))
	}
	began := time.Now()
	if _, err := v.VerifyToken(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	for _, token := range invented {
		if _, err := v.VerifyToken(t.Context(), token); fault.CodeOf(err) != fault.Unauthenticated {
			t.Errorf("an invented key: %v", err)
		}
	}
	// They are read at most once a second, which a slow machine has more of.
	if n, took := p.reads.Load(), time.Since(began); n > 1+int64(took/time.Second) {
		t.Errorf("the keys were read %d times in %s", n, took)
	}
}

func TestProviderThatIsDownIsNotAWrongToken(t *testing.T) {
	p := newProvider(t)
	p.broken.Store(true)
	v := p.verifier(t, nil)
	token := p.token("k1", p.key)
	for range 2 {
		if _, err := v.VerifyToken(t.Context(), token); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("VerifyToken: %v", err)
		}
	}
}

func TestBadConfigsAreRefused(t *testing.T) {
	for name, c := range map[string]*oidc.Config{
		"nil": nil, "no audience": {Issuer: "https://a.example", TenantClaim: "org"}, "no tenant": {Issuer: "https://a.example", Audience: "a"},
		"tenant and admin": {Issuer: "https://a.example", Audience: "a", TenantClaim: "org", Admin: true},
		"HMAC":             {Issuer: "https://a.example", Audience: "a", TenantClaim: "org", Algorithms: []string{"HS256"}},
		"none":             {Issuer: "https://a.example", Audience: "a", TenantClaim: "org", Algorithms: []string{"none"}},
	} {
		if _, err := oidc.New(c); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
