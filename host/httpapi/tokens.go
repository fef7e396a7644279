package httpapi

import (
	"net/http"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/tenants"
)

// NewToken is the body of POST /v1/tokens.
type NewToken struct {
	Thread  string           `json:"thread" description:"the only thread that the token reaches"`
	Origin  string           `json:"origin" description:"of the pages that may use it, such as https://app.example.com"`
	Scopes  []string         `json:"scopes" description:"of those that the key has"`
	Subject string           `json:"subject,omitempty" description:"the id of the user of the page"`
	Life    tenants.Duration `json:"life,omitzero" description:"how long it is valid, at most 1h (10m)"`
}

// IssuedToken is the answer of POST /v1/tokens.
type IssuedToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// tokenHandlers answer the route of browser tokens.
type tokenHandlers struct{ store *keys.Store }

func (h *tokenHandlers) routes() []*route {
	return []*route{{method: "POST", path: "/v1/tokens", id: "mintToken", group: "host", scope: MintTokens, audit: "token.mint",
		summary: "Make a token for a browser page: of the caller's key, for one thread and one origin.", body: NewToken{}, status: http.StatusCreated, answer: IssuedToken{}, handle: h.mint}}
}

func (h *tokenHandlers) mint(c *call) error {
	var in NewToken
	if err := c.body(&in); err != nil {
		return err
	}
	if err := c.whole(); err != nil {
		return err
	}
	if c.principal.Key == "" {
		return host.Errorf(host.PermissionDenied, "the credential is no API key, and has no tokens").WithHint("use a key of the tenant")
	}
	if err := c.audit.recordOf(c.principal.Tenant, objectOf("thread", in.Thread)); err != nil {
		return err
	}
	token, expires, err := h.store.Of(c.principal.Tenant).Mint(c.ctx, c.principal.Key, &keys.Token{
		Thread: in.Thread, Origin: in.Origin, Scopes: in.Scopes, Subject: in.Subject, Life: time.Duration(in.Life),
	})
	if err != nil {
		return err
	}
	return c.answer(IssuedToken{token, expires})
}
