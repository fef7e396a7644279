package keys

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxForwards bounds the proxies that a request comes through.
const maxForwards = 16

// ForwardedFor returns an Options.Address for a host behind proxies at those addresses: that
// of the last sender that is none of them. The header X-Forwarded-For is believed as far as
// proxies wrote it, so a sender that reaches the host directly, or that writes the header
// itself, is counted by its own address.
func ForwardedFor(proxies ...netip.Prefix) func(*http.Request) netip.Addr {
	known := slices.Clone(proxies)
	isProxy := func(a netip.Addr) bool {
		return slices.ContainsFunc(known, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) netip.Addr {
		sender := connectionAddress(r).Unmap()
		rest := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
		for range maxForwards {
			if rest == "" || !isProxy(sender) {
				return sender
			}
			at := strings.LastIndexByte(rest, ',')
			before, ok := forwardedAddress(rest[at+1:])
			if !ok {
				return sender
			}
			sender, rest = before, rest[:max(at, 0)]
		}
		return sender
	}
}

// forwardedAddress returns the address in an element of X-Forwarded-For, which may have a
// port.
func forwardedAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddrPort(text)
	return a.Addr().Unmap().WithZone(""), err == nil
}
