package plugin

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Permissions is what a plugin asks for in its manifest, and what an operator
// grants when loading it. The zero value is nothing at all.
type Permissions struct {
	HTTP     []HTTPAccess   `json:"http,omitempty"`
	KV       Access         `json:"kv,omitempty"`
	Secrets  []SecretAccess `json:"secrets,omitempty"`
	Model    bool           `json:"model,omitempty"`
	Messages bool           `json:"messages,omitempty"` // a router may read the conversation
	Queue    bool           `json:"queue,omitempty"`
	Clock    bool           `json:"clock,omitempty"`  // the real time, instead of a virtual one
	Random   bool           `json:"random,omitempty"` // real randomness, instead of a fixed seed
	State    Access         `json:"state,omitempty"`
}

// HTTPAccess allows requests to one server. The host may be *.example.com for
// every name below example.com, or * for every host; which addresses a name may
// lead to is not a permission's business.
type HTTPAccess struct {
	Scheme  string   `json:"scheme,omitempty"` // default https
	Host    string   `json:"host"`
	Port    int      `json:"port,omitempty"`    // default the scheme's
	Methods []string `json:"methods,omitempty"` // in capital letters; none given is all
}

// SecretAccess allows a secret to be sent to some hosts, named as those of
// [HTTPAccess] are.
type SecretAccess struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
}

// Access is none, read or write; write includes read, "" is none.
type Access string

// The kinds of access.
const (
	None  Access = "none"
	Read  Access = "read"
	Write Access = "write"
)

// rank orders the kinds of access; "" is none, anything unknown -1.
func (a Access) rank() int { return slices.Index([]Access{None, Read, Write}, a.or(None)) }

func (a Access) allows(b Access) bool { return a.rank() >= b.rank() }

func (a Access) min(b Access) Access {
	if a.rank() < b.rank() {
		return a
	}
	return b
}

func (a Access) max(b Access) Access {
	if a.rank() < b.rank() {
		return b
	}
	return a
}

// UnmarshalJSON reads none, read or write.
func (a *Access) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s != "" && Access(s).rank() < 0 {
		return fmt.Errorf("access is %q, not none, read or write", s)
	}
	*a = Access(s)
	return nil
}

// The bounds of a list of permissions: what is matched at every request is short.
const (
	maxHTTPAccess   = 64
	maxSecretAccess = 64
)

// check refuses what could be read in two ways, or never matches.
func (p *Permissions) check() error {
	if len(p.HTTP) > maxHTTPAccess || len(p.Secrets) > maxSecretAccess {
		return fmt.Errorf("%d http and %d secret permissions, more than %d and %d", len(p.HTTP), len(p.Secrets), maxHTTPAccess, maxSecretAccess)
	}
	for _, h := range p.HTTP {
		if err := h.check(); err != nil {
			return err
		}
	}
	for _, s := range p.Secrets {
		if s.Name == "" || len(s.Hosts) == 0 {
			return fmt.Errorf("secret permission needs a name and hosts")
		}
		for _, h := range s.Hosts {
			if err := checkHost(h); err != nil {
				return fmt.Errorf("secret permission %q: %w", clean(s.Name), err)
			}
		}
	}
	return nil
}

func (h HTTPAccess) check() error {
	if h.Host == "" {
		return fmt.Errorf("http permission without a host")
	}
	if err := checkHost(h.Host); err != nil {
		return fmt.Errorf("http permission: %w", err)
	}
	if s := h.scheme(); s != "https" && s != "http" {
		return fmt.Errorf("http permission for %q: its scheme is %q, not https or http", h.Host, clean(s))
	}
	if h.Port < 0 || h.Port > 65535 {
		return fmt.Errorf("http permission for %q: there is no port %d", h.Host, h.Port)
	}
	for _, m := range h.Methods {
		if m == "" || strings.ContainsFunc(m, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			return fmt.Errorf("http permission for %q: method %q is not in capital letters", h.Host, clean(m))
		}
	}
	return nil
}

// checkHost takes a host name, an address, and a name whose first label is *,
// for every name below it. A lone * is every host.
func checkHost(host string) error {
	name := strings.TrimPrefix(strings.TrimPrefix(host, "*"), ".")
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("/@?#*%\\", r)
	})
	_, isAddress := netip.ParseAddr(strings.Trim(name, "[]"))
	switch {
	case host == "*":
		return nil
	case name == "", bad, strings.HasPrefix(host, "*") && !strings.HasPrefix(host, "*."):
		return fmt.Errorf("%q is not a host: it is a name, an address, *.name or *", clean(host))
	case strings.Contains(name, ":") && isAddress != nil:
		return fmt.Errorf("%q is not a host; a port has a field of its own", clean(host))
	}
	return nil
}

// covers reports whether the host, or pattern of hosts, g includes h.
func covers(g, h string) bool {
	g, h = foldHost(g), foldHost(h)
	if g == "*" || g == h {
		return true
	}
	below, wild := strings.CutPrefix(g, "*")
	return wild && strings.HasSuffix(h, below) && len(h) > len(below)
}

func foldHost(h string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(h, "[]"), "."))
}

// clamp returns what is both asked for and granted.
func (p Permissions) clamp(granted Permissions) Permissions {
	out := Permissions{
		KV: p.KV.min(granted.KV), State: p.State.min(granted.State),
		Model: p.Model && granted.Model, Messages: p.Messages && granted.Messages, Queue: p.Queue && granted.Queue,
		Clock: p.Clock && granted.Clock, Random: p.Random && granted.Random,
	}
	for _, h := range p.HTTP {
		for _, g := range granted.HTTP {
			if both, some := h.meet(g); some && !slices.ContainsFunc(out.HTTP, both.within) {
				out.HTTP = append(out.HTTP, both)
			}
		}
	}
	for _, s := range p.Secrets {
		for _, g := range granted.Secrets {
			if both, some := s.meet(g); some && !slices.ContainsFunc(out.Secrets, both.within) {
				out.Secrets = append(out.Secrets, both)
			}
		}
	}
	return out
}

// meet returns what both h and g allow, if that is anything.
func (h HTTPAccess) meet(g HTTPAccess) (both HTTPAccess, some bool) {
	if h.scheme() != g.scheme() || h.port() != g.port() {
		return both, false
	}
	switch both = h; {
	case covers(g.Host, h.Host):
	case covers(h.Host, g.Host):
		both.Host = g.Host
	default:
		return both, false
	}
	switch {
	case len(g.Methods) == 0:
	case len(h.Methods) == 0:
		both.Methods = g.Methods
	default:
		both.Methods = slices.DeleteFunc(slices.Clone(h.Methods), func(m string) bool { return !slices.Contains(g.Methods, m) })
		return both, len(both.Methods) > 0
	}
	return both, true
}

// within reports whether everything h allows is allowed by g.
func (h HTTPAccess) within(g HTTPAccess) bool {
	if h.scheme() != g.scheme() || !covers(g.Host, h.Host) || h.port() != g.port() {
		return false
	}
	if len(g.Methods) == 0 {
		return true
	}
	for _, m := range h.Methods {
		if !slices.Contains(g.Methods, m) {
			return false
		}
	}
	return len(h.Methods) > 0
}

func (h HTTPAccess) scheme() string {
	if h.Scheme == "" {
		return "https"
	}
	return strings.ToLower(h.Scheme)
}

func (h HTTPAccess) port() int {
	switch {
	case h.Port != 0:
		return h.Port
	case h.scheme() == "http":
		return 80
	}
	return 443
}

func (h HTTPAccess) String() string {
	s := fmt.Sprintf("%s://%s:%d", h.scheme(), h.Host, h.port())
	if len(h.Methods) > 0 {
		s += " " + strings.Join(h.Methods, ",")
	}
	return s
}

// meet returns the hosts that both s and g allow for one secret, if any.
func (s SecretAccess) meet(g SecretAccess) (both SecretAccess, some bool) {
	if s.Name != g.Name {
		return both, false
	}
	both.Name = s.Name
	for _, h := range s.Hosts {
		for _, k := range g.Hosts {
			switch {
			case covers(k, h):
				both.Hosts = append(both.Hosts, h)
			case covers(h, k):
				both.Hosts = append(both.Hosts, k)
			}
		}
	}
	slices.Sort(both.Hosts)
	both.Hosts = slices.Compact(both.Hosts)
	return both, len(both.Hosts) > 0
}

func (s SecretAccess) within(g SecretAccess) bool {
	if s.Name != g.Name {
		return false
	}
	for _, h := range s.Hosts {
		if !slices.ContainsFunc(g.Hosts, func(k string) bool { return covers(k, h) }) {
			return false
		}
	}
	return true
}

// Missing returns, as words for people, what p asks for beyond what is granted.
func (p Permissions) Missing(granted Permissions) []string { return p.Widens(granted) }

// Widens returns, as words for people, what p asks for that none of the others
// has: of the manifest of a plugin's next version, given what the last version
// asked for and what the operator has granted since, it is what somebody must
// grant before that version may take over.
func (p Permissions) Widens(others ...Permissions) []string {
	var out []string
	asks := func(what string, asked bool, has func(Permissions) bool) {
		if asked && !slices.ContainsFunc(others, has) {
			out = append(out, what)
		}
	}
	asks("kv: "+string(p.KV), p.KV.or(None) != None, func(o Permissions) bool { return o.KV.allows(p.KV) })
	asks("state: "+string(p.State), p.State.or(None) != None, func(o Permissions) bool { return o.State.allows(p.State) })
	asks("model", p.Model, func(o Permissions) bool { return o.Model })
	asks("messages", p.Messages, func(o Permissions) bool { return o.Messages })
	asks("queue", p.Queue, func(o Permissions) bool { return o.Queue })
	asks("clock", p.Clock, func(o Permissions) bool { return o.Clock })
	asks("random", p.Random, func(o Permissions) bool { return o.Random })
	for _, h := range p.HTTP {
		asks("http: "+h.String(), true, func(o Permissions) bool { return slices.ContainsFunc(o.HTTP, h.within) })
	}
	for _, s := range p.Secrets {
		asks("secret: "+s.Name, true, func(o Permissions) bool { return slices.ContainsFunc(o.Secrets, s.within) })
	}
	return out
}

// clone returns a copy that shares nothing with p.
func (p Permissions) clone() Permissions {
	p.HTTP = slices.Clone(p.HTTP)
	for i := range p.HTTP {
		p.HTTP[i].Methods = slices.Clone(p.HTTP[i].Methods)
	}
	p.Secrets = slices.Clone(p.Secrets)
	for i := range p.Secrets {
		p.Secrets[i].Hosts = slices.Clone(p.Secrets[i].Hosts)
	}
	return p
}

func (a Access) or(b Access) Access {
	if a == "" {
		return b
	}
	return a
}
