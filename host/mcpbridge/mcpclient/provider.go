package mcpclient

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// ProviderOptions are the optional parts of [Servers.Provider].
type ProviderOptions struct {
	// Servers are the names of the servers that it offers, of those that the tenant of a
	// run has; nil is all of them.
	Servers []string
	// NoTools has the provider add resources and prompts alone.
	NoTools bool
	// Resources are read at the beginning of each run of the agent and stand before the
	// input; Prompts likewise. Each is of the one server that the provider names.
	Resources []string
	Prompts   []PromptUse
}

// PromptUse is a prompt with its arguments.
type PromptUse struct {
	Name      string
	Arguments map[string]string
}

// Provider returns a context provider that offers an agent the tools of the servers that the
// tenant of each run has, as they are accepted when the agent begins. A server that the
// tenant does not have adds nothing, and neither does one that is down, unless it is
// Required. Code invalid_argument for resources or prompts without one server.
func (s *Servers) Provider(name string, opts *ProviderOptions) (host.Provider, error) {
	p := &provider{name: name, servers: s}
	if opts != nil {
		p.ProviderOptions = *opts
	}
	if len(p.Resources)+len(p.Prompts) > 0 && len(p.Servers) != 1 {
		return nil, fault.Errorf(fault.InvalidArgument, "provider %q has resources or prompts of no one MCP server", name).WithHint("name one server")
	}
	return p, nil
}

type provider struct {
	name    string
	servers *Servers
	ProviderOptions
}

// Name implements [host.Provider].
func (p *provider) Name() string { return p.name }

// ReadsOnly implements llm.Reader.
func (p *provider) ReadsOnly() {}

// Provide implements [host.Provider].
func (p *provider) Provide(ctx context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	names := p.Servers
	if names == nil {
		names = p.servers.Names(req.Scope.Tenant)
	}
	out := &host.Provided{}
	taken := map[string]string{} // the server of each tool
	for _, name := range names {
		l, err := p.servers.link(req.Scope.Tenant, name)
		if fault.CodeOf(err) == fault.NotFound { // the tenant does not have it
			continue
		}
		var tools []*host.Tool
		if err == nil && !p.NoTools {
			tools, err = l.hostTools(ctx)
		}
		if err == nil {
			err = p.addTexts(ctx, l, out)
		}
		switch {
		case ctx.Err() != nil:
			return nil, fault.ContextError(ctx)
		case err != nil && l != nil && !l.server.Required:
			p.servers.logger.WarnContext(ctx, "MCP server is left out of a run", "server", name, "tenant", req.Scope.Tenant, "run", req.Scope.Run, "error", err)
			continue
		case err != nil:
			return nil, err
		}
		for _, t := range tools {
			if other, twice := taken[t.Name]; twice {
				return nil, fault.Errorf(fault.FailedPrecondition, "the MCP servers %q and %q both have a tool %q", other, name, t.Name).
					WithHint("give one of them a prefix, or rename the tool")
			}
			taken[t.Name] = name
		}
		out.Tools = append(out.Tools, tools...)
	}
	return out, nil
}

// addTexts adds the resources and prompts that stand before the input.
func (p *provider) addTexts(ctx context.Context, l *link, out *host.Provided) error {
	for _, uri := range p.Resources {
		parts, err := l.readResource(ctx, uri)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if part != nil && len(part.Blob) == 0 {
				text := "The resource " + plainLine(uri, maxURI) + " of the MCP server " + l.server.Name + ":\n" + part.Text
				out.Messages = append(out.Messages, host.UserText(text))
			}
		}
	}
	for _, use := range p.Prompts {
		texts, err := l.prompt(ctx, use.Name, use.Arguments)
		if err != nil {
			return err
		}
		for _, text := range texts {
			out.Messages = append(out.Messages, host.UserText(text))
		}
	}
	return nil
}

// hostTools returns the tools that agents get of the server. A tool whose name is that of
// another of the same server is left out.
func (l *link) hostTools(ctx context.Context) ([]*host.Tool, error) {
	defs, err := l.offered(ctx)
	if err != nil {
		return nil, err
	}
	var own []*host.Tool
	for _, some := range []struct {
		wanted bool
		tools  func() ([]*host.Tool, error)
	}{{l.server.Resources, l.resourceTools}, {l.server.Prompts, l.promptTools}} {
		if !some.wanted {
			continue
		}
		tools, err := some.tools()
		if err != nil {
			return nil, err
		}
		own = append(own, tools...)
	}
	finder := ""
	if most := l.server.SearchAbove; most >= 0 && len(defs) > most {
		finder = l.server.toolName("find_tools")
		own = append(own, l.findTool(finder, defs))
	}
	taken := map[string]bool{}
	for _, t := range own {
		taken[t.Name] = true
	}
	for i := range defs {
		t, err := l.tool(ctx, &defs[i], finder)
		if err != nil || taken[t.Name] {
			l.servers.logger.WarnContext(ctx, "tool of an MCP server is left out", "server", l.server.Name, "tool", defs[i].Name, "error", err)
			continue
		}
		taken[t.Name] = true
		own = append(own, t)
	}
	return own, nil
}
