package host

import (
	"context"
	"time"
)

// Ledger bounds and records what tenants use over all of their runs, beside the [Limits]
// of each. Package usage has one. Implementations are safe for concurrent use.
type Ledger interface {
	// AdmitRun is called before anything of a run is stored or sent: before the run
	// waits for its thread, and again when it has the thread. It fails if the tenant
	// has nothing left, or if a first call of model would be refused for its rate or
	// its missing price; model is "" where it is not known yet. The error has code
	// resource_exhausted, the limit's name and RetryAfter, or failed_precondition for
	// the price. It counts nothing, waits for nothing, and writes nothing.
	AdmitRun(ctx context.Context, tenant, model string) error

	// OpenRun opens the usage record of a run that was admitted. key names the
	// caller's credential: see [Request].Key.
	OpenRun(scope Scope, key string) UsageRecord
}

// UsageRecord counts what one run uses, the agents that run as its tools included. An
// error of it ends the run with its code: resource_exhausted, and retryable, for a limit of
// the tenant that is used up for now. It is safe for concurrent use.
type UsageRecord interface {
	// ReserveModel is called before a model is asked, each time. It reserves what the
	// call may use at most, sets the call's maximum of output if it has none, and may
	// wait until it is the tenant's turn, as long as ctx.
	ReserveModel(ctx context.Context, call *ModelCall) error

	// SettleModel counts what a call has used in the place of what was reserved, even
	// if that was less: the next call is then refused. used is nil for a call that has
	// used nothing. It is called in canceled runs too, and must not wait.
	SettleModel(call *ModelCall, used *Usage)

	// ReserveTools is called before n tools are called together.
	ReserveTools(ctx context.Context, n int) error

	// UseTime counts time that the run has taken: before each model call and each batch
	// of tool calls, and at its end. Waiting for a thread or for a turn at a model is
	// not counted. When it is used up, ReserveModel and ReserveTools fail. It is called
	// in canceled runs too, and must not wait.
	UseTime(d time.Duration)

	// Close ends the record of a run, which is on that thread. With rides a turn of the
	// run is about to be stored, and the record may return entries for its commit. A
	// second call does nothing. It must not wait.
	Close(thread string, rides bool) []TurnEntry
}

// ModelCall is a call of a model that is about to be made.
type ModelCall struct {
	Agent     string // "" for a router
	Model     string
	Input     int // tokens of the request, counted or estimated
	MaxOutput int // tokens of the answer; 0, for none, is set by ReserveModel

	Waited      time.Duration // by ReserveModel, for the tenant's turn
	Reservation any           // of the usage record, between ReserveModel and SettleModel
}

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

// openRecord opens the usage record of the run, and shows it to sandboxed code.
func (l *runLedger) openRecord(ledger Ledger, key string, s *services) {
	if ledger != nil {
		l.record = ledger.OpenRun(s.scope(), key)
		s.usage = l.record
	}
}

// closeRecord ends the usage record of the run. With rides it returns entries for the commit
// of the turn.
func (l *runLedger) closeRecord(rides bool) []TurnEntry {
	if l.record == nil {
		return nil
	}
	l.bookTime()
	return l.record.Close(l.events.Scope.Thread, rides)
}
