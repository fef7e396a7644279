package plugin

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/usage"
)

// Tenant holds the grants and limits of one tenant. The zero value takes every plugin
// with the grants of its load. Budgets are in the plan of the tenant: see
// [Options].Ledger. Give it to
// [Options] or, while serving, to [Runtime.SetTenant].
type Tenant struct {
	// Grants are permissions by plugin id, in the place of the plugin's own
	// ([LoadOptions]); an id with zero permissions is granted nothing. Whatever
	// is granted, a plugin may do only what it also asks for and what the
	// runtime's ceiling lets through.
	Grants map[string]Permissions

	// Plugins are the ids of the plugins that the tenant has; nil is every one
	// that was not loaded for certain tenants only.
	Plugins []string

	// Limits are tighter than a plugin's own: of each, the smaller counts, and 0
	// is the plugin's. Limits of the module and of its memory are the same for
	// all tenants and cannot be set here.
	Limits Limits
}

// clone returns a copy that shares nothing with t, with its defaults.
func (t Tenant) clone() *Tenant {
	t.Grants = maps.Clone(t.Grants)
	for id, p := range t.Grants {
		t.Grants[id] = p.Clone()
	}
	t.Plugins = slices.Clone(t.Plugins)
	return &t
}

func (t *Tenant) check() error {
	for _, id := range slices.Sorted(maps.Keys(t.Grants)) {
		p := t.Grants[id]
		if err := p.Check(); err != nil {
			return host.Errorf(host.InvalidArgument, "grants of plugin %q: %w", id, err)
		}
	}
	if err := t.Limits.check(); err != nil {
		return err
	}
	l := t.Limits
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ModuleBytes", l.ModuleBytes != 0}, {"TableEntries", l.TableEntries != 0}, {"MemoryBytes", l.MemoryBytes != 0},
		{"CallDepth", l.CallDepth != 0}, {"StartTimeout", l.StartTimeout != 0}, {"StartInstructions", l.StartInstructions != 0},
		{"MaxIdle", l.MaxIdle != 0}, {"IdleTime", l.IdleTime != 0}, {"BlockBytes", l.BlockBytes != 0},
	} {
		if f.set {
			return host.Errorf(host.InvalidArgument, "the limit %s cannot be set for a tenant", f.name).
				WithHint("it is of the module that all tenants share; set it where the plugin is loaded")
		}
	}
	return nil
}

// has reports whether the tenant has the plugin.
func (t *Tenant) has(id string) bool { return t.Plugins == nil || slices.Contains(t.Plugins, id) }

// within returns the limits of a plugin for a tenant that has limits of its own.
func (l Limits) within(plugin Limits) Limits {
	out := plugin
	out.Timeout = tighter(l.Timeout, plugin.Timeout)
	out.Instructions = tighter(l.Instructions, plugin.Instructions)
	out.InputBytes = tighter(l.InputBytes, plugin.InputBytes)
	out.OutputBytes = tighter(l.OutputBytes, plugin.OutputBytes)
	out.HostCalls = tighter(l.HostCalls, plugin.HostCalls)
	out.ResponseBytes = tighter(l.ResponseBytes, plugin.ResponseBytes)
	out.LogBytes = tighter(l.LogBytes, plugin.LogBytes)
	out.VarBytes = tighter(l.VarBytes, plugin.VarBytes)
	out.Instances = tighter(l.Instances, plugin.Instances)
	out.Waiting = tighter(l.Waiting, plugin.Waiting)
	out.IdleInstances = tighter(l.IdleInstances, plugin.IdleInstances)
	out.MaxCallsPerInstance = tighter(l.MaxCallsPerInstance, plugin.MaxCallsPerInstance)
	out.KVBytes = tighter(l.KVBytes, plugin.KVBytes)
	return out
}

// tighter returns the smaller of two limits; a zero is no limit of its own.
func tighter[N ~int | ~int64](own, plugin N) N {
	if own == 0 {
		return plugin
	}
	return min(own, plugin)
}

// tenants holds the accounts of all tenants whose calls a runtime runs.
type tenants struct {
	any     *Tenant // for a tenant without settings of its own
	ceiling *Permissions
	age     atomic.Uint64 // grows with every change of a tenant's settings

	mu       sync.Mutex
	accounts map[string]*account
	sweepAt  int
}

// account holds one tenant's settings, bindings and noted usage. It is safe for
// concurrent use.
type account struct {
	id       string
	tenants  *tenants
	own      atomic.Pointer[Tenant] // nil: tenants.any
	bindings atomic.Int64           // at plugins
	paying   atomic.Pointer[usage.Account]

	mu   sync.Mutex
	used map[string]*usedRights // by plugin id
}

// forgettable reports whether a new account would do as well.
func (a *account) forgettable() bool { return a.own.Load() == nil && a.bindings.Load() == 0 }

// keptAccounts is how many tenants are remembered before those without settings
// and without use are forgotten.
const keptAccounts = 65_536

func newTenants(opts *Options) (*tenants, error) {
	anybody := opts.AnyTenant
	if anybody == nil {
		anybody = &Tenant{}
	}
	if err := anybody.check(); err != nil {
		return nil, host.Errorf(host.CodeOf(err), "any tenant: %w", err)
	}
	ts := &tenants{any: anybody.clone(), accounts: map[string]*account{}, sweepAt: keptAccounts}
	if opts.Ceiling != nil {
		ceiling := opts.Ceiling.Clone()
		if err := ceiling.Check(); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "ceiling: %w", err)
		}
		ts.ceiling = &ceiling
	}
	for id, t := range opts.Tenants {
		if err := ts.set(id, t); err != nil {
			return nil, err
		}
	}
	return ts, nil
}

func (ts *tenants) set(id string, t *Tenant) error {
	var own *Tenant
	if t != nil {
		if err := t.check(); err != nil {
			return &host.Error{Code: host.CodeOf(err), Message: "tenant \"" + clean(id) + "\": " + err.Error(), Err: err}
		}
		own = t.clone()
	}
	ts.account(id, func(a *account) { a.own.Store(own) })
	ts.age.Add(1)
	return nil
}

// account returns the account of a tenant, opening a missing one. claim marks it as
// needed before a sweep can forget it again.
func (ts *tenants) account(id string, claim func(*account)) *account {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	a := ts.accounts[id]
	if a == nil {
		if len(ts.accounts) >= ts.sweepAt {
			maps.DeleteFunc(ts.accounts, func(_ string, a *account) bool { return a.forgettable() })
			ts.sweepAt = max(keptAccounts, 2*len(ts.accounts))
		}
		a = &account{id: strings.Clone(id), tenants: ts}
		ts.accounts[a.id] = a
	}
	claim(a)
	return a
}

// settings returns the tenant's own settings, or else the default for any tenant.
func (a *account) settings() *Tenant {
	if own := a.own.Load(); own != nil {
		return own
	}
	return a.tenants.any
}

// SetTenant sets a tenant's grants and limits; nil takes all from it, as is
// right for a deleted tenant: the tenant has no plugin, until it is set again or
// [Runtime.ResetTenant] makes it like any other. It may be called while calls run:
// they continue under the new settings, but with the limits that they began with. Code
// invalid_argument for settings that make no sense.
func (rt *Runtime) SetTenant(id string, t *Tenant) error {
	if t == nil {
		t = &Tenant{Plugins: []string{}}
	}
	return rt.tenants.set(id, t)
}

// ResetTenant takes the settings of a tenant away, so that it is like any other,
// which may be more than it had: for one that is configured no longer.
func (rt *Runtime) ResetTenant(id string) error { return rt.tenants.set(id, nil) }

// Tenant returns a copy of a tenant's own settings, with defaults filled in, and
// whether it has any.
func (rt *Runtime) Tenant(id string) (Tenant, bool) {
	rt.tenants.mu.Lock()
	a := rt.tenants.accounts[id]
	rt.tenants.mu.Unlock()
	if a == nil || a.own.Load() == nil {
		return *rt.tenants.any.clone(), false
	}
	return *a.own.Load().clone(), true
}
