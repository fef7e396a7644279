package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/idempotency"
)

// keyParam is the header of routes that make something.
var keyParam = param{name: "Idempotency-Key", kind: "string", doc: "the same request sent again with the same key makes nothing again; another request with the key of an earlier one is 409"}

// requestKey is the idempotency key of a call. The zero value is that of a call without one.
type requestKey struct {
	scope string // of the key: the tenant, and the thread of a credential that reaches no other
	key   string
	again bool // the same request came before, as far as is known
}

// idempotencyKey returns that of the request, "" if it has none.
func (c *call) idempotencyKey() (string, error) {
	list := c.r.Header.Values("Idempotency-Key")
	switch {
	case len(list) > 1:
		return "", host.Errorf(host.InvalidArgument, "the request has %d idempotency keys", len(list)).WithHint("send one")
	case len(list) == 1 && (len(list[0]) > idempotency.MaxKeyBytes || !utf8.ValidString(list[0])):
		return "", host.Errorf(host.InvalidArgument, "the idempotency key is more than %d bytes, or not UTF-8", idempotency.MaxKeyBytes)
	}
	return strings.Join(list, ""), nil
}

// derivedID returns an id that is the same each time for the same parts of a tenant's request.
func derivedID(tenant string, parts ...string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// takeKey reads the idempotency key of a call, whose body is body, and remembers it with the
// request. It is called when the request has been checked: one that is refused may be sent
// again in another form.
func (c *call) takeKey(body any) (requestKey, error) {
	k, err := c.readKey()
	if err != nil {
		return k, err
	}
	return k, k.remember(c, body)
}

// readKey reads the idempotency key of a call.
func (c *call) readKey() (requestKey, error) {
	key, err := c.idempotencyKey()
	if key == "" || err != nil {
		return requestKey{}, err
	}
	k := requestKey{scope: c.principal.Tenant, key: key}
	if c.principal.Thread != "" {
		k.scope += "\x00" + c.principal.Thread
	}
	return k, nil
}

// remember remembers the key of a call with the request, whose body is body.
func (k *requestKey) remember(c *call, body any) error {
	store := c.api.options.Idempotency
	if store == nil || !k.given() {
		return nil
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return host.Errorf(host.InvalidArgument, "the body cannot be written: %w", err)
	}
	request := strings.Join([]string{c.r.Method, c.r.URL.EscapedPath(), c.r.URL.RawQuery, string(raw)}, "\x00")
	// The key of a credential for one thread is apart from those of the tenant, which must
	// not be told of by a conflict.
	name := sha256.Sum256([]byte(k.scope + "\x00" + k.key))
	k.again, err = store.Begin(c.ctx, c.principal.Tenant, hex.EncodeToString(name[:]), []byte(request))
	return err
}

// given reports whether the call has a key.
func (k *requestKey) given() bool { return k.key != "" }

// id returns an id for a thing of a kind that the call makes: the same each time for a call
// with a key, and "" for one without.
func (k *requestKey) id(kind string) string {
	if k.key == "" {
		return ""
	}
	return kind + "-" + k.digest(kind)
}

// digest returns a digest of the key and a text.
func (k *requestKey) digest(text string) string {
	return derivedID(k.scope, k.key, text)
}
