package quota

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The defaults of [Budget].
const (
	defaultWindow     = time.Minute
	defaultTokens     = 10_000_000
	defaultToolCalls  = 100_000
	defaultTime       = 24 * time.Hour
	defaultModelCalls = 6_000
	defaultBurst      = 100
	defaultMaxWait    = 10 * time.Second
)

// The bounds of the books.
const (
	maxAccounts = 100_000     // tenants with something in them
	maxModels   = 256         // rates of one tenant
	sweepEvery  = time.Second // at most, when the books are full
)

// others is the account, or the rate, of all that there is no room for.
const others = "\x00"

// Budget bounds a tenant's usage. A zero field is its default; nothing is
// unlimited.
type Budget struct {
	// Window is for how long the next three hold. It begins with the first use after
	// the last one (1 minute).
	Window    time.Duration
	Tokens    int64 // of input and output, of all models (10,000,000)
	ToolCalls int64 // (100,000)

	// Time is how long runs may take together, which is more than the window if
	// several run at once (24 h: 1,440 of them). A run that is under way when it is
	// used up ends before its next model or tool call.
	Time time.Duration

	// ModelCalls is how often each model may be asked in a minute, evenly spread
	// but for Burst calls at once (6,000, 100).
	ModelCalls int
	Burst      int

	// MaxWait is how long a call may wait for its turn at a model; one that would
	// have to wait longer is refused at once (10 s). A negative one never waits.
	MaxWait time.Duration
}

func (b Budget) withDefaults() Budget {
	b.Window = cmp.Or(b.Window, defaultWindow)
	b.Tokens = cmp.Or(b.Tokens, defaultTokens)
	b.ToolCalls = cmp.Or(b.ToolCalls, defaultToolCalls)
	b.Time = cmp.Or(b.Time, defaultTime)
	b.ModelCalls = cmp.Or(b.ModelCalls, defaultModelCalls)
	b.Burst = cmp.Or(b.Burst, defaultBurst)
	b.MaxWait = cmp.Or(b.MaxWait, defaultMaxWait)
	b.MaxWait = max(b.MaxWait, 0)
	return b
}

func (b Budget) check(tenant string) error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"Window", int64(b.Window)}, {"Tokens", b.Tokens}, {"ToolCalls", b.ToolCalls}, {"Time", int64(b.Time)}, {"ModelCalls", int64(b.ModelCalls)}, {"Burst", int64(b.Burst)},
	} {
		if f.v < 0 {
			return host.Errorf(host.InvalidArgument, "%s of the budget of tenant %q is %d", f.name, tenant, f.v).WithHint("leave it out for the default")
		}
	}
	return nil
}

// Options are the optional parts of quotas.
type Options struct {
	Default Budget            // of tenants that are not listed
	Tenants map[string]Budget // by tenant
}

// Quotas keep the books of tenants. They are a host's Quota, and safe for
// concurrent use by any number of hosts.
type Quotas struct {
	mu       sync.Mutex
	standard Budget
	budgets  map[string]Budget
	accounts map[string]*account
	swept    time.Time
}

// account is a tenant's usage.
type account struct {
	ends      time.Time // of the window
	tokens    int64
	toolCalls int64
	time      time.Duration
	rates     map[string]time.Time // by model: when all that was asked has been paid for
}

var (
	_ host.Quota     = (*Quotas)(nil)
	_ host.TimeQuota = (*Quotas)(nil)

	_ host.AdmittingQuota = (*Quotas)(nil)
)

// New returns quotas with empty books. Code invalid_argument for a negative
// number.
func New(opts *Options) (*Quotas, error) {
	if opts == nil {
		opts = &Options{}
	}
	q := &Quotas{standard: opts.Default.withDefaults(), budgets: map[string]Budget{}, accounts: map[string]*account{}}
	if err := opts.Default.check(""); err != nil {
		return nil, err
	}
	for tenant, b := range opts.Tenants {
		if err := q.Set(tenant, b); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Set gives a tenant a budget of its own, from now on: its usage in this window
// stays. Code invalid_argument for a negative number.
func (q *Quotas) Set(tenant string, b Budget) error {
	if err := b.check(tenant); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.budgets[tenant] = b.withDefaults()
	return nil
}

// Used is a tenant's usage in the present window.
type Used struct {
	Tokens    int64
	ToolCalls int64
	Time      time.Duration
	Ends      time.Time // of the window; zero if none is open
}

// Used returns a tenant's usage.
func (q *Quotas) Used(tenant string) Used {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.accounts[tenant]
	if a == nil || !time.Now().Before(a.ends) {
		return Used{}
	}
	return Used{Tokens: a.tokens, ToolCalls: a.toolCalls, Time: a.time, Ends: a.ends}
}

// AdmitRun implements host.AdmittingQuota: it fails when the tenant's tokens or its
// time are used up, or when the model has been asked so often that a call would have
// to wait for more than MaxWait. Tool calls that are used up refuse no run, for not
// every run calls a tool.
func (q *Quotas) AdmitRun(_ context.Context, tenant, model string) error {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	a, b := q.accounts[tenant], q.budget(tenant)
	if a == nil && len(q.accounts) >= maxAccounts {
		a = q.accounts[others]
	}
	if a == nil {
		return nil
	}
	if now.Before(a.ends) {
		if err := a.left(b, now); err != nil {
			return err
		}
	}
	if wait := a.wait(model, b, now); model != "" && wait > b.MaxWait {
		return tooOften(b, wait)
	}
	return nil
}

// left fails if the tokens or the time of a window that is open are used up.
func (a *account) left(b Budget, now time.Time) error {
	if a.tokens >= b.Tokens {
		return usedUp("Tokens", b.Tokens, b, a.ends.Sub(now))
	}
	if a.time >= b.Time {
		return usedUp("Time", b.Time, b, a.ends.Sub(now))
	}
	return nil
}

// wait returns how long a call of a model would have to wait; not more than 0 is
// not at all.
func (a *account) wait(model string, b Budget, now time.Time) time.Duration {
	paid := a.rates[model]
	if paid.Before(now) {
		paid = now
	}
	return paid.Add(b.each()).Sub(now) - time.Duration(b.Burst)*b.each()
}

// AskModel implements host.Quota: it fails when the tenant's tokens are used up,
// or when the model has been asked so often that it would have to wait for more
// than MaxWait.
func (q *Quotas) AskModel(ctx context.Context, tenant, model string) (time.Duration, error) {
	wait, err := q.reserve(tenant, model)
	if wait <= 0 || err != nil {
		return 0, err
	}
	began := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return wait, nil
	case <-ctx.Done():
		q.giveBack(tenant, model)
		return time.Since(began), fault.AsError(fault.ContextError(ctx))
	}
}

// reserve takes a turn at a model and returns how long it is until then.
func (q *Quotas) reserve(tenant, model string) (time.Duration, error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	a, b := q.open(tenant, now)
	if err := a.left(b, now); err != nil {
		return 0, err
	}
	if _, known := a.rates[model]; !known && len(a.rates) >= maxModels {
		a.forget(now)
		if len(a.rates) >= maxModels {
			model = others
		}
	}
	wait := a.wait(model, b, now)
	if wait > b.MaxWait {
		return 0, tooOften(b, wait)
	}
	a.rates[model] = now.Add(wait + time.Duration(b.Burst)*b.each())
	return max(wait, 0), nil
}

// each is the time between two calls of a model.
func (b Budget) each() time.Duration { return max(time.Minute/time.Duration(b.ModelCalls), 1) }

// giveBack returns a reservation whose caller has given up. Callers already
// waiting keep their waits; only later callers wait less.
func (q *Quotas) giveBack(tenant, model string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, b := q.open(tenant, time.Now())
	if _, known := a.rates[model]; !known {
		model = others
	}
	a.rates[model] = a.rates[model].Add(-b.each())
}

// UseTokens implements host.Quota.
func (q *Quotas) UseTokens(tenant string, tokens int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, _ := q.open(tenant, time.Now())
	a.tokens += int64(max(tokens, 0))
}

// UseTime implements host.TimeQuota.
func (q *Quotas) UseTime(tenant string, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, _ := q.open(tenant, time.Now())
	a.time += max(d, 0)
}

// CallTools implements host.Quota: it books the calls, or fails and books
// nothing.
func (q *Quotas) CallTools(_ context.Context, tenant string, n int) error {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	a, b := q.open(tenant, now)
	if a.toolCalls+int64(n) > b.ToolCalls {
		return usedUp("ToolCalls", b.ToolCalls, b, a.ends.Sub(now))
	}
	if a.time >= b.Time {
		return usedUp("Time", b.Time, b, a.ends.Sub(now))
	}
	a.toolCalls += int64(n)
	return nil
}

// budget returns the budget of a tenant. q.mu is held.
func (q *Quotas) budget(tenant string) Budget {
	if b, ok := q.budgets[tenant]; ok {
		return b
	}
	return q.standard
}

// open returns a tenant's account, with a window that is open, and its budget.
// q.mu is held.
func (q *Quotas) open(tenant string, now time.Time) (*account, Budget) {
	b := q.budget(tenant)
	a := q.accounts[tenant]
	if a == nil && len(q.accounts) >= maxAccounts {
		if q.sweep(now); len(q.accounts) >= maxAccounts {
			tenant = others
			a = q.accounts[others]
		}
	}
	if a == nil {
		a = &account{rates: map[string]time.Time{}}
		q.accounts[tenant] = a
	}
	if !now.Before(a.ends) {
		a.ends, a.tokens, a.toolCalls, a.time = now.Add(b.Window), 0, 0, 0
	}
	return a, b
}

// sweep forgets accounts with nothing in them. q.mu is held.
func (q *Quotas) sweep(now time.Time) {
	if now.Before(q.swept.Add(sweepEvery)) {
		return
	}
	q.swept = now
	for tenant, a := range q.accounts {
		if a.forget(now); !now.Before(a.ends) && len(a.rates) == 0 {
			delete(q.accounts, tenant)
		}
	}
}

// forget drops the rates of models that owe nothing.
func (a *account) forget(now time.Time) {
	for model, paid := range a.rates {
		if !now.Before(paid) {
			delete(a.rates, model)
		}
	}
}

func usedUp[N int64 | time.Duration](name string, limit N, b Budget, refill time.Duration) error {
	return &host.Error{Code: host.ResourceExhausted, Retryable: true, Limit: name, RetryAfter: max(refill, 1),
		Message: fmt.Sprintf("the tenant's budget %s of %v in %s is used up", name, limit, b.Window),
		Hint:    fmt.Sprintf("it is refilled in %s", refill.Round(time.Millisecond))}
}

func tooOften(b Budget, wait time.Duration) error {
	return &host.Error{Code: host.ResourceExhausted, Retryable: true, Limit: "ModelCalls", RetryAfter: wait - b.MaxWait,
		Message: fmt.Sprintf("the tenant asks the model more often than its budget ModelCalls of %d a minute", b.ModelCalls),
		Hint:    fmt.Sprintf("try again in %s", (wait - b.MaxWait).Round(time.Millisecond))}
}
