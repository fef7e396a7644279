package plugin

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/egress"
)

// Permissions are the rights that a plugin asks for in its manifest, and that an
// operator grants when loading it. The zero value allows nothing.
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

// HTTPAccess allows requests to one server. The host is a name, an address,
// *.example.com for every name below example.com, or * for every name.
type HTTPAccess struct {
	Scheme  string   `json:"scheme,omitempty"` // default https
	Host    string   `json:"host"`
	Port    int      `json:"port,omitempty"`    // default the scheme's
	Methods []string `json:"methods,omitempty"` // in capital letters; none given is all

	// Addresses are ranges, such as 10.1.0.0/16, that the host may lie in although
	// they are not public. Only an operator grants them; addresses in a manifest
	// mean nothing.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
}

// SecretAccess allows a secret to be sent to some hosts, each written as HOST,
// HOST:PORT or either behind https:// or http://, where HOST is as in [HTTPAccess]
// but not *. Without a scheme it is https, without a port any.
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

// The bounds of a list of permissions, which every request is matched against.
const (
	maxHTTPAccess   = 64
	maxSecretAccess = 64
)

// check refuses permissions that are ambiguous or never match.
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
		if _, err := egress.NewPolicy(&egress.Grants{Secrets: []egress.SecretRule{egress.SecretRule(s)}}); err != nil {
			return fmt.Errorf("secret permission: %w", err)
		}
	}
	return nil
}

func (h HTTPAccess) check() error {
	if h.Host == "" {
		return fmt.Errorf("http permission without a host")
	}
	for _, m := range h.Methods {
		if m == "" || strings.ContainsFunc(m, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			return fmt.Errorf("http permission for %q: method %q is not in capital letters", clean(h.Host), clean(m))
		}
	}
	if err := h.rule().Validate(); err != nil {
		return fmt.Errorf("permission: %w", err)
	}
	return nil
}

// rule is h as the client that holds requests to it has it.
func (h HTTPAccess) rule() egress.Rule {
	return egress.Rule{Scheme: h.Scheme, Host: h.Host, Port: h.Port, Methods: h.Methods, Addresses: h.Addresses}
}

// clamp returns the permissions that are both asked for and granted. Ranges of
// addresses are the grant's.
func (p Permissions) clamp(granted Permissions) Permissions {
	return p.intersect(granted, func(_, granted []netip.Prefix) []netip.Prefix { return granted })
}

// under returns the part of a grant that a ceiling allows.
func (p Permissions) under(ceiling Permissions) Permissions {
	return p.intersect(ceiling, overlap)
}

// overlap returns the addresses in ranges of both lists. An address of a cloud's
// metadata service is only in a range that holds nothing else, so it is not in the
// overlap of such a range with a wider one.
func overlap(a, b []netip.Prefix) (both []netip.Prefix) {
	for _, p := range a {
		for _, q := range b {
			if !p.Overlaps(q) {
				continue
			}
			r := p
			if p.Bits() < q.Bits() {
				r = q
			}
			if egress.Classify(r.Addr()) == egress.Metadata && r.IsSingleIP() && !(p.IsSingleIP() && q.IsSingleIP()) {
				continue
			}
			both = append(both, r)
		}
	}
	return both
}

func (p Permissions) intersect(granted Permissions, addresses func(asked, granted []netip.Prefix) []netip.Prefix) Permissions {
	out := Permissions{
		KV: p.KV.min(granted.KV), State: p.State.min(granted.State),
		Model: p.Model && granted.Model, Messages: p.Messages && granted.Messages, Queue: p.Queue && granted.Queue,
		Clock: p.Clock && granted.Clock, Random: p.Random && granted.Random,
	}
	for _, h := range p.HTTP {
		for _, g := range granted.HTTP {
			both, some := h.meet(g)
			both.Addresses = addresses(h.Addresses, g.Addresses)
			if some && len(out.HTTP) < egress.MaxRules && !slices.ContainsFunc(out.HTTP, both.same) {
				out.HTTP = append(out.HTTP, both)
			}
		}
	}
	for _, s := range p.Secrets {
		for _, g := range granted.Secrets {
			both, some := s.meet(g)
			if some && len(out.Secrets) < egress.MaxRules && !slices.ContainsFunc(out.Secrets, both.within) {
				out.Secrets = append(out.Secrets, both)
			}
		}
	}
	return out
}

// meet returns the access that both h and g allow, if any, without addresses.
func (h HTTPAccess) meet(g HTTPAccess) (both HTTPAccess, some bool) {
	r, some := egress.Intersect(h.rule(), g.rule())
	if h.is(r) {
		both = h
		both.Addresses = nil
		return both, some
	}
	return HTTPAccess{Scheme: r.Scheme, Host: r.Host, Port: r.Port, Methods: r.Methods}, some
}

// Within reports whether everything that h allows is allowed by g, at the same
// addresses.
func (h HTTPAccess) Within(g HTTPAccess) bool {
	return h.within(g) && !slices.ContainsFunc(h.Addresses, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(g.Addresses, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Overlaps(p) })
	})
}

// Within reports whether s goes to no host that g does not go to.
func (s SecretAccess) Within(g SecretAccess) bool { return s.within(g) }

// is reports whether h allows what a rule in its one spelling does, but for
// addresses.
func (h HTTPAccess) is(r egress.Rule) bool {
	own, ok := egress.Intersect(h.rule(), h.rule())
	return ok && own.Scheme == r.Scheme && own.Host == r.Host && own.Port == r.Port && slices.Equal(own.Methods, r.Methods)
}

func (h HTTPAccess) same(g HTTPAccess) bool {
	r, ok := egress.Intersect(g.rule(), g.rule())
	return ok && h.is(r) && slices.Equal(h.Addresses, g.Addresses)
}

// within reports whether everything h allows is allowed by g, addresses apart.
func (h HTTPAccess) within(g HTTPAccess) bool {
	r, some := egress.Intersect(h.rule(), g.rule())
	return some && h.is(r)
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

// String writes h in the form of a grant: [METHODS ]SCHEME://HOST[:PORT][ at ADDRESSES].
func (h HTTPAccess) String() string {
	s := secretHost{h.scheme(), h.Host, h.Port}.url()
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

// String writes s in the form of a grant: NAME@SCHEME://HOST[:PORT], with commas between
// hosts.
func (s SecretAccess) String() string {
	hosts := make([]string, len(s.Hosts))
	for i, h := range s.Hosts {
		hosts[i] = secretHostOf(h).url()
	}
	return s.Name + "@" + strings.Join(hosts, ",")
}

// Words writes each permission as the command line grants it: state=read, http=GET
// https://api.example.com, secret=KEY@https://api.example.com, clock.
func (p Permissions) Words() []string {
	var words []string
	add := func(granted bool, word string) {
		if granted {
			words = append(words, word)
		}
	}
	add(p.State.or(None) != None, "state="+string(p.State))
	add(p.KV.or(None) != None, "kv="+string(p.KV))
	for _, h := range p.HTTP {
		add(true, "http="+h.String())
	}
	for _, s := range p.Secrets {
		add(true, "secret="+s.String())
	}
	add(p.Messages, "messages")
	add(p.Model, "model")
	add(p.Queue, "queue")
	add(p.Clock, "clock")
	add(p.Random, "random")
	return words
}

// meet returns the hosts that both s and g allow for one secret, if any.
func (s SecretAccess) meet(g SecretAccess) (both SecretAccess, some bool) {
	if s.Name != g.Name {
		return both, false
	}
	both.Name = s.Name
	for _, h := range s.Hosts {
		for _, k := range g.Hosts {
			if one, ok := secretHostOf(h).meet(secretHostOf(k)); ok && len(both.Hosts) < egress.MaxRules {
				both.Hosts = append(both.Hosts, one.String())
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
	return !slices.ContainsFunc(s.Hosts, func(h string) bool {
		own := secretHostOf(h).String()
		return !slices.ContainsFunc(g.Hosts, func(k string) bool {
			one, ok := secretHostOf(h).meet(secretHostOf(k))
			return ok && one.String() == own
		})
	})
}

// secretHost is a host that a secret is bound to; port 0 is any.
type secretHost struct {
	scheme, host string
	port         int
}

func secretHostOf(text string) secretHost {
	scheme, name, port := egress.SplitHost(text)
	s := secretHost{scheme: scheme, host: name}
	s.port, _ = strconv.Atoi(port)
	if r, ok := egress.Intersect(s.rule(), s.rule()); ok {
		s.host = r.Host // in its one spelling
	}
	return s
}

func (s secretHost) rule() egress.Rule { return egress.Rule{Scheme: s.scheme, Host: s.host} }

func (s secretHost) meet(g secretHost) (both secretHost, some bool) {
	if s.port != 0 && g.port != 0 && s.port != g.port {
		return both, false
	}
	r, some := egress.Intersect(s.rule(), g.rule())
	return secretHost{r.Scheme, r.Host, max(s.port, g.port)}, some
}

// bracketed returns the host as it stands before a port.
func (s secretHost) bracketed() string {
	if strings.Contains(s.host, ":") && !strings.HasPrefix(s.host, "[") {
		return "[" + s.host + "]"
	}
	return s.host
}

// url writes the host with its scheme, so that it reads the same everywhere.
func (s secretHost) url() string {
	if s.port == 0 {
		return s.scheme + "://" + s.bracketed()
	}
	return s.scheme + "://" + s.bracketed() + ":" + strconv.Itoa(s.port)
}

func (s secretHost) String() string {
	name := s.bracketed()
	switch {
	case s.port != 0:
		return s.scheme + "://" + name + ":" + strconv.Itoa(s.port)
	case s.scheme != "https":
		return s.scheme + "://" + name
	}
	return name
}

// Missing returns, as words for people, the permissions p asks for beyond the granted.
func (p Permissions) Missing(granted Permissions) []string { return p.Widens(granted) }

// Widens returns, as words for people, the permissions p asks for that none of the
// others has. For the manifest of a plugin's next version, given the permissions the
// last version asked for and those the operator has granted since, these are the
// permissions an operator must grant before that version may take over.
func (p Permissions) Widens(others ...Permissions) []string {
	var out []string
	asks := func(what string, asked bool, has func(Permissions) bool) {
		if asked && !slices.ContainsFunc(others, has) {
			out = append(out, what)
		}
	}
	asks("kv="+string(p.KV), p.KV.or(None) != None, func(o Permissions) bool { return o.KV.allows(p.KV) })
	asks("state="+string(p.State), p.State.or(None) != None, func(o Permissions) bool { return o.State.allows(p.State) })
	asks("model", p.Model, func(o Permissions) bool { return o.Model })
	asks("messages", p.Messages, func(o Permissions) bool { return o.Messages })
	asks("queue", p.Queue, func(o Permissions) bool { return o.Queue })
	asks("clock", p.Clock, func(o Permissions) bool { return o.Clock })
	asks("random", p.Random, func(o Permissions) bool { return o.Random })
	for _, h := range p.HTTP {
		asks(clean("http="+h.String()), true, func(o Permissions) bool { return slices.ContainsFunc(o.HTTP, h.within) })
	}
	for _, s := range p.Secrets {
		asks(clean("secret="+s.String()), true, func(o Permissions) bool { return slices.ContainsFunc(o.Secrets, s.within) })
	}
	return out
}

// clone returns a copy that shares nothing with p.
func (p Permissions) clone() Permissions {
	p.HTTP = slices.Clone(p.HTTP)
	for i := range p.HTTP {
		p.HTTP[i].Methods = slices.Clone(p.HTTP[i].Methods)
		p.HTTP[i].Addresses = slices.Clone(p.HTTP[i].Addresses)
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
