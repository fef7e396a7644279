package plugin

import (
	"encoding/json"
	"fmt"
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

// HTTPAccess allows requests to one server.
type HTTPAccess struct {
	Scheme  string   `json:"scheme,omitempty"` // default https
	Host    string   `json:"host"`
	Port    int      `json:"port,omitempty"` // default the scheme's
	Methods []string `json:"methods,omitempty"`
}

// SecretAccess allows a secret to be sent to some hosts.
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

func (p *Permissions) check() error {
	for _, h := range p.HTTP {
		if h.Host == "" {
			return fmt.Errorf("http permission without a host")
		}
	}
	for _, s := range p.Secrets {
		if s.Name == "" || len(s.Hosts) == 0 {
			return fmt.Errorf("secret permission needs a name and hosts")
		}
	}
	return nil
}

// clamp returns what is both asked for and granted.
func (p Permissions) clamp(granted Permissions) Permissions {
	out := Permissions{
		KV: p.KV.min(granted.KV), State: p.State.min(granted.State),
		Model: p.Model && granted.Model, Messages: p.Messages && granted.Messages, Queue: p.Queue && granted.Queue,
		Clock: p.Clock && granted.Clock, Random: p.Random && granted.Random,
	}
	for _, h := range p.HTTP {
		if slices.ContainsFunc(granted.HTTP, h.within) {
			out.HTTP = append(out.HTTP, h)
		}
	}
	for _, s := range p.Secrets {
		if slices.ContainsFunc(granted.Secrets, s.within) {
			out.Secrets = append(out.Secrets, s)
		}
	}
	return out
}

// within reports whether everything h allows is allowed by g.
func (h HTTPAccess) within(g HTTPAccess) bool {
	if h.scheme() != g.scheme() || !strings.EqualFold(h.Host, g.Host) || h.port() != g.port() {
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

func (s SecretAccess) within(g SecretAccess) bool {
	if s.Name != g.Name {
		return false
	}
	for _, h := range s.Hosts {
		if !slices.Contains(g.Hosts, h) {
			return false
		}
	}
	return true
}

// Missing returns, as words for people, what p asks for beyond what is granted.
func (p Permissions) Missing(granted Permissions) []string {
	got := p.clamp(granted)
	var out []string
	say := func(missing bool, what string) {
		if missing {
			out = append(out, what)
		}
	}
	say(!got.KV.allows(p.KV.or(None)), "kv: "+string(p.KV))
	say(!got.State.allows(p.State.or(None)), "state: "+string(p.State))
	say(p.Model != got.Model, "model")
	say(p.Messages != got.Messages, "messages")
	say(p.Queue != got.Queue, "queue")
	say(p.Clock != got.Clock, "clock")
	say(p.Random != got.Random, "random")
	for _, h := range p.HTTP {
		say(!slices.ContainsFunc(got.HTTP, h.within), fmt.Sprintf("http: %s://%s:%d", h.scheme(), h.Host, h.port()))
	}
	for _, s := range p.Secrets {
		say(!slices.ContainsFunc(got.Secrets, s.within), "secret: "+s.Name)
	}
	return out
}

func (a Access) or(b Access) Access {
	if a == "" {
		return b
	}
	return a
}
