package permission

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/egress"
)

// Secret allows a secret to be sent to some hosts, each written as HOST,
// HOST:PORT or either behind https:// or http://, where HOST is as in [HTTP]
// but not *. Without a scheme it is https, without a port any.
type Secret struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
}

// String writes s in the form of a grant: NAME@SCHEME://HOST[:PORT], with commas between
// hosts.
func (s Secret) String() string {
	hosts := make([]string, len(s.Hosts))
	for i, h := range s.Hosts {
		hosts[i] = endpointOf(h).url()
	}
	return s.Name + "@" + strings.Join(hosts, ",")
}

// Within reports whether s goes to no host that g does not go to.
func (s Secret) Within(g Secret) bool { return s.within(g) }

// meet returns the hosts that both s and g allow for one secret, if any.
func (s Secret) meet(g Secret) (both Secret, some bool) {
	if s.Name != g.Name {
		return both, false
	}
	both.Name = s.Name
	for _, h := range s.Hosts {
		for _, k := range g.Hosts {
			if one, ok := endpointOf(h).meet(endpointOf(k)); ok && len(both.Hosts) < egress.MaxRules {
				both.Hosts = append(both.Hosts, one.String())
			}
		}
	}
	slices.Sort(both.Hosts)
	both.Hosts = slices.Compact(both.Hosts)
	return both, len(both.Hosts) > 0
}

func (s Secret) within(g Secret) bool {
	if s.Name != g.Name {
		return false
	}
	return !slices.ContainsFunc(s.Hosts, func(h string) bool {
		own := endpointOf(h).String()
		return !slices.ContainsFunc(g.Hosts, func(k string) bool {
			one, ok := endpointOf(h).meet(endpointOf(k))
			return ok && one.String() == own
		})
	})
}

// endpoint is a host with its scheme and port; port 0 is any.
type endpoint struct {
	scheme, host string
	port         int
}

func endpointOf(text string) endpoint {
	scheme, name, port := egress.SplitHost(text)
	s := endpoint{scheme: scheme, host: name}
	s.port, _ = strconv.Atoi(port)
	if r, ok := egress.Intersect(s.rule(), s.rule()); ok {
		s.host = r.Host // in its one spelling
	}
	return s
}

func (s endpoint) rule() egress.Rule { return egress.Rule{Scheme: s.scheme, Host: s.host} }

func (s endpoint) meet(g endpoint) (both endpoint, some bool) {
	if s.port != 0 && g.port != 0 && s.port != g.port {
		return both, false
	}
	r, some := egress.Intersect(s.rule(), g.rule())
	return endpoint{r.Scheme, r.Host, max(s.port, g.port)}, some
}

// bracketed returns the host as it stands before a port.
func (s endpoint) bracketed() string {
	if strings.Contains(s.host, ":") && !strings.HasPrefix(s.host, "[") {
		return "[" + s.host + "]"
	}
	return s.host
}

// url writes the host with its scheme, so that it reads the same everywhere.
func (s endpoint) url() string {
	if s.port == 0 {
		return s.scheme + "://" + s.bracketed()
	}
	return s.scheme + "://" + s.bracketed() + ":" + strconv.Itoa(s.port)
}

func (s endpoint) String() string {
	name := s.bracketed()
	switch {
	case s.port != 0:
		return s.scheme + "://" + name + ":" + strconv.Itoa(s.port)
	case s.scheme != "https":
		return s.scheme + "://" + name
	}
	return name
}
