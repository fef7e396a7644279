package project

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// makeTargets makes the configured agents, each of which can be run by itself, and
// networks. It may be called again when plugins have changed; runs in progress keep
// their old agents.
func (a *Project) makeTargets() error {
	if err := a.checkToolOptions(); err != nil {
		return err
	}
	a.agents = map[string]*host.Agent{}
	targets := map[string]host.Target{}
	for _, name := range slices.Sorted(maps.Keys(a.config.Agents)) {
		agent, err := a.agent(name, nil)
		if err != nil {
			return err
		}
		targets[name] = agent
	}
	for _, name := range slices.Sorted(maps.Keys(a.config.Networks)) {
		n, err := a.makeNetwork(name, a.config.Networks[name])
		if err != nil {
			return a.config.Wrap(err, configfile.Keys("networks", name))
		}
		targets[name] = n
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets = targets
	return nil
}

// members finds a network's agents.
func (a *Project) members(at configfile.KeyPath, names []string) ([]*host.Agent, error) {
	agents := make([]*host.Agent, len(names))
	for i, name := range names {
		if agents[i] = a.agents[name]; agents[i] == nil {
			return nil, a.config.Unknown(at.To(i), "agent", name, slices.Sorted(maps.Keys(a.agents)))
		}
	}
	return agents, nil
}

// oneOf reads a setting with two values, the first being the default; it
// reports whether it is the second.
func (a *Project) oneOf(at configfile.KeyPath, got, usual, other string) (bool, error) {
	switch got {
	case "", usual:
		return false, nil
	case other:
		return true, nil
	}
	return false, a.config.ErrorAt(at, "%v is %q", at[len(at)-1], got).WithHint("use %s or %s", usual, other)
}

// findPlugin finds the plugin of PLUGIN or PLUGIN/PART.
func (a *Project) findPlugin(at configfile.KeyPath, use string) (p parts, part string, err error) {
	id, part := configfile.SplitUse(use)
	if id == "" {
		return nil, "", a.config.ErrorAt(at, "no plugin is named").WithHint("write: use: PLUGIN, or PLUGIN/PART")
	}
	if p = a.plugins[id]; p == nil {
		return nil, "", a.config.Unknown(at, "plugin", id, slices.Concat(slices.Sorted(maps.Keys(a.config.Plugins)), configfile.BuiltinNames()))
	}
	return p, part, nil
}

func (a *Project) tools(at configfile.KeyPath, uses []string) ([]*host.Tool, error) {
	var tools []*host.Tool
	for i, use := range uses {
		some, err := a.toolsOf(at.To(i), use)
		if err != nil {
			return nil, a.config.Wrap(err, at.To(i))
		}
		tools = append(tools, some...)
	}
	return tools, nil
}

// toolsOf returns all tools of PLUGIN, or the one of PLUGIN/TOOL.
func (a *Project) toolsOf(at configfile.KeyPath, use string) ([]*host.Tool, error) {
	if strings.HasPrefix(use, configfile.MemoryPrefix) {
		return a.memoryTools(at, use)
	}
	p, part, err := a.findPlugin(at, use)
	if err != nil {
		return nil, err
	}
	opts := a.toolNaming(p.ID())
	if config := a.config.Plugins[p.ID()].Config; config != nil {
		if opts.Config, err = a.toJSON(configfile.Keys("plugins", p.ID(), "config"), config); err != nil {
			return nil, err
		}
	}
	if part == "" {
		return p.Tools(opts)
	}
	tool, err := p.Tool(part, opts)
	return []*host.Tool{tool}, err
}

func (a *Project) processors(at configfile.KeyPath, uses []configfile.Use) ([]host.Processor, error) {
	var list []host.Processor
	for i, use := range uses {
		at := at.To(i)
		processor, err := a.processor(at, use)
		if err != nil {
			return nil, err
		}
		skip, err := a.oneOf(at.To("on_failure"), use.OnFailure, "fail", "skip")
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
func (a *Project) processor(at configfile.KeyPath, use configfile.Use) (host.Processor, error) {
	if strings.HasPrefix(use.Use, configfile.ReducePrefix) {
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
	if fault := CheckBuiltin(module, opts.Config, a.tokens); fault != nil {
		err = fault // it names the wrong key, while the schema's error names the rule
	}
	return processor, a.config.Wrap(err, at.To("use"))
}

func (a *Project) providers(at configfile.KeyPath, uses []configfile.Use, tools []*host.Tool) ([]host.Provider, error) {
	var list []host.Provider
	for i, use := range uses {
		at := at.To(i)
		if use.OnFailure != "" {
			return nil, a.config.ErrorAt(at.To("on_failure"), "a provider has no on_failure").WithHint("remove it: a provider that fails ends the run")
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
func (a *Project) provider(at configfile.KeyPath, use configfile.Use, tools []*host.Tool) (host.Provider, error) {
	if strings.HasPrefix(use.Use, configfile.MemoryPrefix) {
		return a.memoryProvider(at, use)
	}
	p, part, opts, err := a.part(at, use, tools)
	if err != nil {
		return nil, err
	}
	provider, err := p.Provider(part, opts)
	return provider, a.config.Wrap(err, at.To("use"))
}

// part finds the plugin of a processor or provider in use, and its options.
func (a *Project) part(at configfile.KeyPath, use configfile.Use, tools []*host.Tool) (parts, string, *plugin.PartOptions, error) {
	p, part, err := a.findPlugin(at.To("use"), use.Use)
	if err != nil {
		return nil, "", nil, err
	}
	opts := a.toolNaming(p.ID())
	opts.Tools = tools
	opts.Config, err = a.toJSON(at.To("config"), use.Config)
	return p, part, opts, err
}

// toolNaming returns options with the names that a plugin's tools get.
func (a *Project) toolNaming(id string) *plugin.PartOptions {
	c := a.config.Plugins[id]
	return &plugin.PartOptions{Prefix: c.Prefix, Rename: c.Rename}
}

// toJSON turns a value of the configuration into JSON; nil stays nil.
func (a *Project) toJSON(at configfile.KeyPath, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, a.config.ErrorAt(at, "this is no JSON value: %w", err).WithHint("use maps with text as keys, and no .inf or .nan")
	}
	return raw, nil
}
