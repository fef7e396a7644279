package plugin

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
)

// Tenant is what the plugins of one tenant may do and use. The zero value takes
// every plugin as it was loaded, under the default budget. Give it to
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

	// Budget is what all plugins together may use in a window of time.
	Budget Budget
}

// clone returns a copy that shares nothing with t, with its defaults.
func (t Tenant) clone() *Tenant {
	t.Grants = maps.Clone(t.Grants)
	for id, p := range t.Grants {
		t.Grants[id] = p.clone()
	}
	t.Plugins = slices.Clone(t.Plugins)
	t.Budget = t.Budget.withDefaults()
	return &t
}

func (t *Tenant) check() error {
	for _, id := range slices.Sorted(maps.Keys(t.Grants)) {
		p := t.Grants[id]
		if err := p.check(); err != nil {
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
		{"IdleOfAll", l.IdleOfAll != 0}, {"IdleTime", l.IdleTime != 0}, {"BlockBytes", l.BlockBytes != 0},
	} {
		if f.set {
			return host.Errorf(host.InvalidArgument, "the limit %s cannot be set for a tenant", f.name).
				WithHint("it is of the module that all tenants share; set it where the plugin is loaded")
		}
	}
	return t.Budget.check()
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
	out.CallsAnew = tighter(l.CallsAnew, plugin.CallsAnew)
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

// tenants are the accounts of everybody whose calls a runtime runs.
type tenants struct {
	any     *Tenant // for a tenant without settings of its own
	ceiling *Permissions
	age     atomic.Uint64 // grows with every change of anybody's settings

	mu       sync.Mutex
	accounts map[string]*account
	sweepAt  int
}

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
		ceiling := opts.Ceiling.clone()
		if err := ceiling.check(); err != nil {
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

// account returns the account of a tenant, opening it if there is none. claim is
// what keeps it: done before anybody can forget it again.
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

// settings are those of the tenant: its own, or anybody's.
func (a *account) settings() *Tenant {
	if own := a.own.Load(); own != nil {
		return own
	}
	return a.tenants.any
}

// SetTenant sets what the plugins of a tenant may do and use; nil leaves it nothing,
// as is right for a tenant that was deleted: it has no plugin, until it is set
// again or [Runtime.ResetTenant] makes it like any other. It may be called while calls
// run: they go on under the new settings, but for the limits that they began
// with. What the tenant has used of its budget stays used until its window ends;
// one that would last longer than the new settings' Window ends at once. Code
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

// Tenant returns a copy of what was set for a tenant, with defaults filled in,
// and whether anything was.
func (rt *Runtime) Tenant(id string) (Tenant, bool) {
	rt.tenants.mu.Lock()
	a := rt.tenants.accounts[id]
	rt.tenants.mu.Unlock()
	if a == nil || a.own.Load() == nil {
		return *rt.tenants.any.clone(), false
	}
	return *a.own.Load().clone(), true
}

// rights are what a plugin may do and use for a tenant. They do not change: a
// binding gets new ones when settings change.
type rights struct {
	age     uint64 // of the settings that they were made from
	served  bool
	granted Permissions
	limits  Limits

	once      sync.Once
	policy    *egress.Policy // of granted; see httpPolicy
	policyErr error
}

// binding is the use of one plugin by one tenant: its rights, and what it has used.
type binding struct {
	plugin  *Plugin
	account *account
	usage   *usage
	current atomic.Pointer[rights]
	tallies [exportCount]atomic.Pointer[tally]
}

// rights returns what counts now. Making them anew when settings have changed is
// done by whoever comes first, or twice: the outcome is the same.
func (b *binding) rights() *rights {
	age := b.plugin.runtime.tenants.age.Load()
	if r := b.current.Load(); r != nil && r.age == age {
		return r
	}
	r := b.plugin.rightsFor(b.account.settings(), b.account.id)
	r.age = age
	b.current.Store(r)
	return r
}

// rightsFor works out what a tenant of these settings may do with the plugin.
func (p *Plugin) rightsFor(t *Tenant, tenant string) *rights {
	r := &rights{limits: t.Limits.within(p.limits)}
	if p.manifest == nil || p.trial.Load() {
		r.served = true // it describes itself, or is tried, with nothing granted
		return r
	}
	r.served = t.has(p.id) && (p.only == nil || slices.Contains(p.only, tenant))
	if !r.served {
		return r
	}
	granted, own := t.Grants[p.id]
	if defaults := p.grants.Load(); !own && defaults != nil {
		granted = *defaults
	}
	if ceiling := p.runtime.tenants.ceiling; ceiling != nil {
		granted = granted.under(*ceiling)
	}
	if p.extism != nil && p.extism.silent && p.extism.Asks == nil {
		r.granted = Permissions{HTTP: granted.HTTP}
		return r
	}
	r.granted = p.manifest.Permissions.clamp(granted)
	return r
}

// binding returns the binding of the plugin to a tenant.
func (p *Plugin) binding(tenant string) *binding {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bindingLocked(tenant)
}

func (p *Plugin) bindingLocked(tenant string) *binding {
	if s := p.bindings[tenant]; s != nil {
		return s
	}
	if len(p.bindings) >= max(keptAccounts, p.sweepBindingsAt) {
		p.sweepBindings()
	}
	a := p.runtime.tenants.account(tenant, func(a *account) {
		if !p.closed {
			a.bindings.Add(1)
		}
	})
	s := &binding{plugin: p, account: a, usage: a.usage(p.id)}
	if p.closed {
		return s
	}
	if p.bindings == nil {
		p.bindings = map[string]*binding{}
	}
	p.bindings[a.id] = s
	return s
}

// sweepBindings forgets the tenants that have no instance. Plugin.mu is held.
func (p *Plugin) sweepBindings() {
	maps.DeleteFunc(p.bindings, func(tenant string, s *binding) bool {
		if p.pools[tenant] != nil {
			return false
		}
		s.account.bindings.Add(-1)
		return true
	})
	p.sweepBindingsAt = 2 * len(p.bindings)
}

// leaveBindings gives up all bindings.
func (p *Plugin) leaveBindings() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.bindings {
		s.account.bindings.Add(-1)
	}
	p.bindings = nil
}

// errNotServed is what a tenant is told of a plugin that it does not have: no
// more than of one that there is not.
func errNotServed() error {
	return host.Errorf(host.NotFound, "there is no such plugin")
}

// Granted returns what the plugin may do for a tenant without grants of its own.
func (p *Plugin) Granted() Permissions { return p.rightsFor(p.runtime.tenants.any, "").granted }

// GrantedTo returns what the plugin may do for a tenant: what it asks for and
// is granted, for that tenant or, without grants of the tenant's own, where it
// was loaded, under the runtime's ceiling. Nothing for a tenant that does not
// have the plugin.
func (p *Plugin) GrantedTo(tenant string) Permissions {
	return p.binding(tenant).rights().granted.clone()
}

// LimitsFor returns the limits of the plugin's calls for a tenant.
func (p *Plugin) LimitsFor(tenant string) Limits { return p.binding(tenant).rights().limits }

// Serves reports whether a tenant has the plugin.
func (p *Plugin) Serves(tenant string) bool { return p.binding(tenant).rights().served }

// Grant changes what the plugin may do for tenants without grants of their own.
// It may be called while calls run. Code invalid_argument for permissions that
// make no sense.
func (p *Plugin) Grant(granted Permissions) error {
	granted = granted.clone()
	if err := granted.check(); err != nil {
		return host.Errorf(host.InvalidArgument, "grants of plugin %q: %w", p.id, err)
	}
	p.grants.Store(&granted)
	p.runtime.tenants.age.Add(1)
	return nil
}

// narrow takes from what the plugin is granted all that is not in granted.
func (p *Plugin) narrow(granted Permissions) {
	var left Permissions
	if before := p.grants.Load(); before != nil {
		left = before.under(granted)
	}
	p.grants.Store(&left)
	p.runtime.tenants.age.Add(1)
}
