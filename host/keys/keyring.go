package keys

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The bounds of tokens and of pages of lists.
const (
	DefaultTokenLife = 10 * time.Minute
	MaxTokenLife     = time.Hour
	MaxOriginBytes   = 300
	MaxSubjectBytes  = 256
	DefaultListLimit = 100
	MaxOverlap       = 90 * 24 * time.Hour
	maxAttempts      = 64 // of a change, after other hosts were faster
)

// Key is an API key without its secret.
type Key struct {
	ID       string    `json:"id"`
	Prefix   string    `json:"prefix"` // as its credentials begin: ah_live_ID
	Tenant   string    `json:"tenant,omitempty"`
	Name     string    `json:"name,omitempty"`
	Scopes   []string  `json:"scopes"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
	Replaces time.Time `json:"replaces,omitzero"`  // until then the secret before the last rotation is valid too
	LastUsed time.Time `json:"last_used,omitzero"` // to the minute
}

// Spec says how a key is made.
type Spec struct {
	Name    string    // for people, at most 200 bytes
	Scopes  []string  // the rights of the key, at most 64; none allows nothing that needs one
	Expires time.Time // zero never
}

// Keyring is the keys of a tenant, or of the administrators.
type Keyring struct {
	store  *Store
	kind   kind
	tenant string
}

// Of returns the keys of a tenant. The methods of the keys of a tenant that there cannot
// be fail with the error of [host.ValidateTenant].
func (s *Store) Of(tenant string) *Keyring { return &Keyring{s, tenantKey, tenant} }

// Admins returns the keys of administrators, who are no tenant's.
func (s *Store) Admins() *Keyring { return &Keyring{s, adminKey, ""} }

func (r *Keyring) check() error {
	if r.kind == adminKey {
		return nil
	}
	return host.ValidateTenant(r.tenant)
}

func (r *Keyring) rows() kv.Key {
	if r.kind == adminKey {
		return adminRing
	}
	return ringRows.With(r.tenant)
}

// Create makes a key and returns its credential, which is not kept. Code invalid_argument
// for a bad Spec, resource_exhausted if there are [MaxKeys].
func (r *Keyring) Create(ctx context.Context, spec *Spec) (credential string, key *Key, err error) {
	if err := cmp.Or(r.check(), spec.check(time.Now())); err != nil {
		return "", nil, err
	}
	secret := newSecret()
	rec := &record{
		V: layout, Tenant: r.tenant, Name: spec.Name, Scopes: slices.Clone(spec.Scopes),
		Created: time.Now().UTC().Truncate(time.Second), Expires: spec.Expires.UTC(), Secrets: []hashed{newHashed(secret)},
	}
	if spec.Expires.IsZero() {
		rec.Expires = time.Time{}
	}
	value, err := kv.EncodeRecord(rec)
	if err != nil {
		return "", nil, kverror.Wrap(err, "create a key")
	}
	id := ""
	err = r.change(ctx, func(ids []string) ([]string, *kv.Tx, error) {
		if len(ids) >= MaxKeys {
			return nil, nil, fault.Errorf(fault.ResourceExhausted, "there are %d keys, as many as MaxKeys allows", MaxKeys).
				WithHint("revoke keys that are not used")
		}
		id = newID() // another one in each attempt: two keys may have got the same
		at, _ := slices.BinarySearch(ids, id)
		row := recordKey(r.kind, id)
		return slices.Insert(ids, at, id), &kv.Tx{Conds: []kv.Cond{kv.Absent(row)}, Writes: []kv.Write{kv.Put(row, value)}}, nil
	})
	if err != nil {
		return "", nil, kverror.Wrap(err, "create a key")
	}
	r.store.changed(r.kind, id)
	return keyText(r.kind, id, secret), r.key(id, rec, time.Time{}), nil
}

func (s *Spec) check(now time.Time) error {
	if s == nil {
		return fault.Errorf(fault.InvalidArgument, "a key needs a spec")
	}
	if err := checkText("name of a key", s.Name, MaxNameBytes); err != nil {
		return err
	}
	if over(s.Expires, now) {
		return fault.Errorf(fault.InvalidArgument, "the key would have expired at %s", s.Expires.Format(time.RFC3339)).
			WithHint("give it a later end, or none")
	}
	return checkScopes(s.Scopes)
}

// checkText returns an error unless text is empty or could be an id.
func checkText(name, text string, limit int) error {
	if text == "" {
		return nil
	}
	return chat.ValidateID(name, text, limit)
}

// change changes the list of ids, with the writes that belong to it.
func (r *Keyring) change(ctx context.Context, do func(ids []string) ([]string, *kv.Tx, error)) error {
	for range maxAttempts {
		ids, revision, err := r.ids(ctx)
		if err != nil {
			return err
		}
		ids, tx, err := do(ids)
		if err != nil {
			return err
		}
		tx.Partition = partition
		tx.Conds = append(tx.Conds, kv.AtRevision(r.rows(), revision))
		write := kv.Delete(r.rows())
		if len(ids) > 0 {
			value, err := kv.EncodeRecord(ring{V: layout, IDs: ids})
			if err != nil {
				return err
			}
			write = kv.Put(r.rows(), value)
		}
		tx.Writes = append(tx.Writes, write)
		if _, err = kv.Apply(ctx, r.store.driver, *tx); !errors.Is(err, kv.ErrPrecondition) {
			return err
		}
	}
	return fault.Errorf(fault.Unavailable, "other hosts have changed the keys first, %d times", maxAttempts).WithHint("try again")
}

// ids returns the ids of the keys, in order.
func (r *Keyring) ids(ctx context.Context) ([]string, uint64, error) {
	e, err := r.store.driver.Get(ctx, partition, r.rows())
	switch {
	case isMissing(err):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	var list ring
	err = decode(e.Value, &list, &list.V)
	return list.IDs, e.Revision, err
}

// load returns the record of one of the keys. Code not_found for any other id.
func (r *Keyring) load(ctx context.Context, id string) (*record, uint64, error) {
	if err := r.check(); err != nil {
		return nil, 0, err
	}
	if validID(id) {
		e, err := r.store.driver.Get(ctx, partition, recordKey(r.kind, id))
		if err != nil && !isMissing(err) {
			return nil, 0, kverror.Wrap(err, "read key %s", id)
		}
		if err == nil {
			rec := &record{}
			if err := decode(e.Value, rec, &rec.V); err != nil {
				return nil, 0, kverror.Wrap(err, "read key %s", id)
			}
			if rec.Tenant == r.tenant { // another tenant's is not found
				return rec, e.Revision, nil
			}
		}
	}
	return nil, 0, fault.Errorf(fault.NotFound, "there is no key %.20q", id)
}

// Get returns a key. Code not_found, also for a key of another tenant.
func (r *Keyring) Get(ctx context.Context, id string) (*Key, error) {
	rec, _, err := r.load(ctx, id)
	if err != nil {
		return nil, err
	}
	used, err := r.store.lastUse(ctx, cacheKey{r.kind, id})
	if err != nil {
		return nil, kverror.Wrap(err, "read key %s", id)
	}
	return r.key(id, rec, used), nil
}

func (r *Keyring) key(id string, rec *record, used time.Time) *Key {
	k := &Key{ID: id, Prefix: r.kind.prefix() + id, Tenant: rec.Tenant, Name: rec.Name, Scopes: append([]string{}, rec.Scopes...),
		Created: rec.Created, Expires: rec.Expires, LastUsed: used}
	if len(rec.Secrets) > 1 && !over(rec.Secrets[1].Expires, time.Now()) {
		k.Replaces = rec.Secrets[1].Expires
	}
	return k
}

// List returns the keys whose ids are after the given one, in the order of ids, at most
// limit of them (100, also if limit is 0 or more), and the id to continue after, or "".
func (r *Keyring) List(ctx context.Context, after string, limit int) (page []*Key, next string, err error) {
	if err := r.check(); err != nil {
		return nil, "", err
	}
	if limit <= 0 || limit > DefaultListLimit {
		limit = DefaultListLimit
	}
	ids, _, err := r.ids(ctx)
	if err != nil {
		return nil, "", kverror.Wrap(err, "list keys")
	}
	begin, found := slices.BinarySearch(ids, after)
	if found {
		begin++
	}
	page = []*Key{}
	for i, id := range ids[begin:] {
		if i == limit {
			return page, ids[begin+i-1], nil
		}
		switch k, err := r.Get(ctx, id); {
		case err == nil:
			page = append(page, k)
		case fault.CodeOf(err) != fault.NotFound: // it was revoked meanwhile
			return nil, "", err
		}
	}
	return page, "", nil
}

// Rotate gives a key another secret and returns the new credential. The present one stays
// valid for the overlap, at most [MaxOverlap]; one that an earlier rotation has replaced
// ends now. Codes not_found and invalid_argument.
func (r *Keyring) Rotate(ctx context.Context, id string, overlap time.Duration) (credential string, key *Key, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return "", nil, fault.Errorf(fault.InvalidArgument, "an overlap of %s: it is from 0 to %s", overlap, MaxOverlap)
	}
	for range maxAttempts {
		rec, revision, err := r.load(ctx, id)
		if err != nil {
			return "", nil, err
		}
		now, secret := time.Now(), newSecret()
		if over(rec.Expires, now) {
			return "", nil, fault.Errorf(fault.FailedPrecondition, "key %s has expired", id).WithHint("create another key")
		}
		secrets := []hashed{newHashed(secret)}
		if overlap > 0 {
			present := rec.Secrets[0]
			present.Expires = now.Add(overlap).UTC()
			secrets = append(secrets, present)
		}
		rec.Secrets = secrets
		value, err := kv.EncodeRecord(rec)
		if err != nil {
			return "", nil, kverror.Wrap(err, "rotate key %s", id)
		}
		row := recordKey(r.kind, id)
		_, err = kv.Apply(ctx, r.store.driver, kv.Tx{
			Partition: partition, Conds: []kv.Cond{kv.AtRevision(row, revision)}, Writes: []kv.Write{kv.Put(row, value)},
		})
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		r.store.changed(r.kind, id)
		if err != nil {
			return "", nil, kverror.Wrap(err, "rotate key %s", id)
		}
		return keyText(r.kind, id, secret), r.key(id, rec, time.Time{}), nil
	}
	return "", nil, fault.Errorf(fault.Unavailable, "other hosts have changed key %s first, %d times", id, maxAttempts).WithHint("try again")
}

// Revoke ends a key and its tokens: at once on this host, and within a second on others.
// Code not_found, also for a key of another tenant.
func (r *Keyring) Revoke(ctx context.Context, id string) error {
	if _, _, err := r.load(ctx, id); err != nil {
		return err
	}
	err := r.change(ctx, func(ids []string) ([]string, *kv.Tx, error) {
		if at, found := slices.BinarySearch(ids, id); found {
			ids = slices.Delete(ids, at, at+1)
		}
		return ids, &kv.Tx{Writes: []kv.Write{kv.Delete(recordKey(r.kind, id)), kv.Delete(usedKey(r.kind, id))}}, nil
	})
	r.store.changed(r.kind, id) // also after an error: the write may have been made
	return kverror.Wrap(err, "revoke key %s", id)
}

// Token says how a browser token is made.
type Token struct {
	Thread  string        // the only thread that it reaches
	Origin  string        // of the pages that may use it: https://app.example.com
	Scopes  []string      // of those that the key has
	Subject string        // the tenant's user, at most 256 bytes; may be empty
	Life    time.Duration // at most 1 hour (10 minutes)
}

// Mint returns a token of one of the tenant's keys, and when it ends. It writes nothing.
// Codes: invalid_argument for a bad Token, permission_denied for a scope that the key does
// not have, not_found.
func (r *Keyring) Mint(ctx context.Context, id string, t *Token) (credential string, expires time.Time, err error) {
	if r.kind == adminKey {
		return "", expires, fault.Errorf(fault.PermissionDenied, "keys of administrators have no tokens")
	}
	if err := t.check(); err != nil {
		return "", expires, err
	}
	rec, _, err := r.load(ctx, id)
	if err != nil {
		return "", expires, err
	}
	for _, s := range t.Scopes {
		if !slices.Contains(rec.Scopes, s) {
			return "", expires, fault.Errorf(fault.PermissionDenied, "key %s has no scope %q to give to a token", id, s)
		}
	}
	expires = time.Now().Add(cmp.Or(t.Life, DefaultTokenLife)).Truncate(time.Second)
	credential, err = tokenText(id, claims{Thread: t.Thread, Origin: t.Origin, Scopes: t.Scopes, Subject: t.Subject, Expires: expires.Unix()}, rec.Secrets[0].Sealer)
	if err == nil && len(credential) > maxTokenBytes {
		return "", expires, fault.Errorf(fault.InvalidArgument, "the token would have %d bytes, more than %d", len(credential), maxTokenBytes).
			WithHint("give it fewer scopes")
	}
	return credential, expires, fault.Wrap(err, "mint a token")
}

func (t *Token) check() error {
	if t == nil {
		return fault.Errorf(fault.InvalidArgument, "a token needs a thread and an origin")
	}
	if err := cmp.Or(chat.ValidateID("thread", t.Thread, chat.MaxIDBytes), checkText("subject", t.Subject, MaxSubjectBytes), checkScopes(t.Scopes)); err != nil {
		return err
	}
	if t.Life != 0 && (t.Life < time.Second || t.Life > MaxTokenLife) {
		return fault.Errorf(fault.InvalidArgument, "a token that lives for %s: it lives from 1s to %s", t.Life, MaxTokenLife)
	}
	u, err := url.Parse(t.Origin)
	if err != nil || len(t.Origin) > MaxOriginBytes || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Scheme+"://"+u.Host != t.Origin {
		return fault.Errorf(fault.InvalidArgument, "%.80q is no origin", t.Origin).
			WithHint("write it as a browser sends it, in lower case and without a path: https://app.example.com")
	}
	return nil
}
