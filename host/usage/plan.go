package usage

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The defaults of [Plan].
const (
	defaultWindow     = time.Minute
	defaultModelCalls = 6_000
	defaultBurst      = 100
	defaultMaxWait    = 10 * time.Second

	// maxLimits bounds the limits of a plan, defaults included.
	maxLimits = 64
)

// defaultAmounts are the limits of resources that a plan does not limit; 0 is none.
var defaultAmounts = [resourceCount]int64{
	Tokens: 10_000_000, ModelTokens: 1_000_000, ToolCalls: 100_000, Instructions: 500_000_000_000,
	HostCalls: 20_000_000, HTTPRequests: 6_000, Time: int64(24 * time.Hour),
}

// Limit bounds the use of one resource in a window. A resource may have limits in several
// windows; each of them holds.
type Limit struct {
	Resource Resource
	Amount   int64  // in the unit of the resource; 0 is the default of the resource
	Window   Window // the zero value is the plan's
}

// Plan bounds what a tenant uses. Its zero value has the default of each limit: in a
// minute 10,000,000 Tokens, 1,000,000 ModelTokens, 100,000 ToolCalls, 500,000,000,000
// Instructions, 20,000,000 HostCalls, 6,000 HTTPRequests and 24 hours of Time. ModelCalls
// and Money have no default limit; models have a rate.
type Plan struct {
	// Window is that of limits that have none of their own, the default ones included (1
	// minute, which begins with the first use).
	Window Window
	Limits []Limit

	// MaxOutput is how many tokens an answer has at most if the request has no number of
	// its own; 0 is that of the price table.
	MaxOutput int

	// Rate is how often each model may be asked in a minute, evenly spread but for Burst
	// calls at once (6,000, 100). It delays calls; each host has a rate of its own.
	Rate  int
	Burst int

	// MaxWait is how long a call may wait for its turn at a model; one that would have to
	// wait longer is refused at once (10 s). A negative one never waits.
	MaxWait time.Duration
}

// plan is a Plan with its defaults.
type plan struct {
	limits    []Limit
	maxOutput int
	rate      int
	burst     int
	maxWait   time.Duration
	money     bool // it has a limit of money
}

// Check returns an error of code invalid_argument if the plan makes no sense.
func (p *Plan) Check() error {
	_, err := p.compile()
	return err
}

// compile checks a plan and fills in its defaults.
func (p *Plan) compile() (*plan, error) {
	if p == nil {
		p = &Plan{}
	}
	for _, f := range []struct {
		name string
		v    int
	}{{"MaxOutput", p.MaxOutput}, {"Rate", p.Rate}, {"Burst", p.Burst}} {
		if f.v < 0 {
			return nil, invalid("%s of the plan is %d", f.name, f.v).WithHint("leave it out for the default")
		}
	}
	out := &plan{maxOutput: p.MaxOutput, rate: cmp.Or(p.Rate, defaultModelCalls), burst: cmp.Or(p.Burst, defaultBurst), maxWait: max(cmp.Or(p.MaxWait, defaultMaxWait), 0)}
	window := cmp.Or(p.Window, Every(defaultWindow))
	var limited [resourceCount]bool
	for _, l := range p.Limits {
		l, err := l.withDefaults(window)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out.limits, func(o Limit) bool { return o.Resource == l.Resource && o.Window == l.Window }) {
			return nil, invalid("the plan limits %s in %s twice", l.Resource, l.Window).WithHint("keep one of the two")
		}
		limited[l.Resource] = true
		out.money = out.money || l.Resource == Money
		out.limits = append(out.limits, l)
	}
	for r, amount := range defaultAmounts {
		if !limited[r] && amount > 0 {
			out.limits = append(out.limits, Limit{Resource: Resource(r), Amount: amount, Window: window})
		}
	}
	if len(out.limits) > maxLimits {
		return nil, invalid("the plan has %d limits, more than %d", len(out.limits), maxLimits)
	}
	return out, window.check()
}

func (l Limit) withDefaults(window Window) (Limit, error) {
	if l.Resource < 0 || l.Resource >= resourceCount {
		return l, invalid("a limit is of the unknown resource %d", int(l.Resource))
	}
	l.Window = cmp.Or(l.Window, window)
	l.Amount = cmp.Or(l.Amount, defaultAmounts[l.Resource])
	switch {
	case l.Amount < 0:
		return l, invalid("the budget %s is %d", l.Resource, l.Amount).WithHint("leave it out for the default")
	case l.Amount == 0:
		return l, invalid("the limit of %s has no amount, and there is no default", l.Resource)
	}
	return l, l.Window.check()
}

// id names a limit's window in the store. A changed amount is the same window.
func (l Limit) id() string { return fmt.Sprintf("%s/%s", l.Resource, l.Window) }

// block is how much of a limit a host leases at a time.
func (l Limit) block() int64 { return max(l.Amount/100, 1) }
