package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/quota"
	"github.com/agenthost/agenthost/host/threads"
)

// defaultTenant is whose everything is when nobody says.
const defaultTenant = threads.DefaultTenant

// tenantOr returns the tenant that a flag names, or the default one.
func tenantOr(name string) string {
	if name == "" {
		return defaultTenant
	}
	return name
}

// tenantOr returns the tenant that a flag or a request names, or the project's.
func (a *app) tenantOr(name string) string { return tenantOr(cmp.Or(name, a.config.Tenant)) }

// tenantUsage is the help of a --tenant flag.
func tenantUsage(whose string) string { return whose + " (default \"" + defaultTenant + "\")" }

// tenantConfig is what the plugins of a tenant may do and use, and what is kept of
// its threads.
type tenantConfig struct {
	Plugins []string               `yaml:"plugins"` // those it has; absent: every one that is not for others only
	Grants  map[string]grantConfig `yaml:"grants"`  // by plugin, in the place of the plugin's own
	Limits  tenantLimits           `yaml:"limits"`
	Budget  budgetConfig           `yaml:"budget"`

	Retention retentionConfig `yaml:"retention"`
}

// tenantLimits are those that a tenant may have tighter than a plugin.
type tenantLimits struct {
	Timeout      duration `yaml:"timeout"`
	Instructions int64    `yaml:"instructions"`
	Output       byteSize `yaml:"output"`
	HostCalls    int      `yaml:"host_calls"`
	Instances    int      `yaml:"instances"`
}

// budgetConfig is what a tenant may use in a window of time: its plugins
// together, and its runs.
type budgetConfig struct {
	Window       duration `yaml:"window"`
	Instructions int64    `yaml:"instructions"`
	HostCalls    int64    `yaml:"host_calls"`
	HTTPRequests int64    `yaml:"http_requests"`
	ModelTokens  int64    `yaml:"model_tokens"` // of its plugins

	Tokens     int64    `yaml:"tokens"` // of its runs
	ToolCalls  int64    `yaml:"tool_calls"`
	Time       duration `yaml:"time"`
	ModelCalls int      `yaml:"model_calls"` // to each model, in a minute
}

// tenants maps the configuration's tenants to what a runtime takes.
func (c *config) tenants(opts *plugin.Options) (err error) {
	if err := c.checkRetention(); err != nil {
		return err
	}
	if opts.AnyTenant, err = c.tenant(keys("any_tenant"), c.AnyTenant); err != nil {
		return err
	}
	opts.Tenants = map[string]*plugin.Tenant{}
	for _, name := range sortedKeys(c.Tenants) {
		if opts.Tenants[name], err = c.tenant(keys("tenants", name), c.Tenants[name]); err != nil {
			return err
		}
	}
	if c.Ceiling == nil {
		return nil
	}
	ceiling, err := c.permissions(keys("ceiling"), *c.Ceiling)
	opts.Ceiling = &ceiling
	return err
}

// quotas are what tenants may use over all of their runs.
func (c *config) quotas() (*quota.Quotas, error) {
	q, err := quota.New(&quota.Options{Default: c.AnyTenant.Budget.ofRuns()})
	if err != nil {
		return nil, c.wrap(err, keys("any_tenant", "budget"))
	}
	for _, name := range sortedKeys(c.Tenants) {
		if err := q.Set(name, c.Tenants[name].Budget.ofRuns()); err != nil {
			return nil, c.wrap(err, keys("tenants", name, "budget"))
		}
	}
	return q, nil
}

func (b budgetConfig) ofRuns() quota.Budget {
	return quota.Budget{Window: time.Duration(b.Window), Tokens: b.Tokens, ToolCalls: b.ToolCalls, Time: time.Duration(b.Time), ModelCalls: b.ModelCalls}
}

func (c *config) tenant(at place, t tenantConfig) (*plugin.Tenant, error) {
	out := &plugin.Tenant{
		Plugins: t.Plugins, Grants: map[string]plugin.Permissions{},
		Limits: plugin.Limits{
			Timeout: time.Duration(t.Limits.Timeout), Instructions: t.Limits.Instructions,
			OutputBytes: int(t.Limits.Output), HostCalls: t.Limits.HostCalls, Instances: t.Limits.Instances,
		},
		Budget: plugin.Budget{
			Window: time.Duration(t.Budget.Window), Instructions: t.Budget.Instructions, HostCalls: t.Budget.HostCalls,
			HTTPRequests: t.Budget.HTTPRequests, ModelTokens: t.Budget.ModelTokens,
		},
	}
	for i, id := range t.Plugins {
		if err := c.checkPluginID(at.to("plugins", i), id); err != nil {
			return nil, err
		}
	}
	for _, id := range sortedKeys(t.Grants) {
		at := at.to("grants", id)
		if err := c.checkPluginID(at, id); err != nil {
			return nil, err
		}
		granted, err := c.permissions(at, t.Grants[id])
		if err != nil {
			return nil, err
		}
		out.Grants[id] = granted
	}
	return out, nil
}

func (c *config) checkPluginID(at place, id string) error {
	have := slices.Concat(sortedKeys(c.Plugins), builtinNames())
	if slices.Contains(have, id) {
		return nil
	}
	return c.unknown(at, "plugin", id, have)
}
