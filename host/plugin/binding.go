package plugin

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/usagereport"
)

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

// binding is the use of one plugin by one tenant: its rights and its usage.
type binding struct {
	plugin       *Plugin
	account      *account
	usage        *usedRights
	current      atomic.Pointer[rights]
	pools        atomic.Int32 // of instances that use it
	usageRecords [abi.ExportCount]atomic.Pointer[usagereport.Record]
}

// rights returns the present rights. The first call after a change of settings
// makes them; two at once make them twice, with the same outcome.
func (b *binding) rights() *rights {
	age := b.plugin.runtime.tenants.age.Load()
	if r := b.current.Load(); r != nil && r.age == age {
		return r
	}
	r := b.plugin.bindings.rightsFor(b.account.settings(), b.account.id)
	r.age = age
	b.current.Store(r)
	return r
}

// bindings are those of one plugin. It is safe for concurrent use.
type bindings struct {
	plugin  *Plugin
	only    []string                    // the tenants that have the plugin; nil is all
	granted atomic.Pointer[Permissions] // for tenants without grants of their own
	trial   atomic.Bool                 // the plugin is tried before it serves: for no tenant, with nothing granted

	mu       sync.Mutex
	byTenant map[string]*binding
	sweepAt  int
	closed   bool // none is kept any more
}

// rightsFor computes the plugin's rights for a tenant with these settings.
func (bs *bindings) rightsFor(t *Tenant, tenant string) *rights {
	p := bs.plugin
	r := &rights{limits: t.Limits.within(p.limits)}
	if p.manifest == nil || bs.trial.Load() {
		r.served = true // it describes itself, or is tried, with nothing granted
		return r
	}
	r.served = t.has(p.id) && (bs.only == nil || slices.Contains(bs.only, tenant))
	if !r.served {
		return r
	}
	granted, own := t.Grants[p.id]
	if defaults := bs.granted.Load(); !own && defaults != nil {
		granted = *defaults
	}
	if ceiling := p.runtime.tenants.ceiling; ceiling != nil {
		granted = granted.Under(*ceiling)
	}
	if x := p.module.extism; x != nil && x.silent && x.Asks == nil {
		r.granted = Permissions{HTTP: granted.HTTP}
		return r
	}
	r.granted = p.manifest.Permissions.Clamp(granted)
	return r
}

// of returns the binding of a tenant, and makes a missing one.
func (bs *bindings) of(tenant string) *binding {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.get(tenant)
}

// acquire is of for a pool, which keeps the binding until it lowers binding.pools.
func (bs *bindings) acquire(tenant string) *binding {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.get(tenant)
	b.pools.Add(1)
	return b
}

// get is of with the mutex held.
func (bs *bindings) get(tenant string) *binding {
	if b := bs.byTenant[tenant]; b != nil {
		return b
	}
	if len(bs.byTenant) >= max(keptAccounts, bs.sweepAt) {
		bs.sweep()
	}
	a := bs.plugin.runtime.tenants.account(tenant, func(a *account) {
		if !bs.closed {
			a.bindings.Add(1)
		}
	})
	b := &binding{plugin: bs.plugin, account: a, usage: a.usage(bs.plugin.id)}
	if bs.closed {
		return b
	}
	if bs.byTenant == nil {
		bs.byTenant = map[string]*binding{}
	}
	bs.byTenant[a.id] = b
	return b
}

// sweep forgets the bindings that no pool uses. The mutex is held.
func (bs *bindings) sweep() {
	maps.DeleteFunc(bs.byTenant, func(_ string, b *binding) bool {
		if b.pools.Load() > 0 {
			return false
		}
		b.account.bindings.Add(-1)
		return true
	})
	bs.sweepAt = 2 * len(bs.byTenant)
}

// all returns the bindings of all tenants.
func (bs *bindings) all() []*binding {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return slices.Collect(maps.Values(bs.byTenant))
}

// clear forgets all bindings; the next call makes new ones.
func (bs *bindings) clear() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.byTenant {
		b.account.bindings.Add(-1)
	}
	bs.byTenant = nil
}

// close forgets all bindings and keeps none from then on.
func (bs *bindings) close() {
	bs.mu.Lock()
	bs.closed = true
	bs.mu.Unlock()
	bs.clear()
}

// grant sets the permissions for tenants without grants of their own.
func (bs *bindings) grant(granted Permissions) {
	bs.granted.Store(&granted)
	bs.plugin.runtime.tenants.age.Add(1)
}

// narrow takes away all permissions that are not in granted.
func (bs *bindings) narrow(granted Permissions) {
	var left Permissions
	if before := bs.granted.Load(); before != nil {
		left = before.Under(granted)
	}
	bs.grant(left)
}

// errNotServed answers a tenant that asks for a plugin it does not have, in the
// words used for a plugin that does not exist.
func errNotServed() error {
	return host.Errorf(host.NotFound, "there is no such plugin")
}

// Granted returns what the plugin may do for a tenant without grants of its own.
func (p *Plugin) Granted() Permissions {
	return p.bindings.rightsFor(p.runtime.tenants.any, "").granted
}

// GrantedTo returns what the plugin may do for a tenant: what it asks for and
// is granted, for that tenant or, without grants of the tenant's own, where it
// was loaded, under the runtime's ceiling. Nothing for a tenant that does not
// have the plugin.
func (p *Plugin) GrantedTo(tenant string) Permissions {
	return p.bindings.of(tenant).rights().granted.Clone()
}

// LimitsFor returns the limits of the plugin's calls for a tenant.
func (p *Plugin) LimitsFor(tenant string) Limits { return p.bindings.of(tenant).rights().limits }

// Serves reports whether a tenant has the plugin.
func (p *Plugin) Serves(tenant string) bool { return p.bindings.of(tenant).rights().served }

// Grant changes what the plugin may do for tenants without grants of their own.
// It may be called while calls run. Code invalid_argument for permissions that
// make no sense.
func (p *Plugin) Grant(granted Permissions) error {
	granted = granted.Clone()
	if err := granted.Check(); err != nil {
		return host.Errorf(host.InvalidArgument, "grants of plugin %q: %w", p.id, err)
	}
	p.bindings.grant(granted)
	return nil
}
