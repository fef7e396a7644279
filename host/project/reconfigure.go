package project

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// reconfiguration is what a saved configuration changes while its project serves: grants,
// tenants, prices and MCP servers. It is read and checked before anything of it counts, and then
// takes the place of what serves, all of it or nothing.
type reconfiguration struct {
	project *Project
	config  *configfile.Config
	tenants *tenantSettings
	grants  map[string]plugin.Permissions // by plugin
	mcp     *savedMCP
}

// readReconfiguration reads what a saved configuration changes, and checks it.
func (r *Reloader) readReconfiguration(next *configfile.Config) (_ *reconfiguration, err error) {
	p := r.project
	c := &reconfiguration{project: p, config: next, grants: map[string]plugin.Permissions{}}
	priced := *next
	priced.Models = p.config.Models // the prices are those of the models that serve, by their names at their providers
	if c.tenants, err = readTenantSettings(&priced, p.plugins.trusts); err != nil {
		return nil, err
	}
	for id := range next.Plugins {
		if c.grants[id], err = next.Granted(id); err != nil {
			return nil, err
		}
	}
	if c.mcp, err = p.builder.mcp.read(next); err != nil {
		return nil, err
	}
	return c, nil
}

// take has the reconfiguration count. say is given the plugins of which a version stays held
// back. If take fails nothing changes.
func (c *reconfiguration) take(ctx context.Context, say func(format string, args ...any)) error {
	grants, err := c.prepareGrants(ctx)
	if err == nil {
		if err = c.takeServers(); err != nil {
			for _, grant := range grants {
				grant.Cancel()
			}
		}
	}
	if err != nil {
		return err
	}
	for _, grant := range grants {
		if err := grant.Commit(); err != nil { // the grants apply, and a version still lacks approval
			say("%s", err)
		}
	}
	p := c.project
	p.retention.take(c.config, func() {
		p.config.Tenants, p.config.Prices, p.config.MCP = c.config.Tenants, c.config.Prices, c.config.MCP
		p.config.AnyTenant.Retention = c.config.AnyTenant.Retention // beside that of the tenants, which a retention takes
	})
	return nil
}

// prepareGrants checks the grants of all plugins, and waits until no other change of any is made.
func (c *reconfiguration) prepareGrants(ctx context.Context) (prepared []*plugin.GrantChange, err error) {
	for _, id := range slices.Sorted(maps.Keys(c.grants)) {
		s := c.project.plugins.slot(id)
		if s == nil {
			continue
		}
		grant, err := s.PrepareGrant(ctx, c.grants[id])
		if err != nil {
			for _, grant := range prepared {
				grant.Cancel()
			}
			return nil, c.config.Wrap(err, configfile.Keys("plugins", id, "grant"))
		}
		prepared = append(prepared, grant)
	}
	return prepared, nil
}

// takeServers takes the tenants, the prices and the MCP servers; those last, as their change ends
// sessions and processes.
func (c *reconfiguration) takeServers() error {
	of := c.project.tenants
	before := of.settings()
	if err := of.take(c.config, c.tenants); err != nil {
		return err
	}
	if err := c.project.builder.mcp.take(c.mcp); err != nil {
		return errors.Join(err, of.take(c.project.config, before))
	}
	return nil
}
