package configfile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/usage"
)

// Tenant has the grants, limits and budget of a tenant's plugins, and the retention of
// its threads.
type Tenant struct {
	Plugins []string          `yaml:"plugins"` // the tenant's; absent: every plugin that is not reserved for other tenants
	Grants  map[string]Grants `yaml:"grants"`  // by plugin, in the place of the plugin's own
	Limits  TenantLimits      `yaml:"limits"`
	Budget  Budget            `yaml:"budget"`

	Retention Retention `yaml:"retention"`
}

// TenantLimits are the limits that can be tighter for a tenant than for a plugin.
type TenantLimits struct {
	Timeout      Duration `yaml:"timeout"`
	Instructions int64    `yaml:"instructions"`
	Output       byteSize `yaml:"output"`
	HostCalls    int      `yaml:"host_calls"`
	Instances    int      `yaml:"instances"`
}

// Budget bounds a tenant's usage in a window of time: that of all its plugins, and that
// of its runs.
type Budget struct {
	Window       Duration `yaml:"window"`
	Instructions int64    `yaml:"instructions"`
	HostCalls    int64    `yaml:"host_calls"`
	HTTPRequests int64    `yaml:"http_requests"`
	ModelTokens  int64    `yaml:"model_tokens"` // of its plugins

	Tokens     int64    `yaml:"tokens"` // of its runs
	ToolCalls  int64    `yaml:"tool_calls"`
	Time       Duration `yaml:"time"`
	ModelCalls int      `yaml:"model_calls"` // to each model, in a minute
}

// RuntimeTenants sets a runtime's options for the configuration's tenants.
func (c *Config) RuntimeTenants(opts *plugin.Options) (err error) {
	if err := c.CheckRetention(); err != nil {
		return err
	}
	if opts.AnyTenant, err = c.tenant(Keys("any_tenant"), c.AnyTenant); err != nil {
		return err
	}
	opts.Tenants = map[string]*plugin.Tenant{}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		if opts.Tenants[name], err = c.tenant(Keys("tenants", name), c.Tenants[name]); err != nil {
			return err
		}
	}
	if c.Ceiling == nil {
		return nil
	}
	ceiling, err := c.permissions(Keys("ceiling"), *c.Ceiling)
	opts.Ceiling = &ceiling
	return err
}

// Usage sets a ledger's options for the configuration's tenants.
func (c *Config) Usage(opts *usage.Options) error {
	opts.Default, opts.Tenants = *c.AnyTenant.Budget.plan(), map[string]*usage.Plan{}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		opts.Tenants[name] = c.Tenants[name].Budget.plan()
		if err := cmp.Or(c.Tenants[name].Budget.checkSigns(name), opts.Tenants[name].Check()); err != nil {
			return c.Wrap(err, Keys("tenants", name, "budget"))
		}
	}
	return c.Wrap(cmp.Or(c.AnyTenant.Budget.checkSigns(""), opts.Default.Check()), Keys("any_tenant", "budget"))
}

// checkSigns refuses negative numbers in the budget of a tenant.
func (b Budget) checkSigns(tenant string) error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"Window", int64(b.Window)}, {"Tokens", b.Tokens}, {"ToolCalls", b.ToolCalls}, {"Time", int64(b.Time)}, {"ModelCalls", int64(b.ModelCalls)},
		{"Instructions", b.Instructions}, {"HostCalls", b.HostCalls}, {"HTTPRequests", b.HTTPRequests}, {"ModelTokens", b.ModelTokens},
	} {
		if f.v < 0 {
			return fault.Errorf(fault.InvalidArgument, "the budget %s of tenant %q is %d", f.name, tenant, f.v).WithHint("leave it out for the default")
		}
	}
	return nil
}

// plan returns the plan of usage of a budget.
func (b Budget) plan() *usage.Plan {
	p := &usage.Plan{Rate: b.ModelCalls}
	if b.Window != 0 {
		p.Window = usage.Every(time.Duration(b.Window))
	}
	for _, l := range []usage.Limit{
		{Resource: usage.Tokens, Amount: b.Tokens}, {Resource: usage.ToolCalls, Amount: b.ToolCalls}, {Resource: usage.Time, Amount: int64(b.Time)},
		{Resource: usage.Instructions, Amount: b.Instructions}, {Resource: usage.HostCalls, Amount: b.HostCalls},
		{Resource: usage.HTTPRequests, Amount: b.HTTPRequests}, {Resource: usage.ModelTokens, Amount: b.ModelTokens},
	} {
		if l.Amount != 0 {
			p.Limits = append(p.Limits, l)
		}
	}
	return p
}

func (c *Config) tenant(at KeyPath, t Tenant) (*plugin.Tenant, error) {
	out := &plugin.Tenant{
		Plugins: t.Plugins, Grants: map[string]plugin.Permissions{},
		Limits: plugin.Limits{
			Timeout: time.Duration(t.Limits.Timeout), Instructions: t.Limits.Instructions,
			OutputBytes: int(t.Limits.Output), HostCalls: t.Limits.HostCalls, Instances: t.Limits.Instances,
		},
	}
	for i, id := range t.Plugins {
		if err := c.checkPluginID(at.To("plugins", i), id); err != nil {
			return nil, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Grants)) {
		at := at.To("grants", id)
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

func (c *Config) checkPluginID(at KeyPath, id string) error {
	have := slices.Concat(slices.Sorted(maps.Keys(c.Plugins)), BuiltinNames())
	if slices.Contains(have, id) {
		return nil
	}
	return c.Unknown(at, "plugin", id, have)
}
