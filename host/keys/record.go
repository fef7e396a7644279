package keys

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// The bounds of keys.
const (
	MaxKeys       = 1000 // of a tenant, and of administrators
	MaxNameBytes  = 200
	MaxScopes     = 64
	MaxScopeBytes = 64
)

// partition is that of all keys. No tenant can have its name.
const partition = "agenthost/keys"

// Where things are in the partition:
//
//	key/<id>         the record of a tenant's key
//	admin/<id>       the record of an administrator's key
//	ring/<tenant>    the ids of a tenant's keys
//	admins           the ids of the administrators' keys
//	used/<kind>/<id> the last use of a key
var (
	keyRows   = kv.NewKey("key")
	adminRows = kv.NewKey("admin")
	ringRows  = kv.NewKey("ring")
	adminRing = kv.NewKey("admins")
	usedRows  = kv.NewKey("used")
)

const layout = 1

// record is the stored form of a key.
type record struct {
	V       int       `json:"v"`
	Tenant  string    `json:"tenant,omitempty"`
	Name    string    `json:"name,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Secrets []hashed  `json:"secrets"` // the newest first; at most two
}

// hashed is the stored form of a secret.
type hashed struct {
	Sum     []byte    `json:"sum"`              // SHA-256
	Sealer  []byte    `json:"sealer"`           // of the tokens that are minted while the secret is the newest
	Expires time.Time `json:"expires,omitzero"` // the end of the overlap, of a secret that was replaced
}

func newHashed(secret [secretLen]byte) hashed {
	sum, sealer := sha256.Sum256(secret[:]), newSecret()
	return hashed{Sum: sum[:], Sealer: sealer[:]}
}

// ring is the list of a tenant's keys, in the order of their ids.
type ring struct {
	V   int      `json:"v"`
	IDs []string `json:"ids"`
}

func recordKey(k kind, id string) kv.Key {
	if k == adminKey {
		return adminRows.With(id)
	}
	return keyRows.With(id)
}

func usedKey(k kind, id string) kv.Key {
	if k == adminKey {
		return usedRows.With("admin", id)
	}
	return usedRows.With("key", id)
}

func decode(value []byte, v any, version *int) error {
	if err := kv.DecodeRecord(value, v); err != nil {
		return err
	}
	if *version > layout {
		return kv.ErrFormat
	}
	return nil
}

func over(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// matching returns the newest secret that matches, of those that are not over. Each one
// is compared, so that the time does not tell which it was.
func (r *record) matching(now time.Time, matches func(*hashed) bool) bool {
	found := false
	for i := range r.Secrets {
		s := &r.Secrets[i]
		found = matches(s) && !over(s.Expires, now) || found
	}
	return found && !over(r.Expires, now)
}

// noRecord stands for the record of an id that there is not: checking it costs as much.
var noRecord = &record{Secrets: []hashed{{Sum: make([]byte, sha256.Size), Sealer: make([]byte, secretLen), Expires: time.Unix(1, 0)}}}

// verify returns the principal of a credential, or nil if it is not valid at now.
func (r *record) verify(c *credential, now time.Time) *Principal {
	p := &Principal{Tenant: r.Tenant, Key: c.id, Scopes: slices.Clone(r.Scopes), Admin: c.kind == adminKey, Expires: r.Expires}
	if c.kind == pageToken {
		return r.verifyToken(p, c, now)
	}
	sum := sha256.Sum256(c.secret[:])
	if !r.matching(now, func(s *hashed) bool { return subtle.ConstantTimeCompare(s.Sum, sum[:]) == 1 }) {
		return nil
	}
	return p
}

func (r *record) verifyToken(p *Principal, c *credential, now time.Time) *Principal {
	sealed := r.matching(now, func(s *hashed) bool {
		return subtle.ConstantTimeCompare(sealOf(c.sealed, s.Sealer), c.secret[:]) == 1
	})
	if !sealed || over(c.claims.expires(), now) {
		return nil
	}
	p.Thread, p.Origin, p.Subject = c.claims.Thread, c.claims.Origin, c.claims.Subject
	p.Scopes = slices.DeleteFunc(slices.Clone(c.claims.Scopes), func(s string) bool { return !slices.Contains(r.Scopes, s) })
	if end := c.claims.expires(); p.Expires.IsZero() || end.Before(p.Expires) {
		p.Expires = end
	}
	return p
}

// checkScopes returns an error of code invalid_argument for names that no scope has.
func checkScopes(scopes []string) error {
	if len(scopes) > MaxScopes {
		return fault.Errorf(fault.InvalidArgument, "a key of %d scopes: it has at most %d", len(scopes), MaxScopes)
	}
	for i, s := range scopes {
		if s == "" || len(s) > MaxScopeBytes || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			return fault.Errorf(fault.InvalidArgument, "scope %.80q: a scope has from 1 to %d printable ASCII characters without spaces, quotes and backslashes", s, MaxScopeBytes)
		}
		if slices.Contains(scopes[:i], s) {
			return fault.Errorf(fault.InvalidArgument, "scope %q is given twice", s)
		}
	}
	return nil
}

func isMissing(err error) bool { return errors.Is(err, kv.ErrNotFound) }
