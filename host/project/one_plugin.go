package project

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/termtext"
)

// OpenPlugin wires only one plugin of a configuration.
func OpenPlugin(ctx context.Context, file *File, id string, options *Options) (*Project, error) {
	c := file.c
	if !slices.Contains(c.PluginIDs(), id) {
		e := host.Errorf(host.NotFound, "%s has no plugin %q", c.Name, id)
		if near := termtext.Nearest(id, c.PluginIDs()); near != "" {
			return nil, e.WithHint("did you mean %q?", near)
		}
		return nil, e.WithHint("there are: %s", strings.Join(c.PluginIDs(), ", "))
	}
	if _, configured := c.Plugins[id]; !configured {
		return nil, host.Errorf(host.NotFound, "%s has no entry for %s under plugins", c.Name, id).
			WithHint("add one: %s: {path: %s}", id, id)
	}
	p := wire(c, options.orDefaults())
	p.plugins.only = map[string]bool{id: true}
	if err := p.openPlugins(ctx, nil); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Plugin returns a plugin of a project opened without Replaceable; nil if it has none of
// that id.
func (p *Project) Plugin(id string) *plugin.Plugin {
	loaded, _ := p.plugins.parts.get(id).(*plugin.Plugin)
	return loaded
}
