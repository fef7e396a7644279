package keys

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// Authenticate returns the principal of a request, whose credential is in its
// Authorization header, as Bearer. A token is valid for the pages of its origin. Codes are those of [Store.VerifyFrom].
func (s *Store) Authenticate(r *http.Request) (*Principal, error) {
	text, ok := bearer(r)
	if !ok {
		return nil, fault.Errorf(fault.Unauthenticated, "the request has no credential").
			WithHint("send a key as Authorization: Bearer ah_live_...")
	}
	return s.VerifyFrom(r.Context(), text, Sender{Address: s.options.Address(r), Origin: originOf(r)})
}

// bearer returns the credential of a request. Two of them are none: proxies and hosts
// might choose different ones.
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	text = strings.TrimSpace(text)
	return text, strings.EqualFold(scheme, "Bearer") && text != ""
}

// originOf returns the origin of the page that sent a request; empty if it names none. A
// browser sends no Origin with a read of the page's own site, and says that it is one.
func originOf(r *http.Request) string {
	if values := r.Header.Values("Origin"); len(values) > 0 {
		if len(values) > 1 {
			return ""
		}
		return values[0]
	}
	if r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return ""
	}
	// A proxy may have ended TLS: the page that the request was sent from says its scheme.
	if referer, err := url.Parse(r.Referer()); err == nil && referer.Host == r.Host {
		return referer.Scheme + "://" + referer.Host
	}
	if r.TLS == nil {
		return "http://" + r.Host
	}
	return "https://" + r.Host
}

func connectionAddress(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket, or a server of another kind
	}
	return a.Addr()
}
