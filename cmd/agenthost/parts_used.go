package main

import (
	"context"

	"github.com/agenthost/agenthost/host/plugin"
)

// partKind is what a plugin is used as.
type partKind int

const (
	toolPart partKind = iota
	processorPart
	providerPart
	routerPart
)

// usedPart is a place of the configuration that uses a plugin, or what is named
// like one.
type usedPart struct {
	kind   partKind
	use    string // PLUGIN or PLUGIN/PART
	at     place
	config any
}

// partsUsed returns every use that the configuration makes of plugins.
func (c *config) partsUsed() (list []usedPart) {
	all := func(kind partKind, at place, uses []useConfig) {
		for i, u := range uses {
			list = append(list, usedPart{kind, u.Use, at.to(i, "use"), u.Config})
		}
	}
	all(processorPart, keys("history", "processors"), c.History.Processors)
	for _, name := range sortedKeys(c.Networks) {
		n, at := c.Networks[name], keys("networks", name)
		list = append(list, usedPart{routerPart, n.Router, at.to("router"), n.RouterConfig})
		all(processorPart, at.to("processors"), n.Processors)
		all(providerPart, at.to("providers"), n.Providers)
		if n.Routing != nil {
			list = append(list, usedPart{routerPart, n.Routing.Reader, at.to("routing", "reader"), n.Routing.ReaderConfig})
			all(processorPart, at.to("routing", "processors"), n.Routing.Processors)
		}
	}
	for _, name := range sortedKeys(c.Agents) {
		agent, at := c.Agents[name], keys("agents", name)
		all(processorPart, at.to("processors"), agent.Processors)
		all(providerPart, at.to("providers"), agent.Providers)
		for i, use := range agent.Tools {
			list = append(list, usedPart{toolPart, use, at.to("tools", i), nil})
		}
	}
	return list
}

// checkParts refuses a version of a plugin that does not have what the
// configuration uses of it: agents would keep tools that are gone.
func (a *app) checkParts(id string) func(context.Context, *plugin.Plugin) error {
	return func(_ context.Context, p *plugin.Plugin) error {
		if !a.serving.Load() {
			return nil // making the agents says it, for every plugin
		}
		for _, u := range a.config.partsUsed() {
			if used, part := splitUse(u.use); used == id {
				if err := a.checkPart(u, part, p); err != nil {
					return a.config.wrap(err, u.at)
				}
			}
		}
		return nil
	}
}

func (a *app) checkPart(u usedPart, part string, p *plugin.Plugin) error {
	opts := a.toolNaming(p.ID())
	var err error
	if u.kind == toolPart {
		if config := a.config.Plugins[p.ID()].Config; config != nil {
			opts.Config, err = a.toJSON(u.at, config)
		}
	} else {
		opts.Config, err = a.toJSON(u.at, u.config)
	}
	if err != nil {
		return err
	}
	switch {
	case u.kind == toolPart && part == "":
		_, err = p.Tools(opts)
	case u.kind == toolPart:
		_, err = p.Tool(part, opts)
	case u.kind == processorPart:
		_, err = p.Processor(part, opts)
	case u.kind == providerPart:
		_, err = p.Provider(part, opts)
	default:
		_, err = p.Router(part, opts)
	}
	return err
}
