package permission

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// HTTP allows requests to one server. The host is a name, an address,
// *.example.com for every name below example.com, or * for every name.
type HTTP struct {
	Scheme  string   `json:"scheme,omitempty"` // default https
	Host    string   `json:"host"`
	Port    int      `json:"port,omitempty"`    // default the scheme's
	Methods []string `json:"methods,omitempty"` // in capital letters; none given is all

	// Addresses are ranges, such as 10.1.0.0/16, that the host may lie in although
	// they are not public. Only an operator grants them; addresses in a manifest
	// mean nothing.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
}

func (h HTTP) check() error {
	if h.Host == "" {
		return fmt.Errorf("http permission without a host")
	}
	for _, m := range h.Methods {
		if m == "" || strings.ContainsFunc(m, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			return fmt.Errorf("http permission for %q: method %q is not in capital letters", guesttext.Clean(h.Host), guesttext.Clean(m))
		}
	}
	if err := h.rule().Validate(); err != nil {
		return fmt.Errorf("permission: %w", err)
	}
	return nil
}

// rule is h as the client that holds requests to it has it.
func (h HTTP) rule() egress.Rule {
	return egress.Rule{Scheme: h.Scheme, Host: h.Host, Port: h.Port, Methods: h.Methods, Addresses: h.Addresses}
}

// meet returns the access that both h and g allow, if any, without addresses.
func (h HTTP) meet(g HTTP) (both HTTP, some bool) {
	r, some := egress.Intersect(h.rule(), g.rule())
	if h.is(r) {
		both = h
		both.Addresses = nil
		return both, some
	}
	return HTTP{Scheme: r.Scheme, Host: r.Host, Port: r.Port, Methods: r.Methods}, some
}

// Within reports whether everything that h allows is allowed by g, at the same
// addresses.
func (h HTTP) Within(g HTTP) bool {
	return h.within(g) && !slices.ContainsFunc(h.Addresses, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(g.Addresses, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Overlaps(p) })
	})
}

// is reports whether h allows what a rule in its one spelling does, but for
// addresses.
func (h HTTP) is(r egress.Rule) bool {
	own, ok := egress.Intersect(h.rule(), h.rule())
	return ok && own.Scheme == r.Scheme && own.Host == r.Host && own.Port == r.Port && slices.Equal(own.Methods, r.Methods)
}

func (h HTTP) same(g HTTP) bool {
	r, ok := egress.Intersect(g.rule(), g.rule())
	return ok && h.is(r) && slices.Equal(h.Addresses, g.Addresses)
}

// within reports whether everything h allows is allowed by g, addresses apart.
func (h HTTP) within(g HTTP) bool {
	r, some := egress.Intersect(h.rule(), g.rule())
	return some && h.is(r)
}

// SameServer reports whether h and g name one server: scheme, host and port.
func (h HTTP) SameServer(g HTTP) bool {
	return h.scheme() == g.scheme() && strings.EqualFold(h.Host, g.Host) && h.port() == g.port()
}

func (h HTTP) scheme() string {
	if h.Scheme == "" {
		return "https"
	}
	return strings.ToLower(h.Scheme)
}

func (h HTTP) port() int {
	switch {
	case h.Port != 0:
		return h.Port
	case h.scheme() == "http":
		return 80
	}
	return 443
}

// String writes h in the form of a grant: [METHODS ]SCHEME://HOST[:PORT][ at ADDRESSES].
func (h HTTP) String() string {
	s := endpoint{h.scheme(), h.Host, h.Port}.url()
	if len(h.Methods) > 0 {
		s = strings.Join(h.Methods, ",") + " " + s
	}
	for i, a := range h.Addresses {
		between := ","
		if i == 0 {
			between = " at "
		}
		s += between + strings.TrimSuffix(a.String(), "/"+strconv.Itoa(a.Addr().BitLen()))
	}
	return s
}
