package plugin

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// The defaults of [Budget].
const (
	defaultBudgetWindow       = time.Minute
	defaultBudgetInstructions = 500_000_000_000
	defaultBudgetHostCalls    = 20_000_000
	defaultBudgetHTTPRequests = 6_000
	defaultBudgetModelTokens  = 1_000_000
)

// Budget bounds what a tenant's plugins may use together in a window of time,
// which begins with the first use after the last window. A zero field is its
// default; nothing is unlimited. Use beyond the budget fails with an error of code
// resource_exhausted that is retryable and holds a [*BudgetError].
//
// A call is stopped when the budget is used up, so a tenant can exceed it by the work
// of its running calls between two fuel checks, some 100,000 instructions each; that
// counts in the same window.
type Budget struct {
	Window       time.Duration // (1 minute)
	Instructions int64         // WebAssembly instructions, starting instances included (500,000,000,000)
	HostCalls    int64         // host operations (20,000,000)
	HTTPRequests int64         // (6,000)
	ModelTokens  int64         // of input and output (1,000,000)
}

func (b Budget) withDefaults() Budget {
	if b.Window == 0 {
		b.Window = defaultBudgetWindow
	}
	for _, f := range []struct {
		v *int64
		d int64
	}{
		{&b.Instructions, defaultBudgetInstructions}, {&b.HostCalls, defaultBudgetHostCalls},
		{&b.HTTPRequests, defaultBudgetHTTPRequests}, {&b.ModelTokens, defaultBudgetModelTokens},
	} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	return b
}

func (b Budget) check() error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"Window", int64(b.Window)}, {"Instructions", b.Instructions}, {"HostCalls", b.HostCalls},
		{"HTTPRequests", b.HTTPRequests}, {"ModelTokens", b.ModelTokens},
	} {
		if f.v < 0 {
			return host.Errorf(host.InvalidArgument, "the budget %s is %d", f.name, f.v).WithHint("leave it out for the default")
		}
	}
	return nil
}

// resource is one thing that a budget bounds.
type resource int

const (
	instructions resource = iota
	hostCalls
	httpRequests
	modelTokens
	resourceCount
)

var resourceNames = [resourceCount]string{"Instructions", "HostCalls", "HTTPRequests", "ModelTokens"}

func (r resource) String() string { return resourceNames[r] }

func (b *Budget) of(r resource) int64 {
	return [resourceCount]int64{b.Instructions, b.HostCalls, b.HTTPRequests, b.ModelTokens}[r]
}

// BudgetError says which budget of a tenant is used up, and for how long.
type BudgetError struct {
	Tenant string
	Budget string // the field of [Budget]
	Limit  int64
	Window time.Duration
	Refill time.Duration // until the next window begins
}

// Error names the budget, and when it is refilled.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the tenant's budget %s of %d in %s is used up", e.Budget, e.Limit, e.Window)
}

func budgetExhausted(e *BudgetError) error {
	return fault.Disclose(&host.Error{Code: host.ResourceExhausted, Message: e.Error(), Retryable: true, Err: e,
		Hint: fmt.Sprintf("it is refilled in %s", e.Refill.Round(time.Millisecond))})
}

var _ error = (*BudgetError)(nil)

// account holds one tenant's settings, bindings and usage. It is safe for concurrent use.
type account struct {
	id       string
	tenants  *tenants
	own      atomic.Pointer[Tenant] // nil: tenants.any
	bindings atomic.Int64           // at plugins

	mu    sync.Mutex
	ends  time.Time // of the window
	spent [resourceCount]int64
	used  map[string]*usage // by plugin id
}

// charge takes n of a resource. It fails if more than the budget is used then, by
// that or before; n counts all the same, since it has been used.
func (a *account) charge(r resource, n int64) error {
	return a.take(r, n, false, time.Now())
}

// reserve is charge before the use: if n does not fit the budget, reserve takes
// nothing.
func (a *account) reserve(r resource, n int64) error {
	return a.take(r, n, true, time.Now())
}

// take is charge, or reserve if it takes the whole or nothing.
func (a *account) take(r resource, n int64, whole bool, now time.Time) error {
	budget := &a.settings().Budget
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(budget, now)
	limit := budget.of(r)
	if whole && n > limit-a.spent[r] {
		return a.exhausted(r, budget, now)
	}
	if a.spent[r] = max(0, a.spent[r]+n); a.spent[r] > limit {
		return a.exhausted(r, budget, now)
	}
	return nil
}

// open fails if a call could not run a single instruction. Like take it is given
// the time, which a caller knows that has just looked: a look at the clock takes as
// long as the rest of it.
func (a *account) open(now time.Time) error {
	budget := &a.settings().Budget
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(budget, now)
	if a.spent[instructions] >= budget.Instructions {
		return a.exhausted(instructions, budget, now)
	}
	return nil
}

// turn begins a new window if the last one is over, or longer than windows are
// now. The mutex is held.
func (a *account) turn(budget *Budget, now time.Time) {
	if now.Before(a.ends) && a.ends.Sub(now) <= budget.Window {
		return
	}
	a.ends, a.spent = now.Add(budget.Window), [resourceCount]int64{}
}

func (a *account) exhausted(r resource, budget *Budget, now time.Time) error {
	return budgetExhausted(&BudgetError{Tenant: a.id, Budget: r.String(), Limit: budget.of(r), Window: budget.Window, Refill: a.ends.Sub(now)})
}

// forgettable reports whether a new account would do as well.
func (a *account) forgettable() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own.Load() == nil && a.bindings.Load() == 0 && !time.Now().Before(a.ends)
}

// BudgetUse is a tenant's usage in the present window.
type BudgetUse struct {
	Spent  Budget        // Window is how long windows are
	Limit  Budget        // the same of the tenant's budget
	Refill time.Duration // until the next window begins; 0 if none has begun
}

// BudgetUse returns the used part of a tenant's budget. It lacks the usage of calls in
// progress since their last fuel check.
func (rt *Runtime) BudgetUse(tenant string) BudgetUse {
	rt.tenants.mu.Lock()
	a := rt.tenants.accounts[tenant]
	rt.tenants.mu.Unlock()
	if a == nil {
		limit := rt.tenants.any.Budget
		return BudgetUse{Limit: limit, Spent: Budget{Window: limit.Window}}
	}
	limit, now := a.settings().Budget, time.Now()
	use := BudgetUse{Limit: limit, Spent: Budget{Window: limit.Window}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.ends) {
		use.Refill = a.ends.Sub(now)
		use.Spent.Instructions, use.Spent.HostCalls = a.spent[instructions], a.spent[hostCalls]
		use.Spent.HTTPRequests, use.Spent.ModelTokens = a.spent[httpRequests], a.spent[modelTokens]
	}
	return use
}

// ChargeInstructions is charge for the meter of a call, which knows the time.
func (a *account) ChargeInstructions(n int64, now time.Time) error {
	return a.take(instructions, n, false, now)
}

var _ callmeter.Account = (*account)(nil)
