package httpapi

import (
	"net/http"
	"net/url"
	"time"

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
		{method: "POST", path: path, id: "create" + kind + "Key", scope: WriteKeys, audit: action + "create",
			summary: "Make a key of " + whose + ". The answer alone has its credential.", body: NewKey{}, status: http.StatusCreated, answer: IssuedKey{}, handle: h.create},
		{method: "GET", path: path + "/{key}", id: "get" + kind + "Key", scope: ReadKeys,
			summary: "Read a key of " + whose + ".", answer: keys.Key{}, handle: h.get},
		{method: "POST", path: path + "/{key}/rotate", id: "rotate" + kind + "Key", scope: WriteKeys, audit: action + "rotate",
			summary: "Give a key of " + whose + " another secret.", body: Rotation{}, answer: IssuedKey{}, handle: h.rotate},
		{method: "DELETE", path: path + "/{key}", id: "revoke" + kind + "Key", scope: WriteKeys, audit: action + "revoke",
			summary: "End a key of " + whose + ", with its tokens.", status: http.StatusNoContent, handle: h.revoke},
	}
}

// ring returns the keys of the tenant in the path, or of administrators.
func (h *keyHandlers) ring(c *call) (*keys.Keyring, error) {
	if len(c.r.PathValue("tenant")) == 0 {
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
	limit, err := c.queryInt("limit")
	if err != nil {
		return err
	}
	page, next, err := ring.List(c.ctx, c.query("cursor"), limit)
	if err != nil {
		return err
	}
	return c.answer(KeyPage{page, next})
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
	if err := c.record(); err != nil {
		return err
	}
	credential, key, err := ring.Create(c.ctx, &keys.Spec{Name: in.Name, Scopes: in.Scopes, Expires: in.Expires})
	if err != nil {
		return err
	}
	c.made("key", key.ID)
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
	if err := c.record(); err != nil {
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
	if err := c.record(); err != nil {
		return err
	}
	if err := ring.Revoke(c.ctx, id); err != nil {
		return err
	}
	return c.answer(nil)
}
