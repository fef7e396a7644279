package project

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
)

// Tenant returns the tenant that a flag or a request names, or the project's.
func (p *Project) Tenant(name string) string {
	return cmp.Or(name, p.config.Tenant, threads.DefaultTenant)
}

// Tenants returns the records of tenants in the project's data. The plan of a record takes
// the place of the configuration's settings for its tenant; a tenant without a record has
// those settings, unless Options.Registered refuses it.
func (p *Project) Tenants() *tenants.Store { return p.tenants.store }

// Audit returns the audit log of the project's data.
func (p *Project) Audit() *audit.Log { return p.tenants.log }

// tenantSettings are the settings of a configuration's tenants, by id, the prices that budgets of
// money count with, and the trust in uploads.
type tenantSettings struct {
	plugins map[string]*plugin.Tenant
	budgets map[string]*usage.Plan
	prices  *usage.PriceTable
	uploads *uploadTrust
}

func readTenantSettings(c *configfile.Config, trusts *trusts) (*tenantSettings, error) {
	var sandbox plugin.Options
	var ledger usage.Options
	if err := errors.Join(c.RuntimeTenants(&sandbox), c.Usage(&ledger)); err != nil {
		return nil, err
	}
	uploads, err := trusts.uploads(c)
	return &tenantSettings{plugins: sandbox.Tenants, budgets: ledger.Tenants, prices: ledger.Prices, uploads: uploads}, err
}

// tenantSet sets the ledger and the sandbox to the plans of tenants that have records, and
// to the configuration's settings for the others.
type tenantSet struct {
	trusts   *trusts
	ledger   *usage.Ledger
	runtime  *plugin.Runtime
	store    *tenants.Store
	registry atomic.Pointer[runs.Registry] // nil until the host runs

	log      *audit.Log
	erasures *erasure.Tenants // one, so that a sweep and a caller delete one after the other

	mu         sync.Mutex
	configured *tenantSettings
	planned    map[string]bool // tenants with records
}

var (
	_ tenants.Ledger  = (*tenantSet)(nil)
	_ tenants.Plugins = (*tenantSet)(nil)
	_ tenants.Runs    = (*tenantSet)(nil)
)

// open reads the records and applies their plans. unregistered admits tenants without one.
func (s *tenantSet) open(ctx context.Context, driver kv.Driver, c *configfile.Config, unregistered bool, logger *slog.Logger) (err error) {
	if s.configured, err = readTenantSettings(c, s.trusts); err != nil {
		return err
	}
	s.planned, s.log = map[string]bool{}, audit.New(driver)
	s.store, err = tenants.Open(ctx, driver, &tenants.Options{Ledger: s, Plugins: s, Runs: s, Unregistered: unregistered, Logger: logger})
	return err
}

// SetPlan implements tenants.Ledger.
func (s *tenantSet) SetPlan(id string, p *usage.Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == nil {
		p = s.configured.budgets[id]
	}
	return s.ledger.SetPlan(id, p)
}

// SetTenant implements tenants.Plugins.
func (s *tenantSet) SetTenant(id string, t *plugin.Tenant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned[id] = true
	return s.runtime.SetTenant(id, t)
}

// ResetTenant implements tenants.Plugins.
func (s *tenantSet) ResetTenant(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.planned, id)
	if t, ok := s.configured.plugins[id]; ok {
		return s.runtime.SetTenant(id, t)
	}
	return s.runtime.ResetTenant(id)
}

// take applies the settings of a saved configuration to the tenants without records, and
// its prices to the next calls of models. If it fails the settings before stay.
func (s *tenantSet) take(c *configfile.Config, next *tenantSettings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.configured
	if err := s.apply(c, before, next); err != nil {
		return errors.Join(err, s.apply(c, next, before))
	}
	return nil
}

// settings returns the settings that count.
func (s *tenantSet) settings() *tenantSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.configured
}

// apply replaces settings. s.mu is held.
func (s *tenantSet) apply(c *configfile.Config, before, next *tenantSettings) error {
	s.configured = next
	if err := s.ledger.SetPrices(next.prices); err != nil {
		return c.Wrap(err, configfile.Keys("prices"))
	}
	for _, id := range slices.Sorted(maps.Keys(next.plugins)) {
		if s.planned[id] {
			continue
		}
		if err := s.runtime.SetTenant(id, next.plugins[id]); err != nil {
			return c.Wrap(err, configfile.Keys("tenants", id))
		}
		if err := s.ledger.SetPlan(id, next.budgets[id]); err != nil {
			return c.Wrap(err, configfile.Keys("tenants", id, "budget"))
		}
	}
	for id := range before.plugins {
		if _, still := next.plugins[id]; !still && !s.planned[id] {
			if err := errors.Join(s.runtime.ResetTenant(id), s.ledger.SetPlan(id, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// List implements tenants.Runs. Before the host runs there is no run to cancel.
func (s *tenantSet) List(ctx context.Context, req *runs.ListRequest) (*runs.Page, error) {
	if r := s.registry.Load(); r != nil {
		return r.List(ctx, req)
	}
	return &runs.Page{}, nil
}

// Cancel implements tenants.Runs.
func (s *tenantSet) Cancel(ctx context.Context, tenant, id string) (*runs.Run, error) {
	if r := s.registry.Load(); r != nil {
		return r.Cancel(ctx, tenant, id)
	}
	return nil, host.Errorf(host.NotFound, "there is no run %q", id)
}

// retention returns what the plan of a tenant keeps; ok is false for one without a record.
func (s *tenantSet) retention(tenant string) (kept tenants.Retention, ok bool) {
	plan, ok := s.store.Plan(tenant)
	return plan.Retention, ok
}

// resume completes deletions of tenants that were interrupted.
func (s *tenantSet) resume(ctx context.Context) error {
	return errors.Join(s.erasures.Resume(ctx), s.store.ResumeDeletions(ctx, s.erasures))
}
