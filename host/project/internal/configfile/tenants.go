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
	Trust     *Trust    `yaml:"trust"` // in shared plugins, beside that of the project

	MCP map[string]MCPServer `yaml:"mcp"` // its own servers of the Model Context Protocol
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

	Money     float64 `yaml:"money"` // of its models
	MaxOutput int     `yaml:"max_output"`

	Windows map[string]Amounts `yaml:"windows"` // more limits, by window
}

// Amounts are limits in one window, beside those of the budget.
type Amounts struct {
	Tokens       int64    `yaml:"tokens"`
	Instructions int64    `yaml:"instructions"`
	ModelCalls   int64    `yaml:"model_calls"`
	ToolCalls    int64    `yaml:"tool_calls"`
	Time         Duration `yaml:"time"`
	Money        float64  `yaml:"money"`
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
	var err error
	if opts.Prices, err = c.priceTable(); err != nil {
		return err
	}
	standard, err := c.plan(Keys("any_tenant", "budget"), "", c.AnyTenant.Budget)
	if err != nil {
		return err
	}
	opts.Default, opts.Tenants = *standard, map[string]*usage.Plan{}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		if opts.Tenants[name], err = c.plan(Keys("tenants", name, "budget"), name, c.Tenants[name].Budget); err != nil {
			return err
		}
	}
	return nil
}

// plan returns the plan of a tenant's budget.
func (c *Config) plan(at KeyPath, tenant string, b Budget) (*usage.Plan, error) {
	if err := c.checkMoney(at.To("money"), b.Money); err != nil {
		return nil, err
	}
	p := b.plan()
	for _, name := range slices.Sorted(maps.Keys(b.Windows)) {
		w, err := usage.ParseWindow(name)
		if err != nil {
			return nil, c.Wrap(err, at.To("windows", name))
		}
		if err := c.checkMoney(at.To("windows", name, "money"), b.Windows[name].Money); err != nil {
			return nil, err
		}
		limits := b.Windows[name].limits(w)
		if len(limits) == 0 {
			return nil, c.ErrorAt(at.To("windows", name), "the window %q limits nothing", name).WithHint("give it tokens, instructions, model_calls, tool_calls, time or money")
		}
		if err := (&usage.Plan{Limits: limits}).Check(); err != nil {
			return nil, c.Wrap(err, at.To("windows", name))
		}
		p.Limits = append(p.Limits, limits...)
	}
	return p, c.Wrap(cmp.Or(b.checkSigns(tenant), p.Check()), at)
}

// checkMoney refuses an amount of money that cannot be counted.
func (c *Config) checkMoney(at KeyPath, amount float64) error {
	if !(amount >= 0 && amount <= maxMoney) {
		return c.ErrorAt(at, "money is %v, not from 0 to %d", amount, maxMoney).WithHint("write an amount such as 12.50; leave it out for no limit")
	}
	if amount > 0 && len(c.Prices.Models) == 0 {
		return c.ErrorAt(at, "a budget of money needs the prices of models").WithHint("write: prices: {version: 2026-11, models: {NAME: {input: 2.50, output: 10}}}")
	}
	return nil
}

// limits returns the amounts that are set.
func (a Amounts) limits(w usage.Window) (limits []usage.Limit) {
	for _, l := range []usage.Limit{
		{Resource: usage.Tokens, Amount: a.Tokens}, {Resource: usage.Instructions, Amount: a.Instructions}, {Resource: usage.ModelCalls, Amount: a.ModelCalls},
		{Resource: usage.ToolCalls, Amount: a.ToolCalls}, {Resource: usage.Time, Amount: int64(a.Time)}, {Resource: usage.Money, Amount: usage.Units(a.Money)},
	} {
		if l.Amount != 0 {
			l.Window = w
			limits = append(limits, l)
		}
	}
	return limits
}

// checkSigns refuses negative numbers in the budget of a tenant.
func (b Budget) checkSigns(tenant string) error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"Window", int64(b.Window)}, {"Tokens", b.Tokens}, {"ToolCalls", b.ToolCalls}, {"Time", int64(b.Time)}, {"ModelCalls", int64(b.ModelCalls)},
		{"MaxOutput", int64(b.MaxOutput)}, {"Instructions", b.Instructions}, {"HostCalls", b.HostCalls}, {"HTTPRequests", b.HTTPRequests}, {"ModelTokens", b.ModelTokens},
	} {
		if f.v < 0 {
			return fault.Errorf(fault.InvalidArgument, "the budget %s of tenant %q is %d", f.name, tenant, f.v).WithHint("leave it out for the default")
		}
	}
	return nil
}

// plan returns the plan of usage of a budget.
func (b Budget) plan() *usage.Plan {
	p := &usage.Plan{Rate: b.ModelCalls, MaxOutput: b.MaxOutput}
	if b.Window != 0 {
		p.Window = usage.Every(time.Duration(b.Window))
	}
	for _, l := range []usage.Limit{
		{Resource: usage.Tokens, Amount: b.Tokens}, {Resource: usage.ToolCalls, Amount: b.ToolCalls}, {Resource: usage.Time, Amount: int64(b.Time)},
		{Resource: usage.Instructions, Amount: b.Instructions}, {Resource: usage.HostCalls, Amount: b.HostCalls},
		{Resource: usage.HTTPRequests, Amount: b.HTTPRequests}, {Resource: usage.ModelTokens, Amount: b.ModelTokens},
		{Resource: usage.Money, Amount: usage.Units(b.Money)},
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
	have := slices.Concat(slices.Sorted(maps.Keys(c.Plugins)), BuiltinNames(), []string{CodeUse})
	if slices.Contains(have, id) {
		return nil
	}
	return c.Unknown(at, "plugin", id, have)
}
