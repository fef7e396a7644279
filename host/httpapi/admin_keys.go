package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/tenants"
)

// NewKey is the body of POST /v1/admin/tenants/{tenant}/keys and POST /v1/admin/keys.
type NewKey struct {
	Name    string    `json:"name,omitempty" description:"for people"`
	Scopes  []string  `json:"scopes" description:"what the key allows"`
	Expires time.Time `json:"expires,omitzero" description:"absent is never"`
}

// Rotation is the body of POST .../keys/{key}/rotate.
type Rotation struct {
	Overlap tenants.Duration `json:"overlap,omitzero" description:"how long the present secret stays valid, such as 24h; absent ends it now"`
}

// IssuedKey is a key with its credential, which no other answer has.
type IssuedKey struct {
	Credential string    `json:"credential" description:"the key: it is shown once"`
	Key        *keys.Key `json:"key"`
}

// KeyPage is a page of keys without their secrets.
type KeyPage struct {
	Keys []*keys.Key `json:"keys" description:"in the order of their ids"`
	Next string      `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// keyHandlers answer the routes of keys, of the tenant in the path or of administrators.
type keyHandlers struct{ store *keys.Store }

func (h *keyHandlers) routes() []*route {
	return append(h.routesAt("/v1/admin/tenants/{tenant}/keys", "Tenant", "a tenant", "key."), h.routesAt("/v1/admin/keys", "Admin", "administrators", "admin_key.")...)
}

// routesAt returns the routes of the keys of one kind.
func (h *keyHandlers) routesAt(path, kind, whose, action string) []*route {
	return []*route{
		{method: "GET", path: path, id: "list" + kind + "Keys", scope: ReadKeys, query: []param{limitParam, cursorParam},
			summary: "List the keys of " + whose + ", without their secrets.", answer: KeyPage{}, handle: h.list},
		{method: "POST", path: path, id: "create" + kind + "Key", scope: WriteKeys, audit: action + "create", headers: []param{keyParam},
			summary: "Make a key of " + whose + ". The answer alone has its credential.", body: NewKey{}, status: http.StatusCreated, answer: IssuedKey{}, handle: h.create},
		{method: "GET", path: path + "/{key}", id: "get" + kind + "Key", scope: ReadKeys,
			summary: "Read a key of " + whose + ".", answer: keys.Key{}, handle: h.get},
		{method: "POST", path: path + "/{key}/rotate", id: "rotate" + kind + "Key", scope: WriteKeys, audit: action + "rotate",
			summary: "Give a key of " + whose + " another secret.", body: Rotation{}, answer: IssuedKey{}, handle: h.rotate},
		{method: "DELETE", path: path + "/{key}", id: "revoke" + kind + "Key", scope: WriteKeys, audit: action + "revoke",
			summary: "End a key of " + whose + ", with its tokens.", status: http.StatusNoContent, handle: h.revoke},
	}
}

// ofTenant reports whether the path names a tenant.
func (c *call) ofTenant() bool { return slices.Contains(c.route.pathNames(), "tenant") }

// ring returns the keys of the tenant in the path, or of administrators.
func (h *keyHandlers) ring(c *call) (*keys.Keyring, error) {
	if !c.ofTenant() {
		return h.store.Admins(), nil
	}
	id, err := c.path("tenant")
	return h.store.Of(id), err
}

// key returns the keys and the id in the path.
func (h *keyHandlers) key(c *call) (*keys.Keyring, string, error) {
	ring, err := h.ring(c)
	if err != nil {
		return nil, "", err
	}
	id, err := c.path("key")
	return ring, id, err
}

func (h *keyHandlers) list(c *call) error {
	ring, err := h.ring(c)
	if err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	page, next, err := ring.List(c.ctx, c.query.text("cursor"), limit)
	if err != nil {
		return err
	}
	return c.answer(KeyPage{page, next})
}

// checkKey refuses to give an administrator's key with rights that the caller lacks: one that
// may write keys would have all rights otherwise.
func (h *keyHandlers) checkKey(c *call, scopes []string) error {
	if c.ofTenant() {
		return nil
	}
	for _, s := range scopes {
		if !c.principal.Has(s) {
			return host.Errorf(host.PermissionDenied, "the credential lacks the scope %s, which the key would have", s).WithHint("give it scopes of your own, or ask an administrator who has that scope")
		}
	}
	return nil
}

// checkNewKey refuses scopes that no route asks for, and those of checkKey.
func (h *keyHandlers) checkNewKey(c *call, in *NewKey) error {
	known := AdminScopes()
	if c.ofTenant() {
		known = Scopes()
	}
	for _, s := range in.Scopes {
		if !slices.Contains(known, s) {
			return host.Errorf(host.InvalidArgument, "there is no scope %.80q", s).WithHint("the scopes are %s", strings.Join(known, ", "))
		}
	}
	return h.checkKey(c, in.Scopes)
}

func (h *keyHandlers) create(c *call) error {
	var in NewKey
	if err := c.body(&in); err != nil {
		return err
	}
	ring, err := h.ring(c)
	if err != nil {
		return err
	}
	if err := h.checkNewKey(c, &in); err != nil {
		return err
	}
	sent, err := c.takeKey(&in)
	if err != nil {
		return err
	}
	if sent.again { // its credential is kept nowhere
		return host.Errorf(host.Conflict, "the request was sent before, and its answer alone has the credential").WithHint("look for the key in the list, and give it another secret or revoke it")
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	credential, key, err := ring.Create(c.ctx, &keys.Spec{Name: in.Name, Scopes: in.Scopes, Expires: in.Expires})
	if err != nil {
		return err
	}
	c.audit.made("key", key.ID)
	c.w.Header().Set("Location", c.r.URL.EscapedPath()+"/"+url.PathEscape(key.ID))
	return c.answer(IssuedKey{credential, key})
}

func (h *keyHandlers) get(c *call) error {
	ring, id, err := h.key(c)
	if err != nil {
		return err
	}
	key, err := ring.Get(c.ctx, id)
	if err != nil {
		return err
	}
	return c.answer(key)
}

func (h *keyHandlers) rotate(c *call) error {
	var in Rotation
	if err := c.body(&in); err != nil {
		return err
	}
	ring, id, err := h.key(c)
	if err != nil {
		return err
	}
	present, err := ring.Get(c.ctx, id)
	if err != nil {
		return err
	}
	if err := h.checkKey(c, present.Scopes); err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	credential, key, err := ring.Rotate(c.ctx, id, time.Duration(in.Overlap))
	if err != nil {
		return err
	}
	return c.answer(IssuedKey{credential, key})
}

func (h *keyHandlers) revoke(c *call) error {
	ring, id, err := h.key(c)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if err := ring.Revoke(c.ctx, id); err != nil {
		return err
	}
	return c.answer(nil)
}
