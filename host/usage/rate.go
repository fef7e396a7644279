package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

const (
	maxRates   = 256    // models of one tenant with a rate of their own
	otherRates = "\x00" // the rate of all that there is no room for
)

// rates has, by model, the time when all calls so far have been paid for.
type rates map[string]time.Time

// forget drops the rates of models that owe nothing.
func (r rates) forget(now time.Time) {
	for model, paid := range r {
		if !now.Before(paid) {
			delete(r, model)
		}
	}
}

// wait returns how long a call of a model has to wait; not more than 0 is not at all.
func (r rates) wait(model string, p *plan, now time.Time) time.Duration {
	paid := r[model]
	if paid.Before(now) {
		paid = now
	}
	return paid.Add(p.interval()).Sub(now) - time.Duration(p.burst)*p.interval()
}

// interval is the time between two calls of a model.
func (p *plan) interval() time.Duration { return max(time.Minute/time.Duration(p.rate), 1) }

// take takes a turn at a model and returns how long it is until then.
func (r rates) take(model string, p *plan, now time.Time) (time.Duration, error) {
	model = r.name(model, now)
	wait := r.wait(model, p, now)
	if wait > p.maxWait {
		return 0, tooOften(p, wait)
	}
	r[model] = now.Add(wait + time.Duration(p.burst)*p.interval())
	return max(wait, 0), nil
}

// name returns the name under which a model has its rate.
func (r rates) name(model string, now time.Time) string {
	if _, known := r[model]; known || len(r) < maxRates {
		return model
	}
	if r.forget(now); len(r) < maxRates {
		return model
	}
	return otherRates
}

// giveBack returns a turn whose caller has given up. Callers already waiting keep their
// waits; only later callers wait less.
func (r rates) giveBack(model string, p *plan) {
	if _, known := r[model]; !known {
		model = otherRates
	}
	r[model] = r[model].Add(-p.interval())
}

// awaitTurn waits until the tenant may ask a model.
func (a *Account) awaitTurn(ctx context.Context, model string) (time.Duration, error) {
	began := a.ledger.now()
	a.mu.Lock()
	a.refresh(began)
	wait, err := a.rates.take(model, a.plan, began)
	a.mu.Unlock()
	if wait <= 0 || err != nil {
		return 0, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return wait, nil
	case <-ctx.Done():
		a.mu.Lock()
		a.rates.giveBack(model, a.plan)
		a.mu.Unlock()
		return time.Since(began), fault.AsError(fault.ContextError(ctx))
	}
}

func tooOften(p *plan, wait time.Duration) error {
	return &host.Error{Code: host.ResourceExhausted, Retryable: true, Limit: ModelCalls.String(), RetryAfter: wait - p.maxWait,
		Message: fmt.Sprintf("the tenant asks the model more often than its budget ModelCalls of %d a minute", p.rate),
		Hint:    fmt.Sprintf("try again in %s", (wait - p.maxWait).Round(time.Millisecond))}
}
