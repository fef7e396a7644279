package usage

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Payer charges a tenant for what code uses: for the record of a run, or for the record of
// the use outside runs. It is safe for concurrent use. The errors of its methods are
// resource_exhausted for a limit that is used up, unavailable if the store does not answer,
// and that of [host.ValidateTenant] for a tenant that there cannot be. The zero Payer
// charges no tenant, and its methods do not fail.
type Payer struct {
	account *Account
	run     *entry // nil: the use outside runs
}

// Payer returns the payer of a run's use; of use outside runs if r is nil, or not of this
// tenant and ledger.
func (a *Account) Payer(r host.UsageRecord) Payer {
	if outer, ok := r.(interface{ Unwrap() host.UsageRecord }); ok { // of a ledger over this one
		r = outer.Unwrap()
	}
	if run, ok := r.(*runRecord); ok && run.entry.account == a {
		return Payer{a, run.entry}
	}
	return Payer{a, nil}
}

// refusal returns the error of a payer without an account that counts.
func (p Payer) refusal() error {
	if p.account == nil {
		return nil
	}
	return p.account.refused
}

// record returns the record to charge, which is not closed. The account is locked.
func (p Payer) record(now time.Time) *entry {
	if p.run != nil && p.run.n == 0 {
		return p.run
	}
	return p.account.outsideRuns(now)
}

// Charge counts n of a resource that was used, and fails if more is used then than the
// tenant's limits allow. n counts all the same. A negative n takes a charge back.
func (p Payer) Charge(r Resource, n int64, now time.Time) error {
	a := p.account
	if a == nil || a.refused != nil {
		return p.refusal()
	}
	a.mu.Lock()
	a.refresh(now)
	a.charge(p.record(now), r, n)
	short := a.short(need{of: r}, now)
	a.mu.Unlock()
	if short == nil {
		return nil
	}
	return a.cover(context.Background(), need{of: r})
}

// Reserve counts n of a resource before it is used, if it fits the tenant's limits, and
// otherwise counts nothing. Charge corrects it.
func (p Payer) Reserve(r Resource, n int64) error {
	a := p.account
	if a == nil || a.refused != nil {
		return p.refusal()
	}
	return a.reserve(context.Background(), []need{{r, n}}, func(now time.Time) { a.charge(p.record(now), r, n) })
}

// Check fails if nothing of a resource is left. It counts nothing.
func (p Payer) Check(r Resource, now time.Time) error {
	a := p.account
	if a == nil || a.refused != nil {
		return p.refusal()
	}
	a.mu.Lock()
	a.refresh(now)
	short := a.short(need{r, 1}, now)
	a.mu.Unlock()
	if short == nil {
		return nil
	}
	return a.cover(context.Background(), need{r, 1})
}

// Priced fails with code failed_precondition, naming the model, if the tenant has a limit
// of money and the model no price.
func (p Payer) Priced(model string) error {
	a := p.account
	if a == nil || a.refused != nil {
		return p.refusal()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(a.ledger.now())
	return a.priced(model)
}

// priced is Priced of an account that is locked.
func (a *Account) priced(model string) error {
	if !a.plan.money {
		return nil
	}
	if _, ok := a.ledger.prices.Load().Models[model]; !ok {
		return errNoPrice(model)
	}
	return nil
}

// ChargeModel counts a call of a model by sandboxed code, and its money. Its ModelTokens
// are charged apart.
func (p Payer) ChargeModel(model string, u host.Usage) error {
	a := p.account
	if a == nil || a.refused != nil {
		return p.refusal()
	}
	now, prices := a.ledger.now(), a.ledger.prices.Load()
	money := prices.of(model, u.Bounded())
	a.mu.Lock()
	a.refresh(now)
	e := p.record(now)
	e.addCall(prices, sandboxAgent, model, u.Bounded(), money)
	a.count(e, Money, money)
	short := a.short(need{of: Money}, now)
	a.mu.Unlock()
	if short == nil {
		return nil
	}
	return a.cover(context.Background(), need{of: Money})
}

// addCall adds a call that was priced by a table.
func (e *entry) addCall(prices *PriceTable, agent, model string, u host.Usage, money int64) {
	if _, ok := prices.Models[model]; ok {
		e.rec.PriceVersion = prices.Version
	}
	e.rec.addCall(clip(agent), clip(model), u, money)
}
