package mcpclient

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// OAuth authorizes a session by an authorization code, where a server asks for it. The
// client is known by its metadata document, by an id that the server's administrator has
// given it, or registers itself, in this order. Tokens are kept as long as the session.
type OAuth struct {
	MetadataURL  string // of the client's metadata document; "" is none
	ClientID     string // given before; "" is none
	ClientSecret string // needs Issuer
	Register     bool   // the client may register itself
	RedirectURL  string // to which the authorization server sends the person's browser

	// Issuer is the authorization server that ClientID and ClientSecret were given by, such as
	// https://login.example.com: they go to no other, whichever the MCP server names. Without
	// it a client that was given an id goes wherever the MCP server says; one with a secret is
	// refused.
	Issuer string

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
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.ClientID, Issuer: o.Issuer}
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

// check refuses settings that would have a secret reach whichever server asks for it.
func (o *OAuth) check(server string) error {
	if o.Issuer == "" && o.ClientSecret == "" {
		return nil
	}
	u, err := url.Parse(o.Issuer)
	switch {
	case o.Issuer == "":
		return fault.Errorf(fault.InvalidArgument, "MCP server %q: OAuth has a client secret, and does not say whose", server).
			WithHint("name the authorization server that has given it in OAuth.Issuer")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fault.Errorf(fault.InvalidArgument, "MCP server %q: the issuer %q of OAuth is no address", server, o.Issuer).
			WithHint("write that of the authorization server, such as https://login.example.com")
	}
	return nil
}

// The bounds of a request to an authorization server.
const (
	maxOAuthBytes = 1 << 20 // of an answer
	oauthTimeout  = 30 * time.Second
)

// client returns the HTTP client for authorization servers, which get none of the server's
// headers. It follows no redirects, which could take a secret elsewhere.
func (o *OAuth) client(server *Server) *http.Client {
	reach := o.reach(server)
	inner := &http.Transport{DialContext: reach.dial, TLSHandshakeTimeout: dialWait, IdleConnTimeout: time.Second, MaxResponseHeaderBytes: maxResponseHeader, DisableKeepAlives: true}
	return &http.Client{Transport: boundedTransport{inner}, Timeout: oauthTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// oauthReach says which addresses the discovery of authorization servers may dial. The server
// chooses them, so that those which are not of the public internet are dialed only for the
// server itself and the issuer that the operator has named, and for a server of this machine
// or of a private address that the operator has written as one.
type oauthReach struct {
	named []string    // hosts with their ports
	kind  egress.Kind // that is dialed beside public addresses
	only  bool        // only addresses of the public internet
}

func (o *OAuth) reach(server *Server) *oauthReach {
	r := &oauthReach{kind: egress.Public, only: server.PublicOnly}
	for _, text := range []string{server.URL, o.Issuer} {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			r.named = append(r.named, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), portOf[u.Scheme])))
		}
	}
	name, _, _ := net.SplitHostPort(r.named[0])
	at, err := netip.ParseAddr(name)
	if name == "localhost" {
		at, err = netip.IPv6Loopback(), nil
	}
	if err == nil {
		if kind := egress.Classify(at); kind == egress.Loopback || kind == egress.Private {
			r.kind = kind
		}
	}
	return r
}

// portOf are the ports of addresses that name none.
var portOf = map[string]string{"http": "80", "https": "443"}

func (r *oauthReach) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialWait, Control: r.control}
	switch {
	case r.only:
		dialer.Control = onlyPublic
	case slices.Contains(r.named, address):
		dialer.Control = nil
	}
	return dialer.DialContext(ctx, network, address)
}

// control refuses an address when it is about to be dialed.
func (r *oauthReach) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fault.Errorf(fault.PermissionDenied, "the address of the authorization server cannot be read")
	}
	if kind := egress.Classify(at.Addr()); kind != egress.Public && kind != r.kind {
		return fault.Errorf(fault.PermissionDenied, "the MCP server names an authorization server at an address that is not of the public internet").
			WithHint("name the authorization server in OAuth.Issuer, if it is meant to be there")
	}
	return nil
}

// boundedTransport bounds the bodies that it returns.
type boundedTransport struct{ inner http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(req)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, ctx: req.Context(), left: maxOAuthBytes, reading: &readLimiter{}}
	}
	return resp, err
}
