package runcmd

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/keys/oidc"
)

// tokenFlags say which JWTs of an identity provider a server takes beside keys.
type tokenFlags struct {
	issuer, audience string
	tenantClaim      string
	scopesClaim      string
	scopes           []string
}

func (f *tokenFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.issuer, "jwt-issuer", "", "take JWTs of this OpenID Connect provider beside keys, as they have it in iss: https://login.example.com")
	flags.StringVar(&f.audience, "jwt-audience", "", "with --jwt-issuer: what the tokens have in aud (required)")
	flags.StringVar(&f.tenantClaim, "jwt-tenant-claim", "", "with --jwt-issuer: the claim with the tenant, which users cannot set (required)")
	flags.StringVar(&f.scopesClaim, "jwt-scopes-claim", "scope", "with --jwt-issuer: the claim with the scopes, a list or a text with spaces")
	flags.StringSliceVar(&f.scopes, "jwt-scope", nil, "with --jwt-issuer: a scope that tokens may have, if theirs names it (default: each of tenants)")
}

// check refuses flags that do not go together, and providers whose keys would come in the
// clear.
func (f *tokenFlags) check() error {
	switch {
	case f.issuer == "" && (f.audience != "" || f.tenantClaim != "" || len(f.scopes) > 0):
		return errors.New("--jwt-issuer is required: the other flags of JWTs say which of its tokens are valid")
	case f.issuer == "":
		return nil
	case f.audience == "":
		return errors.New("--jwt-audience is required: tokens of the provider for other programs must not be valid here")
	case f.tenantClaim == "":
		return errors.New("--jwt-tenant-claim is required: the claim with the tenant of a token, which users cannot set")
	}
	at, err := url.Parse(f.issuer)
	if err != nil || at.Host == "" || at.Scheme != "https" && (at.Scheme != "http" || !isLoopback(at.Hostname())) {
		return fmt.Errorf("--jwt-issuer %q is no https: address: the keys of the provider would come in the clear", f.issuer)
	}
	for _, scope := range f.scopes {
		if !slices.Contains(httpapi.Scopes(), scope) {
			return fmt.Errorf("--jwt-scope %q is no scope: there are %s", scope, strings.Join(httpapi.Scopes(), ", "))
		}
	}
	return nil
}

// verifier returns the verifier of tokens; nil without a provider.
func (f *tokenFlags) verifier() (keys.TokenVerifier, error) {
	if f.issuer == "" {
		return nil, nil
	}
	scopes := f.scopes
	if len(scopes) == 0 {
		scopes = httpapi.Scopes()
	}
	return oidc.New(&oidc.Config{Issuer: f.issuer, Audience: f.audience, TenantClaim: f.tenantClaim, ScopesClaim: f.scopesClaim, Scopes: scopes})
}
