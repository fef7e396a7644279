package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// makeTargets makes the configured agents, each of which can be run by itself,
// and networks. It may be called again, for what plugins now offer; runs in
// progress keep what they began with.
func (a *app) makeTargets() error {
	if err := a.checkToolOptions(); err != nil {
		return err
	}
	a.agents = map[string]*host.Agent{}
	targets := map[string]host.Target{}
	for _, name := range sortedKeys(a.config.Agents) {
		agent, err := a.agent(name, nil)
		if err != nil {
			return err
		}
		targets[name] = agent
	}
	for _, name := range sortedKeys(a.config.Networks) {
		n, err := a.makeNetwork(name, a.config.Networks[name])
		if err != nil {
			return a.config.wrap(err, keys("networks", name))
		}
		targets[name] = n
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets = targets
	return nil
}

// members finds a network's agents.
func (a *app) members(at place, names []string) ([]*host.Agent, error) {
	agents := make([]*host.Agent, len(names))
	for i, name := range names {
		if agents[i] = a.agents[name]; agents[i] == nil {
			return nil, a.config.unknown(at.to(i), "agent", name, sortedKeys(a.agents))
		}
	}
	return agents, nil
}

// oneOf reads a setting with two values, the first being the default; it
// reports whether it is the second.
func (a *app) oneOf(at place, got, usual, other string) (bool, error) {
	switch got {
	case "", usual:
		return false, nil
	case other:
		return true, nil
	}
	return false, a.config.errorAt(at, "%v is %q", at[len(at)-1], got).WithHint("use %s or %s", usual, other)
}

// plugin finds the plugin of PLUGIN or PLUGIN/PART.
func (a *app) plugin(at place, use string) (p parts, part string, err error) {
	id, part := splitUse(use)
	if id == "" {
		return nil, "", a.config.errorAt(at, "no plugin is named").WithHint("write: use: PLUGIN, or PLUGIN/PART")
	}
	if p = a.plugins[id]; p == nil {
		return nil, "", a.config.unknown(at, "plugin", id, slices.Concat(sortedKeys(a.config.Plugins), builtinNames()))
	}
	return p, part, nil
}

func (a *app) tools(at place, uses []string) ([]*host.Tool, error) {
	var tools []*host.Tool
	for i, use := range uses {
		some, err := a.toolsOf(at.to(i), use)
		if err != nil {
			return nil, a.config.wrap(err, at.to(i))
		}
		tools = append(tools, some...)
	}
	return tools, nil
}

// toolsOf returns all tools of PLUGIN, or the one of PLUGIN/TOOL.
func (a *app) toolsOf(at place, use string) ([]*host.Tool, error) {
	if strings.HasPrefix(use, memoryPrefix) {
		return a.memoryTools(at, use)
	}
	p, part, err := a.plugin(at, use)
	if err != nil {
		return nil, err
	}
	opts := a.toolNaming(p.ID())
	if config := a.config.Plugins[p.ID()].Config; config != nil {
		if opts.Config, err = a.toJSON(keys("plugins", p.ID(), "config"), config); err != nil {
			return nil, err
		}
	}
	if part == "" {
		return p.Tools(opts)
	}
	tool, err := p.Tool(part, opts)
	return []*host.Tool{tool}, err
}

func (a *app) processors(at place, uses []useConfig) ([]host.Processor, error) {
	var list []host.Processor
	for i, use := range uses {
		at := at.to(i)
		processor, err := a.processor(at, use)
		if err != nil {
			return nil, err
		}
		skip, err := a.oneOf(at.to("on_failure"), use.OnFailure, "fail", "skip")
		if err != nil {
			return nil, err
		}
		if skip {
			processor = host.Optional(processor)
		}
		list = append(list, processor)
	}
	return list, nil
}

// processor returns the processor of a plugin, or a reducer as one.
func (a *app) processor(at place, use useConfig) (host.Processor, error) {
	if strings.HasPrefix(use.Use, reducePrefix) {
		return a.reducerProcessor(at, use)
	}
	p, part, opts, err := a.part(at, use, nil)
	if err != nil {
		return nil, err
	}
	processor, err := p.Processor(part, opts)
	module := p.ID()
	if path := a.config.Plugins[module].Path; path != "" {
		module = path
	}
	if fault := checkBuiltin(module, opts.Config, a.tokens); fault != nil {
		err = fault // in words about the keys, where the schema's are about itself
	}
	return processor, a.config.wrap(err, at.to("use"))
}

func (a *app) providers(at place, uses []useConfig, tools []*host.Tool) ([]host.Provider, error) {
	var list []host.Provider
	for i, use := range uses {
		at := at.to(i)
		if use.OnFailure != "" {
			return nil, a.config.errorAt(at.to("on_failure"), "a provider has no on_failure").WithHint("remove it: a provider that fails ends the run")
		}
		provider, err := a.provider(at, use, tools)
		if err != nil {
			return nil, err
		}
		list = append(list, provider)
	}
	return list, nil
}

// provider returns the provider of a plugin, or a memory as one.
func (a *app) provider(at place, use useConfig, tools []*host.Tool) (host.Provider, error) {
	if strings.HasPrefix(use.Use, memoryPrefix) {
		return a.memoryProvider(at, use)
	}
	p, part, opts, err := a.part(at, use, tools)
	if err != nil {
		return nil, err
	}
	provider, err := p.Provider(part, opts)
	return provider, a.config.wrap(err, at.to("use"))
}

// part finds the plugin of a processor or provider in use, and its options.
func (a *app) part(at place, use useConfig, tools []*host.Tool) (parts, string, *plugin.PartOptions, error) {
	p, part, err := a.plugin(at.to("use"), use.Use)
	if err != nil {
		return nil, "", nil, err
	}
	opts := a.toolNaming(p.ID())
	opts.Tools = tools
	opts.Config, err = a.toJSON(at.to("config"), use.Config)
	return p, part, opts, err
}

// toolNaming returns options with the names that a plugin's tools get.
func (a *app) toolNaming(id string) *plugin.PartOptions {
	c := a.config.Plugins[id]
	return &plugin.PartOptions{Prefix: c.Prefix, Rename: c.Rename}
}

// toJSON turns a value of the configuration into JSON; nil is nothing.
func (a *app) toJSON(at place, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, a.config.errorAt(at, "this is no JSON value: %w", err).WithHint("use maps with text as keys, and no .inf or .nan")
	}
	return raw, nil
}
