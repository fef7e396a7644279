package tenants

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/plugin"
)

// known returns the tenant of an id as this host knows it, nil if it does not. The value
// is read-only.
func (s *Store) known(id string) *Tenant {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// admits reports whether the tenant of an id is served; t is its record, or nil. One that
// was deleted is not served without a record for deletedFor: requests that began before
// would write rows of it again.
func (s *Store) admits(id string, t *Tenant) bool {
	if t != nil {
		return t.Status == Active
	}
	if !s.options.Unregistered {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, deleted := s.deleted[id]
	return !deleted || time.Since(at) >= deletedFor
}

// Admit returns an error of code permission_denied unless a tenant is active, or has no
// record, Options.Unregistered admits it and it was not deleted in the last 15 minutes. It reads no store, and knows of changes by
// other hosts within a second.
func (s *Store) Admit(id string) error {
	if s.admits(id, s.known(id)) {
		return nil
	}
	return fault.Errorf(fault.PermissionDenied, "the tenant is not active").
		WithHint("ask the operator of this service")
}

// Allows reports whether a tenant is admitted and its plan, if it has one, has a target.
func (s *Store) Allows(id, target string) bool {
	t := s.known(id)
	return s.admits(id, t) && (t == nil || allows(t.Plan.Targets, target))
}

// Plan returns a copy of a tenant's plan, and whether this host knows the tenant.
func (s *Store) Plan(id string) (Plan, bool) {
	t := s.known(id)
	if t == nil {
		return Plan{}, false
	}
	return t.Plan.clone(), true
}

// PluginGrants returns what a tenant's plan grants a plugin, and whether the tenant has the
// plugin. The grants are nil if the plan names no plugins: then each has those of its load.
// A tenant that is not admitted has none. It reads no store. It is the Plans of package
// host/plugin/library.
func (s *Store) PluginGrants(id, pluginID string) (granted *plugin.Permissions, has bool) {
	t := s.known(id)
	if !s.admits(id, t) {
		return nil, false
	}
	if t == nil || t.Plan.Plugins == nil {
		return nil, true
	}
	p, has := t.Plan.Plugins[pluginID]
	p = p.Clone()
	return &p, has
}

// Limits returns the limits of a tenant's runs: the function host.Options.TenantLimits.
func (s *Store) Limits(id string) host.Limits {
	if t := s.known(id); t != nil {
		return t.Plan.Run
	}
	return host.Limits{}
}

// Guard returns a ledger over another one, for host.Options.Ledger, that refuses the runs of
// tenants that are not active, also those that have begun at their next call of a model,
// and calls of models that a plan leaves out, with code permission_denied. An inner ledger
// of nil counts nothing.
func (s *Store) Guard(inner host.Ledger) host.Ledger { return &guard{s, inner} }

type guard struct {
	store *Store
	inner host.Ledger
}

// AdmitRun implements host.Ledger.
func (g *guard) AdmitRun(ctx context.Context, tenant, model string) error {
	if err := g.store.admitModel(tenant, model); err != nil || g.inner == nil {
		return err
	}
	return g.inner.AdmitRun(ctx, tenant, model)
}

// Price returns what the inner ledger says that a call of a model costs, for a host's
// instrument.
func (g *guard) Price(model string, used host.Usage) instrument.Money {
	if l, ok := g.inner.(interface {
		Price(model string, used host.Usage) instrument.Money
	}); ok {
		return l.Price(model, used)
	}
	return instrument.Money{}
}

// OpenRun implements host.Ledger.
func (g *guard) OpenRun(scope host.Scope, key string) host.UsageRecord {
	var inner host.UsageRecord = noUsage{}
	if g.inner != nil {
		inner = g.inner.OpenRun(scope, key)
	}
	return &guardedRecord{UsageRecord: inner, store: g.store, tenant: scope.Tenant}
}

// admitModel refuses a tenant that is not active and a model that its plan leaves out; ""
// is a model that is not known yet.
func (s *Store) admitModel(tenant, model string) error {
	if err := s.Admit(tenant); err != nil {
		return err
	}
	if t := s.known(tenant); t != nil && model != "" && !allows(t.Plan.Models, model) {
		return fault.Errorf(fault.PermissionDenied, "the plan does not have model %q", model).
			WithHint("use another model, or ask the operator of this service")
	}
	return nil
}

// guardedRecord is the usage record of a run that the Store may end.
type guardedRecord struct {
	host.UsageRecord
	store  *Store
	tenant string
}

// ReserveModel implements host.UsageRecord.
func (r *guardedRecord) ReserveModel(ctx context.Context, call *host.ModelCall) error {
	if err := r.store.admitModel(r.tenant, call.Model); err != nil {
		return err
	}
	return r.UsageRecord.ReserveModel(ctx, call)
}

// Unwrap returns the record of the ledger below, which sandboxed code is charged to.
func (r *guardedRecord) Unwrap() host.UsageRecord { return r.UsageRecord }

// noUsage is the record of a run on a host without a ledger.
type noUsage struct{}

func (noUsage) ReserveModel(context.Context, *host.ModelCall) error { return nil }
func (noUsage) SettleModel(*host.ModelCall, *host.Usage)            {}
func (noUsage) ReserveTools(context.Context, int) error             { return nil }
func (noUsage) UseTime(time.Duration)                               {}
func (noUsage) Close(string, bool) []host.TurnEntry                 { return nil }
