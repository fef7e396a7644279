package host

import (
	"context"

	"github.com/agenthost/agenthost/host/runledger"
)

// The contract of ledgers is that of the package runledger.
type (
	// Ledger bounds and records what tenants use over all of their runs, beside the
	// [Limits] of each: see [runledger.Ledger] for its methods and promises.
	Ledger = runledger.Ledger

	// UsageRecord counts what one run uses: see [runledger.Record].
	UsageRecord = runledger.Record

	// ModelCall is a call of a model that is about to be made: see
	// [runledger.ModelCall].
	ModelCall = runledger.ModelCall

	// TurnEntry is a record of another part of the program that is stored in the commit
	// of a turn: see [runledger.Entry].
	TurnEntry = runledger.Entry
)

// UsageOf returns the usage record of the run that ctx belongs to; nil outside a run and on
// a host without a [Ledger]. Sandboxed code is charged to it.
func UsageOf(ctx context.Context) UsageRecord {
	s, _ := ctx.Value(servicesKey{}).(*services)
	if s == nil {
		return nil
	}
	return s.usage
}

// Admit returns the error with which a run of target for a tenant would be refused
// now, nil if it would not be: for a program that stores something of its own
// before it starts the run.
func (h *Host) Admit(ctx context.Context, target Target, tenant string) error {
	tenant, err := h.Tenant(tenant)
	if err != nil {
		return err
	}
	n := target.network()
	models := modelsOf(h, n, &Request{})
	return h.admitRun(ctx, tenant, &routing{net: n, models: &models})
}

// admitRun asks the ledger whether a run may begin.
func (h *Host) admitRun(ctx context.Context, tenant string, routes *routing) error {
	if h.opts.Ledger == nil {
		return nil
	}
	return h.opts.Ledger.AdmitRun(ctx, tenant, routes.firstModel())
}

// admit asks the ledger whether the run may begin. A run that another process began
// was admitted then.
func (r *run) admit(ctx context.Context) error {
	if r.resume.run != "" && len(r.resume.answers) == 0 {
		return nil
	}
	return r.host.admitRun(ctx, r.scope.Tenant, &r.routes)
}
