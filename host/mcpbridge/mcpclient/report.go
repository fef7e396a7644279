package mcpclient

import (
	"context"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host/fault"
)

// State says whether agents have a tool, and why not.
type State string

// The states of a tool.
const (
	StateAccepted State = "accepted" // its definition is that of the lock
	StateFirst    State = "first"    // its definition is the one that was seen first; the lock has no server of the name
	StateNew      State = "new"      // the lock does not have it: held back
	StateChanged  State = "changed"  // its definition is another than the accepted one: held back
	StateGone     State = "gone"     // the lock has it and the server does not
	StateRefused  State = "refused"  // it cannot be offered
	StateLeft     State = "left out" // the server's lists of allowed and denied tools leave it out
)

// ToolReport says how a tool of a server stands.
type ToolReport struct {
	Name     string      `json:"name"` // the server's
	As       string      `json:"as"`   // in agents
	State    State       `json:"state"`
	Reason   string      `json:"reason,omitempty"`  // why it is refused
	Repairs  []string    `json:"repairs,omitempty"` // of its schema, for models
	Accepted *Definition `json:"accepted,omitempty"`
	Now      *Definition `json:"now,omitempty"`
}

// Held reports whether the tool waits to be accepted.
func (t *ToolReport) Held() bool {
	return t.State == StateNew || t.State == StateChanged || t.State == StateGone
}

// Report says how the tools of a server stand for a tenant.
type Report struct {
	Server   string       `json:"server"`
	Key      string       `json:"key"`      // in the lock
	Locked   bool         `json:"locked"`   // the lock has the server
	Protocol string       `json:"protocol"` // that both sides speak
	Tools    []ToolReport `json:"tools"`
}

// Inspect asks a server that a tenant has for its tools, and compares them with the accepted
// ones. The errors are the operator's: clients read less of them.
func (s *Servers) Inspect(ctx context.Context, tenant, server string) (*Report, error) {
	l, err := s.link(tenant, server)
	if err != nil {
		return nil, err
	}
	listed, refused, protocol, err := l.inspect(ctx)
	if err != nil {
		return nil, forOperator(err)
	}
	locked := s.lock.definitions(l.key())
	pinned, _ := l.pinned()
	report := &Report{Server: server, Key: l.key(), Locked: locked != nil, Protocol: protocol, Tools: []ToolReport{}}
	names := map[string]bool{}
	for _, m := range []map[string]Definition{listed, locked} {
		for name := range m {
			names[name] = true
		}
	}
	for name := range refused {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t := ToolReport{Name: name, As: l.server.toolName(name), Reason: refused[name]}
		if d, ok := locked[name]; ok {
			t.Accepted = &d
		}
		if d, ok := listed[name]; ok {
			t.Now = &d
			_, t.Repairs, _ = repairSchema(d.Schema)
		}
		t.State = stateOf(l.server, &t, locked != nil, pinned[name])
		report.Tools = append(report.Tools, t)
	}
	return report, nil
}

// stateOf returns the state of a tool of a report.
func stateOf(server *Server, t *ToolReport, locked bool, pinned string) State {
	switch {
	case t.Reason != "":
		return StateRefused
	case !server.offers(t.Name):
		return StateLeft
	case t.Now == nil:
		return StateGone
	case pinned == "":
		return StateNew
	case pinned != t.Now.Digest():
		return StateChanged
	case locked:
		return StateAccepted
	}
	return StateFirst
}

// inspect lists the tools, whether or not they have changed.
func (l *link) inspect(ctx context.Context) (listed map[string]Definition, refused map[string]string, protocol string, err error) {
	s, err := l.open(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	defer l.release(s)
	if err := s.listAlone(ctx, func() bool { return false }); err != nil {
		return nil, nil, "", err
	}
	listed, refused = s.tools()
	l.pin(listed)
	if init := s.cs.InitializeResult(); init != nil {
		protocol = plainLine(init.ProtocolVersion, maxOwnName)
	}
	return listed, refused, protocol, nil
}

// Accept accepts the definitions of tools as the server gives them now, of all tools without
// names, and has the lock remember them; a tool that the server does not have any more is
// removed. It returns the names that changed the lock. Code not_found for a name that neither
// the server nor the lock has.
func (s *Servers) Accept(ctx context.Context, tenant, server string, tools ...string) ([]string, error) {
	report, err := s.Inspect(ctx, tenant, server)
	if err != nil {
		return nil, err
	}
	l, err := s.link(tenant, server)
	if err != nil {
		return nil, err
	}
	now := map[string]Definition{}
	var all, changed []string
	for _, t := range report.Tools {
		if t.Now != nil {
			now[t.Name] = *t.Now
		}
		if t.Now == nil && t.Accepted == nil {
			continue // it cannot be offered
		}
		all = append(all, t.Name)
		if t.Now == nil || t.Accepted == nil || t.Now.Digest() != t.Accepted.Digest() {
			changed = append(changed, t.Name)
		}
	}
	for _, name := range tools {
		if !slices.Contains(all, name) {
			return nil, fault.Errorf(fault.NotFound, "MCP server %q has no tool %q", server, plainLine(name, maxOwnName)).WithHint("name tools as the server does")
		}
	}
	if len(tools) == 0 {
		tools = all
	}
	s.lock.accept(l.key(), tools, now)
	l.repin(tools, now)
	return slices.DeleteFunc(changed, func(name string) bool { return !slices.Contains(tools, name) }), nil
}
