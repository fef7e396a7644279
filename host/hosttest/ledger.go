package hosttest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Ledger is a ledger that sums what all runs use. It refuses nothing beside what Admit
// refuses. Its zero value is ready, and safe for concurrent use.
type Ledger struct {
	// Admit is called for each run before it begins; nil admits all.
	Admit func(ctx context.Context, tenant, model string) error

	tokens atomic.Int64
}

var _ host.Ledger = (*Ledger)(nil)

// Tokens returns the tokens of all calls of models.
func (l *Ledger) Tokens() int { return int(l.tokens.Load()) }

// AdmitRun implements [host.Ledger].
func (l *Ledger) AdmitRun(ctx context.Context, tenant, model string) error {
	if l.Admit == nil {
		return nil
	}
	return l.Admit(ctx, tenant, model)
}

// OpenRun implements [host.Ledger].
func (l *Ledger) OpenRun(host.Scope, string) host.UsageRecord { return ledgerRecord{l} }

type ledgerRecord struct{ ledger *Ledger }

func (r ledgerRecord) ReserveModel(context.Context, *host.ModelCall) error { return nil }
func (r ledgerRecord) ReserveTools(context.Context, int) error             { return nil }
func (r ledgerRecord) UseTime(time.Duration)                               {}
func (r ledgerRecord) Close(string, bool) []host.TurnEntry                 { return nil }

func (r ledgerRecord) SettleModel(_ *host.ModelCall, used *host.Usage) {
	if used != nil {
		r.ledger.tokens.Add(int64(used.Total()))
	}
}
