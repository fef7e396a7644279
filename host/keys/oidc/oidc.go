// Package oidc verifies tokens of an OpenID Connect provider, for the Tokens of a
// keys.Store: users and services of a tenant then need no API key.
//
//	verifier, err := oidc.New(&oidc.Config{Issuer: "https://login.example.com", Audience: "agenthost", TenantClaim: "org_id"})
//	store := keys.New(driver, &keys.Options{Tokens: verifier})
//
// A token is a JWT of the issuer, for the audience, signed by one of the issuer's keys with
// one of [Config].Algorithms, and not expired. The tenant is that of a claim, so the issuer
// decides it: use one that the issuer's users cannot set.
//
// The provider is found and its keys are read when the first token comes, and read again
// for a token with a new key, at most once a second. Until the provider has answered once,
// tokens are refused with code unavailable.
package oidc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
)

const (
	fetchTimeout  = 10 * time.Second
	fetchInterval = time.Second // between reads of the provider's keys
	findInterval  = 5 * time.Second
	maxBodyBytes  = 1 << 20 // of an answer of the provider
)

// Config says which tokens are valid, and whose they are.
type Config struct {
	Issuer   string // https://login.example.com, as tokens have it in iss
	Audience string // in aud

	// TenantClaim names the claim with the tenant. Required unless Admin.
	TenantClaim string
	// Admin makes each valid token an administrator's, of no tenant.
	Admin bool

	// ScopesClaim names the claim with the scopes, a list or a text with spaces between
	// them (scope). Scopes bounds them: those that it leaves out are dropped, and nil
	// keeps none.
	ScopesClaim string
	Scopes      []string

	// Key is the name by which usage of these callers is recorded (oidc).
	Key string

	Algorithms []string          // of signatures (RS256, ES256)
	Transport  http.RoundTripper // to the provider (http.DefaultTransport)
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the provider was found
	tried    time.Time
}

var _ keys.TokenVerifier = (*Verifier)(nil)

// New returns a Verifier. It connects to nothing. Code invalid_argument for a Config without
// an issuer, an audience or a claim for the tenant.
func New(config *Config) (*Verifier, error) {
	if config == nil || config.Issuer == "" || config.Audience == "" {
		return nil, fault.Errorf(fault.InvalidArgument, "tokens of a provider need an issuer and an audience")
	}
	if (config.TenantClaim == "") != config.Admin {
		return nil, fault.Errorf(fault.InvalidArgument, "tokens of %q need either a claim with the tenant or Admin", config.Issuer)
	}
	v := &Verifier{config: *config}
	c := &v.config
	c.ScopesClaim, c.Key = cmp.Or(c.ScopesClaim, "scope"), cmp.Or(c.Key, "oidc")
	if c.Algorithms = slices.Clone(c.Algorithms); c.Algorithms == nil {
		c.Algorithms = []string{oidc.RS256, oidc.ES256}
	}
	for _, a := range c.Algorithms {
		if !slices.Contains([]string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}, a) {
			return nil, fault.Errorf(fault.InvalidArgument, "%.20q is no algorithm of signatures with a public key", a)
		}
	}
	transport := c.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	v.client = &http.Client{Timeout: fetchTimeout, Transport: bounded{transport}}
	return v, nil
}

// bounded is a transport whose answers have a bound.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxBodyBytes)
	}
	return resp, err
}

// VerifyToken implements keys.TokenVerifier.
func (v *Verifier) VerifyToken(ctx context.Context, credential string) (*keys.Principal, error) {
	if strings.Count(credential, ".") != 2 {
		return nil, refused(nil)
	}
	verifier, err := v.find(ctx)
	if err != nil {
		return nil, err
	}
	failed := new(error)
	token, err := verifier.Verify(context.WithValue(ctx, fetchKey{}, failed), credential)
	switch {
	case *failed != nil && ctx.Err() != nil:
		return nil, fault.ContextError(ctx)
	case *failed != nil:
		return nil, unavailable(v.config.Issuer, *failed)
	case err != nil:
		return nil, refused(err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, refused(err)
	}
	return v.principal(token, claims)
}

func refused(err error) error {
	return &fault.Error{Code: fault.Unauthenticated, Message: "the token is not valid", Err: err}
}

func unavailable(issuer string, err error) error {
	return &fault.Error{Code: fault.Unavailable, Message: "the provider " + issuer + " does not answer", Retryable: true, Err: err}
}

func (v *Verifier) principal(token *oidc.IDToken, claims map[string]any) (*keys.Principal, error) {
	p := &keys.Principal{Key: v.config.Key, Admin: v.config.Admin, Subject: token.Subject, Expires: token.Expiry, Scopes: v.scopes(claims)}
	if !v.config.Admin {
		p.Tenant, _ = claims[v.config.TenantClaim].(string)
		if err := host.ValidateTenant(p.Tenant); err != nil {
			return nil, refused(err)
		}
	}
	if p.Subject != "" {
		if err := chat.ValidateID("subject", p.Subject, keys.MaxSubjectBytes); err != nil {
			return nil, refused(err)
		}
	}
	return p, nil
}

// scopes returns the scopes of a token that the configuration keeps.
func (v *Verifier) scopes(claims map[string]any) []string {
	var given []string
	switch claim := claims[v.config.ScopesClaim].(type) {
	case string:
		given = strings.Fields(claim)
	case []any:
		for _, c := range claim {
			if s, ok := c.(string); ok {
				given = append(given, s)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(v.config.Scopes), func(s string) bool { return !slices.Contains(given, s) })
}

// find returns the provider's verifier, after it has found the provider. Calls wait for
// each other, and one that failed is not repeated for some time.
func (v *Verifier) find(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.verifier != nil {
		return v.verifier, nil
	}
	if time.Since(v.tried) < findInterval {
		return nil, unavailable(v.config.Issuer, nil)
	}
	v.tried = time.Now()
	// The answer serves other callers too, so it does not end with this one.
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), v.client), fetchTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, v.config.Issuer)
	if err != nil {
		return nil, unavailable(v.config.Issuer, err)
	}
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil || found.Keys == "" {
		return nil, unavailable(v.config.Issuer, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	set := &keySet{next: oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), &http.Client{
		Timeout: fetchTimeout, Transport: &spaced{next: v.client.Transport},
	}), found.Keys)}
	v.verifier = oidc.NewVerifier(v.config.Issuer, set, &oidc.Config{ClientID: v.config.Audience, SupportedSigningAlgs: v.config.Algorithms})
	return v.verifier, nil
}

// fetchKey is the context's key for a *error, which keySet sets if keys could not be read.
type fetchKey struct{}

// keySet tells a wrong signature from keys that could not be read.
type keySet struct{ next oidc.KeySet }

func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.next.VerifySignature(ctx, jwt)
	if cause := errors.Unwrap(err); cause != nil && !errors.Is(err, errTooSoon) { // a wrong signature has no cause
		if failed, ok := ctx.Value(fetchKey{}).(*error); ok {
			*failed = cause
		}
	}
	return payload, err
}

// errTooSoon is the error of a read of the keys that comes too soon after the last one: the
// token has a key that the provider did not have then.
var errTooSoon = errors.New("the keys of the provider were read a moment ago")

// spaced is a transport that refuses a request soon after the last one that was answered,
// so that tokens with invented keys do not reach the provider.
type spaced struct {
	next http.RoundTripper

	mu   sync.Mutex
	last time.Time
}

func (s *spaced) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	soon := time.Since(s.last) < fetchInterval
	s.mu.Unlock()
	if soon {
		return nil, errTooSoon
	}
	resp, err := s.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK {
		s.mu.Lock()
		s.last = time.Now()
		s.mu.Unlock()
	}
	return resp, err
}
