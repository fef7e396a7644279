package project

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/tokens"
)

// builder makes the agents and networks of a configuration from its plugins, models,
// memories and reducers.
type builder struct {
	config   *configfile.Config
	plugins  *pluginSet
	models   *modelSet
	memories *memorySet
	mcp      *MCPServers // set when they are open
	reducers *reducerSet
	messages *messageSet
	code     *codeModes
	tokens   *tokens.Counter

	agents map[string]*host.Agent // by name; of the targets being made
}

// makeTargets makes the configured agents, each of which can be run by itself, and
// networks. It may be called again when plugins have changed; runs in progress keep
// their old agents.
func (p *Project) makeTargets() error {
	targets, err := p.builder.targets()
	if err != nil {
		return err
	}
	p.targets.set(targets)
	return nil
}

// targets makes the agents and networks, by name.
func (b *builder) targets() (map[string]host.Target, error) {
	if err := b.checkToolOptions(); err != nil {
		return nil, err
	}
	b.agents = map[string]*host.Agent{}
	targets := map[string]host.Target{}
	for _, name := range slices.Sorted(maps.Keys(b.config.Agents)) {
		agent, err := b.agent(name, nil)
		if err != nil {
			return nil, err
		}
		targets[name] = agent
	}
	for _, name := range slices.Sorted(maps.Keys(b.config.Networks)) {
		n, err := b.makeNetwork(name, b.config.Networks[name])
		if err != nil {
			return nil, b.config.Wrap(err, configfile.Keys("networks", name))
		}
		targets[name] = n
	}
	return targets, nil
}

// members finds a network's agents.
func (b *builder) members(at configfile.KeyPath, names []string) ([]*host.Agent, error) {
	agents := make([]*host.Agent, len(names))
	for i, name := range names {
		if agents[i] = b.agents[name]; agents[i] == nil {
			return nil, b.config.Unknown(at.To(i), "agent", name, slices.Sorted(maps.Keys(b.agents)))
		}
	}
	return agents, nil
}

// oneOf reads a setting with two values, the first being the default; it
// reports whether it is the second.
func oneOf(c *configfile.Config, at configfile.KeyPath, got, usual, other string) (bool, error) {
	switch got {
	case "", usual:
		return false, nil
	case other:
		return true, nil
	}
	return false, c.ErrorAt(at, "%v is %q", at[len(at)-1], got).WithHint("use %s or %s", usual, other)
}

// find finds the plugin of PLUGIN or PLUGIN/PART.
func (s *pluginSet) find(at configfile.KeyPath, use string) (p parts, part string, err error) {
	id, part := configfile.SplitUse(use)
	if id == "" {
		return nil, "", s.config.ErrorAt(at, "no plugin is named").WithHint("write: use: PLUGIN, or PLUGIN/PART")
	}
	if p = s.parts.get(id); p == nil {
		return nil, "", s.config.Unknown(at, "plugin", id, slices.Concat(slices.Sorted(maps.Keys(s.config.Plugins)), configfile.BuiltinNames()))
	}
	return p, part, nil
}

func (b *builder) tools(at configfile.KeyPath, uses []string) ([]*host.Tool, error) {
	var tools []*host.Tool
	for i, use := range uses {
		if strings.HasPrefix(use, configfile.UploadedPrefix) || strings.HasPrefix(use, configfile.MCPPrefix) || use == configfile.CodeUse { // of a provider, or made of the others
			continue
		}
		some, err := b.toolsOf(at.To(i), use)
		if err != nil {
			return nil, b.config.Wrap(err, at.To(i))
		}
		tools = append(tools, some...)
	}
	return tools, nil
}

// toolsOf returns all tools of PLUGIN, or the one of PLUGIN/TOOL.
func (b *builder) toolsOf(at configfile.KeyPath, use string) ([]*host.Tool, error) {
	if strings.HasPrefix(use, configfile.MemoryPrefix) {
		return b.memories.tools(at, use)
	}
	p, part, err := b.plugins.find(at, use)
	if err != nil {
		return nil, err
	}
	opts := b.plugins.naming(p.ID())
	if config := b.config.Plugins[p.ID()].Config; config != nil {
		if opts.Config, err = toJSON(b.config, configfile.Keys("plugins", p.ID(), "config"), config); err != nil {
			return nil, err
		}
	}
	if part == "" {
		return p.Tools(opts)
	}
	tool, err := p.Tool(part, opts)
	return []*host.Tool{tool}, err
}

func (b *builder) processors(at configfile.KeyPath, uses []configfile.Use) ([]host.Processor, error) {
	var list []host.Processor
	for i, use := range uses {
		at := at.To(i)
		processor, err := b.processor(at, use)
		if err != nil {
			return nil, err
		}
		skip, err := oneOf(b.config, at.To("on_failure"), use.OnFailure, "fail", "skip")
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
func (b *builder) processor(at configfile.KeyPath, use configfile.Use) (host.Processor, error) {
	if strings.HasPrefix(use.Use, configfile.ReducePrefix) {
		return b.reducers.processor(at, use)
	}
	p, part, opts, err := b.part(at, use, nil)
	if err != nil {
		return nil, err
	}
	processor, err := p.Processor(part, opts)
	module := p.ID()
	if path := b.config.Plugins[module].Path; path != "" {
		module = path
	}
	if fault := CheckBuiltin(module, opts.Config, b.tokens); fault != nil {
		err = fault // it names the wrong key, while the schema's error names the rule
	}
	return processor, b.config.Wrap(err, at.To("use"))
}

func (b *builder) providers(at configfile.KeyPath, uses []configfile.Use, tools []*host.Tool) ([]host.Provider, error) {
	var list []host.Provider
	for i, use := range uses {
		at := at.To(i)
		if use.OnFailure != "" {
			return nil, b.config.ErrorAt(at.To("on_failure"), "a provider has no on_failure").WithHint("remove it: a provider that fails ends the run")
		}
		provider, err := b.provider(at, use, tools)
		if err != nil {
			return nil, err
		}
		list = append(list, provider)
	}
	return list, nil
}

// provider returns the provider of a plugin, or a memory as one.
func (b *builder) provider(at configfile.KeyPath, use configfile.Use, tools []*host.Tool) (host.Provider, error) {
	if strings.HasPrefix(use.Use, configfile.MemoryPrefix) {
		return b.memories.provider(at, use)
	}
	if strings.HasPrefix(use.Use, configfile.MCPPrefix) {
		return b.mcpTexts(at, use)
	}
	p, part, opts, err := b.part(at, use, tools)
	if err != nil {
		return nil, err
	}
	provider, err := p.Provider(part, opts)
	return provider, b.config.Wrap(err, at.To("use"))
}

// part finds the plugin of a processor or provider in use, and its options.
func (b *builder) part(at configfile.KeyPath, use configfile.Use, tools []*host.Tool) (parts, string, *plugin.PartOptions, error) {
	p, part, err := b.plugins.find(at.To("use"), use.Use)
	if err != nil {
		return nil, "", nil, err
	}
	opts := b.plugins.naming(p.ID())
	opts.Tools = tools
	opts.Config, err = toJSON(b.config, at.To("config"), use.Config)
	return p, part, opts, err
}

// naming returns options with the names that a plugin's tools get.
func (s *pluginSet) naming(id string) *plugin.PartOptions {
	c := s.config.Plugins[id]
	return &plugin.PartOptions{Prefix: c.Prefix, Rename: c.Rename}
}

// toJSON turns a value of the configuration into JSON; nil stays nil.
func toJSON(c *configfile.Config, at configfile.KeyPath, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, c.ErrorAt(at, "this is no JSON value: %w", err).WithHint("use maps with text as keys, and no .inf or .nan")
	}
	return raw, nil
}
