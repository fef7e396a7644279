package project

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// mcpCatalog offers tenants what the configuration says.
type mcpCatalog struct {
	project *Project
	seed    maphash.Seed
}

// Revision implements [mcpserver.Catalog]: the agents, the plan of the tenant, and the versions
// of the plugins that serve it.
func (c *mcpCatalog) Revision(tenant string) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	p := c.project
	add := func(text string) { _, _ = h.WriteString(text); _ = h.WriteByte(0) }
	maphash.WriteComparable(&h, p.targets.generation.Load())
	for _, name := range c.targets() {
		maphash.WriteComparable(&h, p.Tenants().Allows(tenant, name))
	}
	for _, use := range p.config.ServeMCP.Tools {
		id, _ := configfile.SplitUse(use)
		if s := p.plugins.slot(id); s != nil {
			add(servingDigest(s))
		}
	}
	settings, _ := p.plugins.runtime.Tenant(tenant)
	maphash.WriteComparable(&h, settings.Plugins == nil)
	for _, id := range settings.Plugins {
		add(id)
	}
	lib := p.plugins.library.ifOpen()
	for _, id := range c.uploaded(lib, tenant) {
		add(id)
		if s, err := lib.Lookup(tenant, id); err == nil {
			add(servingDigest(s))
		}
	}
	return h.Sum64()
}

// targets returns the names of the networks and agents that are offered.
func (c *mcpCatalog) targets() []string {
	if names := c.project.config.ServeMCP.Targets; names != nil {
		return names
	}
	return c.project.Targets()
}

// uploaded returns the ids of the uploaded plugins of a tenant that are offered.
func (c *mcpCatalog) uploaded(lib *library.Library, tenant string) (ids []string) {
	if lib == nil {
		return nil
	}
	for _, use := range c.project.config.ServeMCP.Tools {
		switch id, ok := strings.CutPrefix(use, configfile.UploadedPrefix); {
		case !ok:
		case id == "*":
			return lib.Serving(tenant)
		default:
			ids = append(ids, id)
		}
	}
	return ids
}

// Offers implements [mcpserver.Catalog].
func (c *mcpCatalog) Offers(ctx context.Context, tenant string) (*mcpserver.Offers, error) {
	p := c.project
	o := &mcpserver.Offers{Prompts: c.prompts()}
	for _, name := range c.targets() {
		if !p.Tenants().Allows(tenant, name) {
			continue
		}
		t, err := p.Target(name)
		if err != nil {
			return nil, err
		}
		o.Targets = append(o.Targets, mcpserver.Target{Target: t, Description: p.config.DescriptionOf(name)})
	}
	for i, use := range p.config.ServeMCP.Tools {
		if strings.HasPrefix(use, configfile.UploadedPrefix) || !c.has(tenant, use) {
			continue
		}
		tools, err := p.builder.mcpTools(configfile.Keys("serve_mcp", "tools", i), use)
		if host.CodeOf(err) == host.FailedPrecondition { // the plugin is unloaded
			continue
		}
		if err != nil {
			return nil, err
		}
		o.Tools = append(o.Tools, tools...)
		if id, part := configfile.SplitUse(use); part == "" {
			if err := c.addManifest(o, p.plugins.parts.get(id)); err != nil {
				return nil, err
			}
		}
	}
	uploaded, err := c.uploadedTools(ctx, tenant, o)
	o.Tools = append(o.Tools, uploaded...)
	return o, err
}

// has reports whether a tenant has the plugin of a use.
func (c *mcpCatalog) has(tenant, use string) bool {
	id, _ := configfile.SplitUse(use)
	if only := c.project.config.Plugins[id].Tenants; only != nil && !slices.Contains(only, tenant) {
		return false
	}
	settings, _ := c.project.plugins.runtime.Tenant(tenant)
	return settings.Plugins == nil || slices.Contains(settings.Plugins, id) || strings.HasPrefix(use, configfile.MemoryPrefix)
}

// mcpTools returns the tools of PLUGIN, or the one of PLUGIN/TOOL, as clients are offered them.
func (b *builder) mcpTools(at configfile.KeyPath, use string) ([]mcpserver.Tool, error) {
	tools, err := b.toolsOf(at, use)
	if err == nil {
		tools, err = b.withOptions(tools)
	}
	if err != nil {
		return nil, b.config.Wrap(err, at)
	}
	id, part := configfile.SplitUse(use)
	return described(tools, manifestOf(b.plugins.parts.get(id)), part), nil
}

// manifestOf returns the manifest of the version of a plugin that serves; nil without one.
func manifestOf(p parts) *plugin.Manifest {
	switch p := p.(type) {
	case *plugin.Plugin:
		return p.Manifest()
	case *plugin.Slot:
		if now := p.Current(); now != nil {
			return now.Manifest()
		}
	}
	return nil
}

// described adds what the manifest says of tools, which are all of its tools or the one of a
// name. If another version serves meanwhile, they are offered without.
func described(tools []*host.Tool, m *plugin.Manifest, part string) []mcpserver.Tool {
	var infos []plugin.ToolInfo
	if m != nil {
		infos = m.Tools
	}
	if part != "" {
		infos = slices.DeleteFunc(slices.Clone(infos), func(t plugin.ToolInfo) bool { return t.Name != part })
	}
	out := make([]mcpserver.Tool, len(tools))
	for i, t := range tools {
		out[i].Tool = t
		if len(infos) == len(tools) {
			out[i].Result, out[i].Destructive = infos[i].Result, infos[i].Annotations.Destructive
		}
	}
	return out
}

// uploadedTools returns the tools of the uploaded plugins of a tenant. One whose name is taken
// is offered under the name of its plugin and its own.
func (c *mcpCatalog) uploadedTools(ctx context.Context, tenant string, others *mcpserver.Offers) (out []mcpserver.Tool, err error) {
	if !slices.ContainsFunc(c.project.config.ServeMCP.Tools, func(use string) bool { return strings.HasPrefix(use, configfile.UploadedPrefix) }) {
		return nil, nil
	}
	lib, err := c.project.Library(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for i := range others.Targets {
		taken[others.Targets[i].ToolName()] = true
	}
	for i := range others.Tools {
		taken[others.Tools[i].Name] = true
	}
	for _, id := range c.uploaded(lib, tenant) {
		slot, err := lib.Lookup(tenant, id)
		if err != nil { // the tenant does not have it, or not any more
			continue
		}
		m := manifestOf(slot)
		if m == nil {
			continue
		}
		opts := &plugin.PartOptions{Rename: map[string]string{}}
		for _, t := range m.Tools {
			if taken[t.Name] {
				opts.Rename[t.Name] = mcpserver.FitName(id + "__" + t.Name)
			}
		}
		tools, err := slot.Tools(opts)
		if host.CodeOf(err) == host.FailedPrecondition { // it was deactivated just now
			continue
		}
		if err == nil {
			tools, err = c.project.builder.withOptions(tools)
		}
		if err != nil {
			return nil, err
		}
		for _, t := range tools {
			taken[t.Name] = true
		}
		out = append(out, described(tools, m, "")...)
		if err := c.addManifest(others, slot); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// prompts returns the prompts of the configuration.
func (c *mcpCatalog) prompts() (list []mcpserver.Prompt) {
	all := c.project.config.ServeMCP.Prompts
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		prompt := mcpserver.Prompt{Name: name, Title: p.Title, Description: p.Description}
		for _, a := range p.Arguments {
			prompt.Arguments = append(prompt.Arguments, mcpserver.Argument{Name: a.Name, Description: a.Description, Required: a.Required, Values: a.Values})
		}
		prompt.Messages = func(_ context.Context, _ mcpserver.Caller, arguments map[string]string) ([]*host.Message, error) {
			text := configfile.PromptArgument.ReplaceAllStringFunc(p.Text, func(place string) string {
				return arguments[configfile.PromptArgument.FindStringSubmatch(place)[1]]
			})
			return []*host.Message{host.UserText(text)}, nil
		}
		list = append(list, prompt)
	}
	return list
}

// check reports the first fault in what clients are offered: tools that do not exist, and two
// of one name.
func (c *mcpCatalog) check() error {
	p, o := c.project, &mcpserver.Offers{}
	for _, name := range c.targets() {
		t, err := p.Target(name)
		if err != nil {
			return err
		}
		o.Targets = append(o.Targets, mcpserver.Target{Target: t})
	}
	for i, use := range p.config.ServeMCP.Tools {
		at := configfile.Keys("serve_mcp", "tools", i)
		if id, ok := strings.CutPrefix(use, configfile.UploadedPrefix); ok {
			if id == "" {
				return p.config.ErrorAt(at, "no uploaded plugin is named").WithHint("write %sPLUGIN, or %s* for all that the tenant of a client has", configfile.UploadedPrefix, configfile.UploadedPrefix)
			}
			continue
		}
		tools, err := p.builder.mcpTools(at, use)
		if err != nil {
			return err
		}
		o.Tools = append(o.Tools, tools...)
		if twice := o.Clashes(); len(twice) > 0 {
			return p.config.ErrorAt(at, "clients would be offered two tools of the name %q", twice[0]).
				WithHint("give the plugin a prefix: plugins: {PLUGIN: {prefix: crm_}}, or rename one of the tools")
		}
	}
	return nil
}

var _ mcpserver.Catalog = (*mcpCatalog)(nil)
