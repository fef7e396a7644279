package egress

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// Bounds of a URL.
const (
	maxURLBytes   = 8 << 10
	maxHostBytes  = 253
	maxLabelBytes = 63
)

// target is where a request goes, in the one spelling that rules are compared
// with, the dialer dials and the server is sent.
type target struct {
	scheme string
	host   string     // lower-case name without a trailing dot, or addr's text
	addr   netip.Addr // valid if the URL names an address
	port   int
	url    *url.URL // rewritten in that spelling, without a fragment
}

// parseTarget reads a URL. An ambiguous URL is refused, not guessed at.
func parseTarget(raw string) (*target, error) {
	if len(raw) > maxURLBytes {
		return nil, fault.Errorf(fault.InvalidArgument, "the URL has %d bytes, more than %d", len(raw), maxURLBytes)
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			return nil, badURL("it has a character that is no part of URLs").
				WithHint("encode it as %%%02X, a name of a host in Punycode", c)
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badURL("it is malformed")
	}
	return newTarget(u)
}

func badURL(why string) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, "the URL can't be used: %s", why)
}

func newTarget(u *url.URL) (*target, error) {
	t := &target{scheme: strings.ToLower(u.Scheme)}
	switch {
	case t.scheme != "http" && t.scheme != "https":
		return nil, badURL("its scheme is neither https nor http")
	case u.Opaque != "" || u.Host == "":
		return nil, badURL("it names no host")
	case u.User != nil:
		return nil, badURL("it holds a user or password").WithHint("send them in a header")
	}
	var err error
	if t.host, t.addr, err = canonicalHost(u.Hostname(), strings.HasPrefix(u.Host, "[")); err != nil {
		return nil, err
	}
	if t.port, err = portOf(t.scheme, u); err != nil {
		return nil, err
	}
	clean := *u
	clean.Scheme, clean.Host, clean.Fragment, clean.RawFragment = t.scheme, t.authority(), "", ""
	t.url = &clean
	return t, nil
}

func portOf(scheme string, u *url.URL) (int, error) {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, badURL("its port is empty")
		}
		return defaultPort(scheme), nil
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, badURL("its port is not a number from 1 to 65535")
	}
	return port, nil
}

func defaultPort(scheme string) int {
	if scheme == "http" {
		return 80
	}
	return 443
}

// authority is the host, and the port if it is not the scheme's own.
func (t *target) authority() string {
	name := t.host
	if t.addr.Is6() {
		name = "[" + name + "]"
	}
	if t.port == defaultPort(t.scheme) {
		return name
	}
	return name + ":" + strconv.Itoa(t.port)
}

// origin names the server in messages: scheme, host and port.
func (t *target) origin() string {
	return t.scheme + "://" + net.JoinHostPort(t.host, strconv.Itoa(t.port))
}

func (t *target) sameOrigin(o *target) bool {
	return t.scheme == o.scheme && t.host == o.host && t.port == o.port
}

// canonicalHost returns the one spelling of a host: a lower-case name, or an
// address. Names that some readers take for an IPv4 address (127.1, 0x7f.0.0.1,
// 2130706433, 010.0.0.1) are refused, as are zones and names that are not ASCII.
func canonicalHost(h string, bracketed bool) (string, netip.Addr, error) {
	none := netip.Addr{}
	if bracketed {
		addr, err := netip.ParseAddr(h)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", none, badURL("its host is not an IPv6 address without a zone")
		}
		return addr.String(), addr, nil
	}
	h = strings.TrimSuffix(strings.ToLower(h), ".")
	if !validName(h) {
		return "", none, badURL("its host is not the name of a host").WithHint("write other scripts in Punycode (xn--)")
	}
	if !endsInNumber(h) {
		return h, none, nil
	}
	addr, err := netip.ParseAddr(h)
	if err != nil {
		return "", none, badURL("its host looks like an IPv4 address and is not one").WithHint("write it as four decimal numbers")
	}
	return addr.String(), addr, nil
}

// validName reports whether h is a name of letters, digits, hyphens and
// underscores in labels.
func validName(h string) bool {
	if h == "" || len(h) > maxHostBytes {
		return false
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// endsInNumber reports whether the last label reads as a number in any base that
// an address parser knows. No top-level domain does.
func endsInNumber(h string) bool {
	last := h[strings.LastIndexByte(h, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(last, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}
