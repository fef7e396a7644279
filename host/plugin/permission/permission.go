package permission

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// Set are the rights that a plugin asks for in its manifest, and that an
// operator grants when loading it. The zero value allows nothing.
type Set struct {
	HTTP     []HTTP   `json:"http,omitempty"`
	KV       Access   `json:"kv,omitempty"`
	Secrets  []Secret `json:"secrets,omitempty"`
	Model    bool     `json:"model,omitempty"`
	Messages bool     `json:"messages,omitempty"` // a router may read the conversation
	Queue    bool     `json:"queue,omitempty"`
	Clock    bool     `json:"clock,omitempty"`  // the real time, instead of a virtual one
	Random   bool     `json:"random,omitempty"` // real randomness, instead of a fixed seed
	State    Access   `json:"state,omitempty"`
	Tools    []string `json:"tools,omitempty"` // tools of the agent at work that it may call; "*" is each of them

	// Operations are the names of operations that the program has added to those of the
	// contract: see package host/plugin/hostfunc.
	Operations []string `json:"operations,omitempty"`
}

// The bounds of a list of permissions, which every request is matched against.
const (
	maxHTTP    = 64
	maxSecrets = 64
	maxTools   = 256
)

// everyTool, in a list of tools, is each tool that the agent at work has.
const everyTool = "*"

var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// MayCall reports whether a tool of a name may be called.
func (p *Set) MayCall(tool string) bool {
	return slices.Contains(p.Tools, tool) || slices.Contains(p.Tools, everyTool)
}

// OnlyCalls reports whether calls of tools are all that code with the permissions can do to
// the world outside.
func (p *Set) OnlyCalls() bool {
	return len(p.Tools) > 0 && len(p.HTTP) == 0 && len(p.Secrets) == 0 && p.KV.or(None) != Write && p.State.or(None) != Write && !p.Model && !p.Queue && len(p.Operations) == 0
}

// bothTools returns the tools that two lists allow.
func bothTools(a, b []string) (both []string) {
	switch {
	case slices.Contains(b, everyTool):
		return slices.Clone(a)
	case slices.Contains(a, everyTool):
		return slices.Clone(b)
	}
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}

// Check refuses permissions that are ambiguous or never match.
func (p *Set) Check() error {
	if len(p.HTTP) > maxHTTP || len(p.Secrets) > maxSecrets {
		return fmt.Errorf("%d http and %d secret permissions, more than %d and %d", len(p.HTTP), len(p.Secrets), maxHTTP, maxSecrets)
	}
	if len(p.Tools) > maxTools {
		return fmt.Errorf("%d tools permissions, more than %d", len(p.Tools), maxTools)
	}
	for _, name := range p.Tools {
		if name != everyTool && !toolName().MatchString(name) {
			return fmt.Errorf("tools permission %q is no name of a tool, nor %s for each", name, everyTool)
		}
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
	return checkOperations(p.Operations)
}

// Clamp returns the permissions that are both asked for and granted. Ranges of
// addresses are the grant's.
func (p Set) Clamp(granted Set) Set {
	return p.intersect(granted, func(_, granted []netip.Prefix) []netip.Prefix { return granted })
}

// Under returns the part of a grant that a ceiling allows.
func (p Set) Under(ceiling Set) Set {
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

func (p Set) intersect(granted Set, addresses func(asked, granted []netip.Prefix) []netip.Prefix) Set {
	out := Set{
		KV: p.KV.min(granted.KV), State: p.State.min(granted.State),
		Model: p.Model && granted.Model, Messages: p.Messages && granted.Messages, Queue: p.Queue && granted.Queue,
		Clock: p.Clock && granted.Clock, Random: p.Random && granted.Random,
		Operations: operationsInBoth(p.Operations, granted.Operations),
		Tools:      bothTools(p.Tools, granted.Tools),
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

// Missing returns, as words for people, the permissions p asks for beyond the granted.
func (p Set) Missing(granted Set) []string { return p.Widens(granted) }

// Widens returns, as words for people, the permissions p asks for that none of the
// others has. For the manifest of a plugin's next version, given the permissions the
// last version asked for and those the operator has granted since, these are the
// permissions an operator must grant before that version may take over.
func (p Set) Widens(others ...Set) []string {
	var out []string
	asks := func(what string, asked bool, has func(Set) bool) {
		if asked && !slices.ContainsFunc(others, has) {
			out = append(out, what)
		}
	}
	asks("kv="+string(p.KV), p.KV.or(None) != None, func(o Set) bool { return o.KV.Allows(p.KV) })
	asks("state="+string(p.State), p.State.or(None) != None, func(o Set) bool { return o.State.Allows(p.State) })
	asks("model", p.Model, func(o Set) bool { return o.Model })
	asks("messages", p.Messages, func(o Set) bool { return o.Messages })
	asks("queue", p.Queue, func(o Set) bool { return o.Queue })
	asks("clock", p.Clock, func(o Set) bool { return o.Clock })
	asks("random", p.Random, func(o Set) bool { return o.Random })
	for _, name := range p.Tools {
		asks(guesttext.Clean("tools="+name), true, func(o Set) bool { return o.MayCall(name) })
	}
	for _, h := range p.HTTP {
		asks(guesttext.Clean("http="+h.String()), true, func(o Set) bool { return slices.ContainsFunc(o.HTTP, h.within) })
	}
	for _, s := range p.Secrets {
		asks(guesttext.Clean("secret="+s.String()), true, func(o Set) bool { return slices.ContainsFunc(o.Secrets, s.within) })
	}
	for _, name := range p.Operations {
		asks(guesttext.Clean("operation="+name), true, func(o Set) bool { return o.AllowsOperation(name) })
	}
	return out
}

// Words writes each permission as the command line grants it: state=read, http=GET
// https://api.example.com, secret=KEY@https://api.example.com, clock.
func (p Set) Words() []string {
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
	for _, name := range p.Operations {
		add(true, "operation="+name)
	}
	for _, name := range p.Tools {
		add(true, "tools="+name)
	}
	return words
}

// Clone returns a copy that shares nothing with p.
func (p Set) Clone() Set {
	p.HTTP = slices.Clone(p.HTTP)
	for i := range p.HTTP {
		p.HTTP[i].Methods = slices.Clone(p.HTTP[i].Methods)
		p.HTTP[i].Addresses = slices.Clone(p.HTTP[i].Addresses)
	}
	p.Operations = slices.Clone(p.Operations)
	p.Tools = slices.Clone(p.Tools)
	p.Secrets = slices.Clone(p.Secrets)
	for i := range p.Secrets {
		p.Secrets[i].Hosts = slices.Clone(p.Secrets[i].Hosts)
	}
	return p
}

// Policy returns the rules for HTTP requests and secrets that the permissions set. Code
// invalid_argument for permissions that Check refuses.
func (p Set) Policy() (*egress.Policy, error) {
	grants := &egress.Grants{}
	for _, h := range p.HTTP {
		grants.HTTP = append(grants.HTTP, h.rule())
	}
	for _, s := range p.Secrets {
		grants.Secrets = append(grants.Secrets, egress.SecretRule(s))
	}
	return egress.NewPolicy(grants)
}
