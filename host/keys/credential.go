package keys

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// The prefixes of credentials.
const (
	PrefixKey   = "ah_live_"
	PrefixAdmin = "ah_admin_"
	PrefixToken = "ah_page_"
)

const (
	idLen     = 8 // characters, of 5 bits each
	secretLen = sha256.Size
	textLen   = 43 // of a secret or a seal
	// maxCredentialBytes bounds credentials of every kind, those of an identity
	// provider included.
	maxCredentialBytes = 16 << 10
	maxTokenBytes      = 7 << 10 // a server's limit of a header is 8 kB in many places
)

var (
	idText     = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	secretText = base64.RawURLEncoding.Strict() // one text for each secret
)

// kind is what a credential is.
type kind uint8

const (
	tenantKey kind = iota + 1
	adminKey
	pageToken
)

// prefix returns how the credentials of a kind begin.
func (k kind) prefix() string {
	switch k {
	case tenantKey:
		return PrefixKey
	case adminKey:
		return PrefixAdmin
	default:
		return PrefixToken
	}
}

// credential is a parsed one.
type credential struct {
	kind   kind
	id     string
	secret [secretLen]byte // of a key; the seal of a token

	sealed string // of a token: the text that the seal is for
	claims claims
}

// claims are the content of a token.
type claims struct {
	Thread  string   `json:"t"`
	Origin  string   `json:"o"`
	Scopes  []string `json:"s,omitempty"`
	Subject string   `json:"u,omitempty"`
	Expires int64    `json:"e"` // seconds
}

// parse returns the parts of a credential, or false if its form is not that of any.
func parse(text string) (*credential, bool) {
	if len(text) > maxTokenBytes {
		return nil, false
	}
	for _, k := range []kind{tenantKey, adminKey, pageToken} {
		rest, ok := strings.CutPrefix(text, k.prefix())
		if !ok {
			continue
		}
		c := &credential{kind: k}
		if len(rest) < idLen+1 || rest[idLen] != '_' || !validID(rest[:idLen]) {
			return nil, false
		}
		c.id, rest = rest[:idLen], rest[idLen+1:]
		if k == pageToken {
			return c, c.parseToken(text, rest)
		}
		return c, decodeSecret(&c.secret, rest)
	}
	return nil, false
}

// parseToken reads the claims and the seal of a token. The claims say nothing before
// the seal is checked.
func (c *credential) parseToken(text, rest string) bool {
	at := len(rest) - textLen - 1
	if at < 0 || rest[at] != '_' || !decodeSecret(&c.secret, rest[at+1:]) {
		return false
	}
	raw, err := secretText.DecodeString(rest[:at])
	if err != nil {
		return false
	}
	c.sealed = text[:len(text)-textLen-1]
	return json.Unmarshal(raw, &c.claims) == nil
}

func decodeSecret(into *[secretLen]byte, text string) bool {
	if len(text) != textLen {
		return false
	}
	// A decoder may skip line breaks: the text has as many characters, so it would be short.
	n, err := secretText.Decode(into[:], []byte(text))
	return err == nil && n == secretLen
}

func validID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return len(id) == idLen
}

// isOurs reports whether a text begins like a credential of this package.
func isOurs(text string) bool {
	return strings.HasPrefix(text, PrefixKey) || strings.HasPrefix(text, PrefixAdmin) || strings.HasPrefix(text, PrefixToken)
}

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends instead
	return idText.EncodeToString(b[:])
}

func newSecret() (s [secretLen]byte) {
	_, _ = rand.Read(s[:])
	return s
}

func keyText(k kind, id string, secret [secretLen]byte) string {
	return k.prefix() + id + "_" + secretText.EncodeToString(secret[:])
}

// tokenText returns a token of a key's, sealed by a secret of its record.
func tokenText(id string, c claims, sealer []byte) (string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	sealed := PrefixToken + id + "_" + secretText.EncodeToString(raw)
	return sealed + "_" + secretText.EncodeToString(sealOf(sealed, sealer)), nil
}

func sealOf(sealed string, sealer []byte) []byte {
	mac := hmac.New(sha256.New, sealer)
	mac.Write([]byte(sealed))
	return mac.Sum(nil)
}

func (c *claims) expires() time.Time { return time.Unix(c.Expires, 0) }
