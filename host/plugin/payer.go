package plugin

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/usage"
)

// payer charges the use of a call to a tenant's account in the ledger.
type payer struct{ usage.Payer }

// ChargeInstructions implements [callmeter.Account].
func (p *payer) ChargeInstructions(n int64, now time.Time) error {
	return p.Charge(usage.Instructions, n, now)
}

var _ callmeter.Account = (*payer)(nil)

// payer returns the payer of the binding's calls with ctx: the run that ctx belongs to, or
// the tenant's use outside runs. A plugin's owner pays for calls that try the plugin; those
// that try a plugin of the host's own are free.
func (b *binding) payer(ctx context.Context) payer {
	run, tenant := host.UsageOf(ctx), b.billed()
	ledger := &b.plugin.runtime.ledger
	if tenant == describeTenant && run == nil && ledger.shared() {
		return payer{}
	}
	if tenant == b.account.id {
		return payer{b.account.in(ledger.Load()).Payer(run)}
	}
	return payer{ledger.Load().Account(tenant).Payer(run)}
}

// in returns the tenant's account in a ledger.
func (a *account) in(l *usage.Ledger) *usage.Account {
	if kept := a.paying.Load(); kept != nil && kept.Of(l) {
		return kept
	}
	found := l.Account(a.id)
	a.paying.Store(found)
	return found
}

// sharedLedger is the ledger of a runtime: its own, or one that it shares with a host.
type sharedLedger struct {
	atomic.Pointer[usage.Ledger]
	own *usage.Ledger
}

// begin makes the runtime's own ledger, and uses given instead if there is one.
func (s *sharedLedger) begin(given *usage.Ledger) (err error) {
	s.own, err = usage.New(nil, &usage.Options{FlushInterval: -1}) // no timers: calls may be in a test's bubble
	s.Store(cmp.Or(given, s.own))
	return err
}

// shared reports whether a host has the ledger too.
func (s *sharedLedger) shared() bool { return s.Load() != s.own }

// Ledger returns the ledger of what plugins use: [Options].Ledger, or the runtime's own.
func (rt *Runtime) Ledger() *usage.Ledger { return rt.ledger.Load() }

// UseLedger sets the ledger of calls that begin from now on: for one whose store is opened
// while plugins are loaded.
func (rt *Runtime) UseLedger(l *usage.Ledger) { rt.ledger.Store(l) }
