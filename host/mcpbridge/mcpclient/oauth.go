package mcpclient

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/agenthost/agenthost/host/fault"
)

// OAuth authorizes a session by an authorization code, where a server asks for it. The
// client is known by its metadata document, by an id that the server's administrator has
// given it, or registers itself, in this order. Tokens are kept as long as the session.
type OAuth struct {
	MetadataURL  string // of the client's metadata document; "" is none
	ClientID     string // given before; "" is none
	ClientSecret string
	Register     bool   // the client may register itself
	RedirectURL  string // to which the authorization server sends the person's browser

	// Authorize sends a person to an address, and returns the parameters code, state and
	// iss with which the browser comes back to RedirectURL. ctx ends with the attempt to
	// open a session: an embedder that waits for a person gives the result of an earlier
	// visit, or an error.
	Authorize func(ctx context.Context, address string) (*Authorization, error)
}

// Authorization are the parameters that an authorization server gives a browser.
type Authorization struct{ Code, State, Issuer string }

// handler returns the SDK's handler.
func (o *OAuth) handler(server *Server) (auth.OAuthHandler, error) {
	if o.Authorize == nil {
		return nil, fault.Errorf(fault.InvalidArgument, "MCP server %q: OAuth has no Authorize", server.Name)
	}
	config := &auth.AuthorizationCodeHandlerConfig{RedirectURL: o.RedirectURL, Client: o.client(server)}
	config.AuthorizationCodeFetcher = func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		got, err := o.Authorize(ctx, args.URL)
		if err != nil {
			return nil, err
		}
		return &auth.AuthorizationResult{Code: got.Code, State: got.State, Iss: got.Issuer}, nil
	}
	if o.MetadataURL != "" {
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: o.MetadataURL}
	}
	if o.ClientID != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.ClientID}
		if o.ClientSecret != "" {
			config.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: o.ClientSecret}
		}
	}
	if o.Register {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "agenthost", RedirectURIs: []string{o.RedirectURL}}}
	}
	h, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "MCP server %q: OAuth: %v", server.Name, err)
	}
	return h, nil
}

// maxOAuthBytes bounds an answer of an authorization server.
const maxOAuthBytes = 1 << 20

// client returns the HTTP client for authorization servers, which get none of the server's
// headers.
func (o *OAuth) client(server *Server) *http.Client {
	dialer := &net.Dialer{Timeout: dialWait}
	if server.PublicOnly {
		dialer.Control = onlyPublic
	}
	inner := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialWait, IdleConnTimeout: time.Second, MaxResponseHeaderBytes: maxResponseHeader, DisableKeepAlives: true}
	return &http.Client{Transport: boundedTransport{inner}, Timeout: waitShort}
}

// boundedTransport bounds the bodies that it returns.
type boundedTransport struct{ inner http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(req)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, ctx: req.Context(), left: maxOAuthBytes, pace: &pace{}}
	}
	return resp, err
}
