package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// Rule allows requests to one server, or to the servers of one domain.
type Rule struct {
	// Scheme is https, the default, or http.
	Scheme string
	// Host is a name (api.example.com), an address (192.0.2.7, 2001:db8::7), or a
	// pattern: *.example.com is every name below example.com, however deep, but
	// not example.com itself; * is every name, but no address. A pattern needs
	// two labels after its star.
	Host string
	// Port is the one port; 0 is the scheme's own.
	Port int
	// Methods are the methods allowed, in capitals; none is every method.
	Methods []string
	// Addresses are the ranges that the host may lie in although they are not
	// public: 127.0.0.0/8, 10.1.0.0/16, fd00::/8. A cloud's metadata address is
	// allowed only by the prefix that holds nothing else (169.254.169.254/32),
	// and an address that carries another one (NAT64, 6to4) only if both are.
	Addresses []netip.Prefix
}

// SecretRule lets the secret Name be sent to some servers. Hosts are spelled as
// in [Rule.Host], without "*" alone; a secret goes over https on any port of the
// host. "https://HOST:PORT" narrows that to a port, and plain http has to be
// spelled out: "http://HOST" or "http://HOST:PORT".
type SecretRule struct {
	Name  string
	Hosts []string
}

// Grants is the input of a [Policy].
type Grants struct {
	HTTP    []Rule
	Secrets []SecretRule
}

// MaxRules bounds the rules of a policy, and the hosts of each secret.
const MaxRules = 256

// Policy decides where requests may go. It never changes; any number of
// goroutines may use it. A nil Policy allows nothing.
type Policy struct {
	rules   []rule
	secrets map[string][]secretHost
}

// rule is a Rule in its one spelling.
type rule struct {
	scheme    string
	host      pattern
	port      int
	methods   []string
	addresses []netip.Prefix
}

type secretHost struct {
	scheme string
	host   pattern
	port   int // 0 is any
}

// NewPolicy checks g and makes a policy of it. An error has code
// invalid_argument and names the rule.
func NewPolicy(g *Grants) (*Policy, error) {
	if len(g.HTTP) > MaxRules || len(g.Secrets) > MaxRules {
		return nil, fault.Errorf(fault.InvalidArgument, "a policy has more than %d rules", MaxRules)
	}
	p := &Policy{secrets: map[string][]secretHost{}}
	for _, r := range g.HTTP {
		c, err := r.compile()
		if err != nil {
			return nil, err
		}
		p.rules = append(p.rules, c)
	}
	for _, s := range g.Secrets {
		hosts, err := s.compile()
		if err != nil {
			return nil, err
		}
		p.secrets[s.Name] = append(p.secrets[s.Name], hosts...)
	}
	return p, nil
}

// Validate reports the mistake in r, with code invalid_argument.
func (r Rule) Validate() error {
	_, err := r.compile()
	return err
}

func (r Rule) compile() (rule, error) {
	c := rule{scheme: strings.ToLower(r.Scheme), port: r.Port, addresses: slices.Clone(r.Addresses)}
	if c.scheme == "" {
		c.scheme = "https"
	}
	if c.scheme != "https" && c.scheme != "http" {
		return rule{}, fault.Errorf(fault.InvalidArgument, "http rule for %q: scheme %q is neither https nor http", r.Host, r.Scheme)
	}
	var err error
	if c.host, err = newPattern(r.Host); err != nil {
		return rule{}, fault.Errorf(fault.InvalidArgument, "http rule for %q: %w", r.Host, err)
	}
	if c.port == 0 {
		c.port = defaultPort(c.scheme)
	}
	if c.port < 1 || c.port > 65535 {
		return rule{}, fault.Errorf(fault.InvalidArgument, "http rule for %q: port %d is not from 1 to 65535", r.Host, r.Port)
	}
	for _, m := range r.Methods {
		m = strings.ToUpper(m)
		if err := checkMethod(m); err != nil {
			return rule{}, fault.Errorf(fault.InvalidArgument, "http rule for %q: %w", r.Host, err)
		}
		c.methods = append(c.methods, m)
	}
	for _, a := range r.Addresses {
		if !a.IsValid() {
			return rule{}, fault.Errorf(fault.InvalidArgument, "http rule for %q: an address range is not valid", r.Host)
		}
	}
	return c, nil
}

func (s SecretRule) compile() ([]secretHost, error) {
	if s.Name == "" || len(s.Hosts) == 0 || len(s.Hosts) > MaxRules {
		return nil, fault.Errorf(fault.InvalidArgument, "secret rule %q needs a name and 1 to %d hosts", s.Name, MaxRules)
	}
	var out []secretHost
	for _, h := range s.Hosts {
		c, err := newSecretHost(h)
		if err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "secret rule %q, host %q: %w", s.Name, h, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// SplitHost reads a host as rules, grants and manifests write it: HOST, HOST:PORT,
// or either behind SCHEME://, where an IPv6 address with a port stands in brackets.
// The scheme is https if none is given, and the port "".
func SplitHost(text string) (scheme, name, port string) {
	scheme, name = "https", text
	before, rest, found := strings.Cut(text, "://")
	if found {
		scheme, name = strings.ToLower(before), rest
	}
	i := strings.LastIndexByte(name, ':')
	bare := !found && strings.Count(name, ":") > 1 && name[0] != '[' // an address of IPv6
	if i > strings.LastIndexByte(name, ']') && !bare {
		name, port = name[:i], name[i+1:]
		if port == "" {
			port = "0" // a colon without a port is refused
		}
	}
	return scheme, name, port
}

func newSecretHost(text string) (secretHost, error) {
	scheme, name, digits := SplitHost(text)
	c := secretHost{scheme: scheme}
	if digits != "" {
		port, err := strconv.Atoi(digits)
		if err != nil || port < 1 || port > 65535 {
			return c, fmt.Errorf("its port is not a number from 1 to 65535")
		}
		c.port = port
	}
	if c.scheme != "https" && c.scheme != "http" {
		return c, fmt.Errorf("its scheme is neither https nor http")
	}
	var err error
	if c.host, err = newPattern(name); err == nil && c.host.kind == anyName {
		err = fmt.Errorf("a secret is bound to hosts, not to all of them")
	}
	return c, err
}

// pattern is a host of a rule.
type pattern struct {
	kind patternKind
	text string // name or address in its one spelling; for below, the domain with its leading dot
}

type patternKind byte

const (
	exact patternKind = iota
	below
	anyName
)

func newPattern(text string) (pattern, error) {
	if text == "*" {
		return pattern{kind: anyName}, nil
	}
	if domain, ok := strings.CutPrefix(text, "*."); ok {
		name, addr, err := canonicalHost(domain, false)
		if err != nil || addr.IsValid() || !strings.Contains(name, ".") {
			return pattern{}, fmt.Errorf("after *. it needs a domain of at least two labels")
		}
		return pattern{below, "." + name}, nil
	}
	trimmed := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	name, _, err := canonicalHost(trimmed, strings.Contains(trimmed, ":"))
	if err != nil {
		return pattern{}, fmt.Errorf("it is neither a name, an address, *.DOMAIN nor *")
	}
	return pattern{exact, name}, nil
}

func (p pattern) matches(t *target) bool {
	switch p.kind {
	case exact:
		return p.text == t.host
	case below:
		return !t.addr.IsValid() && strings.HasSuffix(t.host, p.text)
	}
	return !t.addr.IsValid()
}

// within reports whether every host of p is one of q.
func (p pattern) within(q pattern) bool {
	switch {
	case p == q:
		return true
	case q.kind == anyName:
		_, isAddr := p.addr()
		return p.kind == below || p.kind == exact && !isAddr
	case q.kind == below:
		_, isAddr := p.addr()
		return p.kind != anyName && !isAddr && strings.HasSuffix(p.text, q.text)
	}
	return false
}

func (p pattern) addr() (netip.Addr, bool) {
	if p.kind != exact {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(p.text)
	return a, err == nil
}

func (p pattern) String() string {
	switch p.kind {
	case below:
		return "*" + p.text
	case anyName:
		return "*"
	}
	return p.text
}

// Intersect returns the rule of requests that both rules allow, and false if
// they allow none: the narrower host and the methods of both. The ranges of
// addresses are those of granted alone: a plugin does not ask for them, the
// operator knows them. An invalid rule allows nothing.
func Intersect(asked, granted Rule) (Rule, bool) {
	a, errA := asked.compile()
	g, errG := granted.compile()
	if errA != nil || errG != nil || a.scheme != g.scheme || a.port != g.port {
		return Rule{}, false
	}
	out := Rule{Scheme: a.scheme, Port: a.port, Addresses: g.addresses}
	switch {
	case a.host.within(g.host):
		out.Host = a.host.String()
	case g.host.within(a.host):
		out.Host = g.host.String()
	default:
		return Rule{}, false
	}
	switch {
	case len(a.methods) == 0:
		out.Methods = g.methods
	case len(g.methods) == 0:
		out.Methods = a.methods
	default:
		for _, m := range a.methods {
			if slices.Contains(g.methods, m) {
				out.Methods = append(out.Methods, m)
			}
		}
		if len(out.Methods) == 0 {
			return Rule{}, false
		}
	}
	return out, true
}

// allow reports whether a request may be sent, and which ranges of addresses
// that are not public it may be sent to. The error has code permission_denied
// and names the missing grant.
func (p *Policy) allow(t *target, method string) ([]netip.Prefix, error) {
	var granted []netip.Prefix
	found, server := false, false
	if p != nil {
		for _, r := range p.rules {
			if r.scheme != t.scheme || r.port != t.port || !r.host.matches(t) {
				continue
			}
			server = true
			if len(r.methods) > 0 && !slices.Contains(r.methods, method) {
				continue
			}
			found = true
			granted = append(granted, r.addresses...)
		}
	}
	switch {
	case found:
		return granted, nil
	case server:
		return nil, denied(t, method, "%s %s is not granted: the server is, the method is not", method, t.origin())
	}
	return nil, denied(t, method, "%s %s is not granted", method, t.origin())
}

// Allows reports whether a request with that method to that URL may be sent as
// far as is known before its host is resolved. The errors are those of
// [Client.Fetch].
func (p *Policy) Allows(method, rawURL string) error {
	t, err := parseTarget(rawURL)
	if err != nil {
		return err
	}
	if err := checkMethod(method); err != nil {
		return err
	}
	_, err = p.allow(t, method)
	return err
}

func denied(t *target, method, format string, args ...any) *fault.Error {
	return fault.Errorf(fault.PermissionDenied, format, args...).
		WithHint("grant %s", grantText(t, method))
}

// grantText is the rule that would allow the request, as the command line and
// configurations spell it.
func grantText(t *target, method string) string {
	return fmt.Sprintf("http=%q", method+" "+t.origin())
}

// allowSecret reports whether the secret may be sent to t.
func (p *Policy) allowSecret(name string, t *target) bool {
	if p == nil {
		return false
	}
	return slices.ContainsFunc(p.secrets[name], func(s secretHost) bool {
		return s.scheme == t.scheme && (s.port == 0 || s.port == t.port) && s.host.matches(t)
	})
}
