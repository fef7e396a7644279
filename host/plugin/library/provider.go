package library

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// ProviderOptions are the optional parts of [NewProvider].
type ProviderOptions struct {
	// Plugins are the ids of the plugins that it offers the tools of, of those that the
	// tenant of a run has; nil is all of them.
	Plugins []string
}

// NewProvider returns a context provider that offers an agent the tools of the plugins that
// serve the tenant of each run, as they are when the agent begins: its own and shared ones.
// A plugin that the tenant does not have adds nothing. Tools keep the names that their
// manifests give them: a run whose agent would have two tools of one name fails, and the
// error says which.
//
// open returns the library, for a program that opens it late. It is called by each run, by
// many goroutines at once; its error ends the run.
func NewProvider(name string, open func(context.Context) (*Library, error), opts *ProviderOptions) host.Provider {
	p := &provider{name: name, open: open}
	if opts != nil {
		p.ProviderOptions = *opts
	}
	return p
}

type provider struct {
	name string
	open func(context.Context) (*Library, error)
	ProviderOptions
}

// Name implements [host.Provider].
func (p *provider) Name() string { return p.name }

// ReadsOnly implements llm.Reader.
func (p *provider) ReadsOnly() {}

// Provide implements [host.Provider].
func (p *provider) Provide(ctx context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	ids := p.Plugins
	if ids == nil {
		ids = l.Serving(req.Scope.Tenant)
	}
	var tools []*host.Tool
	from := map[string]string{} // the plugin of each tool
	for _, id := range ids {
		slot, err := l.Lookup(req.Scope.Tenant, id)
		if err != nil { // the tenant does not have it, or not any more
			continue
		}
		some, err := slot.Tools(nil)
		if fault.CodeOf(err) == fault.FailedPrecondition { // it was deactivated just now
			continue
		}
		if err != nil {
			return nil, fault.Wrap(err, "tools of plugin %q", id)
		}
		for _, t := range some {
			if other, twice := from[t.Name]; twice {
				return nil, fault.Errorf(fault.FailedPrecondition, "the plugins %q and %q both have a tool %q", other, id, t.Name).
					WithHint("rename the tool in one of them, or deactivate one")
			}
			from[t.Name] = id
		}
		tools = append(tools, some...)
	}
	if len(tools) == 0 {
		return nil, nil
	}
	return &host.Provided{Tools: tools}, nil
}
