package keys

import (
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Principal is the caller that a credential names.
type Principal struct {
	Tenant  string   // whose data it reaches; empty for an administrator
	Key     string   // the id of the API key, also of a token's; usage is recorded by it
	Scopes  []string // the rights of the credential; the names are the caller's
	Admin   bool     // it is an administrator
	Thread  string   // of a token: the only thread that it reaches; empty is each of the tenant's
	Origin  string   // of a token: the origin of the pages that may use it, such as https://app.example.com
	Subject string   // the tenant's user, as the token or the identity provider names it

	Expires time.Time // the end of the credential; zero has none
}

// Has reports whether the principal has a scope.
func (p *Principal) Has(scope string) bool { return slices.Contains(p.Scopes, scope) }

// Require returns an error of code permission_denied unless the principal has a scope.
func (p *Principal) Require(scope string) error {
	if p.Has(scope) {
		return nil
	}
	return fault.Errorf(fault.PermissionDenied, "the credential has no scope %q", scope).
		WithHint("use a key that has it")
}

// RequireAdmin returns an error of code permission_denied unless the principal is an
// administrator. A tenant's key of any scope is none.
func (p *Principal) RequireAdmin() error {
	if p.Admin {
		return nil
	}
	return fault.Errorf(fault.PermissionDenied, "the credential is not an administrator's")
}

// errCredential is the answer to each credential that is not valid.
func errCredential() error {
	return fault.Errorf(fault.Unauthenticated, "the credential is not valid").
		WithHint("send a key as Authorization: Bearer ah_live_...; keys expire, and can be revoked")
}
