package plugin

import (
	"errors"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/usage"
)

// budget is a plan's limits by resource.
type budget map[usage.Resource]int64

// plan returns the plan of a budget in windows of a length; 0 is the default.
func (b budget) plan(window time.Duration) *usage.Plan {
	p := &usage.Plan{}
	if window > 0 {
		p.Window = usage.Every(window)
	}
	for r, n := range b {
		p.Limits = append(p.Limits, usage.Limit{Resource: r, Amount: n})
	}
	return p
}

// newLedger returns a ledger with a plan for every tenant without one.
func newLedger(t testing.TB, anyTenant *usage.Plan) *usage.Ledger {
	t.Helper()
	l, err := usage.New(nil, &usage.Options{Default: *anyTenant, FlushInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return l
}

// setBudget gives a tenant a plan.
func setBudget(t testing.TB, rt *Runtime, tenant string, b budget) {
	t.Helper()
	if err := rt.Ledger().SetPlan(tenant, b.plan(0)); err != nil {
		t.Fatal(err)
	}
}

// spentBy returns what a tenant has used of a resource in the present window.
func spentBy(t testing.TB, rt *Runtime, tenant string, r usage.Resource) int64 {
	t.Helper()
	used, err := rt.Ledger().Used(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return usage.SpentOf(used, r)
}

// unlimited is a budget that no test uses up: a budget is a case of its own.
var unlimited = budget{usage.Instructions: 1 << 60, usage.HostCalls: 1 << 60}

// usedUp returns the limit in err that is used up, or nil.
func usedUp(err error) *usage.ExhaustedError {
	var used *usage.ExhaustedError
	errors.As(err, &used)
	return used
}
