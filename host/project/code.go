package project

import (
	"context"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// codeModes run the code of agents' models: one for all agents with the same settings.
type codeModes struct {
	config     *configfile.Config
	bySettings map[configfile.Code]*codemode.Mode
}

// load loads the engine for each agent that writes code.
func (s *codeModes) load(ctx context.Context, rt *plugin.Runtime) error {
	s.bySettings = map[configfile.Code]*codemode.Mode{}
	for _, name := range slices.Sorted(maps.Keys(s.config.Agents)) {
		ac := s.config.Agents[name]
		if !ac.WritesCode() || s.bySettings[ac.Code] != nil {
			continue
		}
		mode, err := codemode.New(ctx, rt, ac.Code.Options())
		if err != nil {
			return s.config.Wrap(err, configfile.Keys("agents", name, "code"))
		}
		s.bySettings[ac.Code] = mode
	}
	return nil
}

// tools returns the tools of an agent with the one that runs code, if it writes any.
func (s *codeModes) tools(at configfile.KeyPath, ac configfile.Agent, tools []*host.Tool) ([]*host.Tool, error) {
	if !ac.WritesCode() {
		return tools, nil
	}
	all, err := s.bySettings[ac.Code].Tools(tools...)
	return all, s.config.Wrap(err, at)
}

// CodeAgents returns the names of the agents that write code.
func (f *File) CodeAgents() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(f.c.Agents)) {
		if f.c.Agents[name].WritesCode() {
			names = append(names, name)
		}
	}
	return names
}

// CodeBarred returns the keys of the configuration that keep code from all tools: a ceiling
// without tools, and tenants that do not have the engine.
func (f *File) CodeBarred() []string {
	var keys []string
	if f.c.Ceiling != nil && len(f.c.Ceiling.Tools) == 0 {
		keys = append(keys, "ceiling.tools")
	}
	bars := func(key string, plugins []string) {
		if plugins != nil && !slices.Contains(plugins, configfile.CodeUse) {
			keys = append(keys, key+".plugins")
		}
	}
	bars("any_tenant", f.c.AnyTenant.Plugins)
	for _, name := range slices.Sorted(maps.Keys(f.c.Tenants)) {
		bars("tenants."+name, f.c.Tenants[name].Plugins)
	}
	return keys
}
