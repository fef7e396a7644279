package breaker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Options are the thresholds of a breaker. A zero field is its default.
type Options struct {
	Window       time.Duration // in which calls and faults are counted (1 min)
	MinCalls     int           // in a window, before FaultRate counts (20)
	FaultRate    float64       // faults by calls at which a tenant's calls are refused (0.5)
	FaultsInARow int           // at which they are refused (5)
	Probation    time.Duration // from when a version is published: how long it may be rolled back (10 min)
	BackOff      time.Duration // for which calls are refused first (1 s)
	MaxBackOff   time.Duration // to which that is doubled (5 min)
}

// maxTenants bounds the tenants of one version whose calls are judged.
const maxTenants = 1024

// WithDefaults fills in the defaults. Code invalid_argument for a negative field, or a
// FaultRate above 1.
func (o Options) WithDefaults() (Options, error) {
	if o.Window < 0 || o.MinCalls < 0 || o.FaultRate < 0 || o.FaultRate > 1 || o.FaultsInARow < 0 || o.Probation < 0 || o.BackOff < 0 || o.MaxBackOff < 0 {
		return o, fault.Errorf(fault.InvalidArgument, "a plugin's guard has a negative field, or a FaultRate above 1").WithHint("leave it out for the default")
	}
	o.Window = cmp.Or(o.Window, time.Minute)
	o.MinCalls = cmp.Or(o.MinCalls, 20)
	o.FaultRate = cmp.Or(o.FaultRate, 0.5)
	o.FaultsInARow = cmp.Or(o.FaultsInARow, 5)
	o.Probation = cmp.Or(o.Probation, 10*time.Minute)
	o.BackOff = cmp.Or(o.BackOff, time.Second)
	o.MaxBackOff = max(cmp.Or(o.MaxBackOff, 5*time.Minute), o.BackOff)
	return o, nil
}

// Verdict is the judgement of a version by one call.
type Verdict int

// The verdicts.
const (
	None    Verdict = iota // the call says nothing
	Success                // it answered, if only with an error object
	Fault                  // it failed
)

// OpenError says that a plugin is not called for a while because its calls
// failed. Its code is unavailable.
type OpenError struct {
	Plugin string
	Retry  time.Time // when it is tried again
	err    *fault.Error
}

// Error says for how long, and why.
func (e *OpenError) Error() string { return e.err.Error() }

// Unwrap returns the error as a [*fault.Error].
func (e *OpenError) Unwrap() error { return e.err }

// OpenState describes a tenant whose calls a plugin does not receive.
type OpenState struct {
	Tenant string    `json:"tenant"`
	Retry  time.Time `json:"retry"` // when one call is let through
	Error  string    `json:"error"` // of the last call that failed
}

// Breaker judges the calls of one version. It is safe for concurrent use.
type Breaker struct {
	opts     *Options
	proving  atomic.Bool  // it is in its probation, and may be rolled back
	troubled atomic.Int32 // tenants whose last calls failed

	mu        sync.Mutex
	probation time.Time // until when
	tenants   map[string]*tenant
}

// tenant counts the calls of one tenant. It is kept while calls fail and, in the
// probation, for every tenant that calls.
type tenant struct {
	window  time.Time // since when calls and faults are counted
	calls   int
	faults  int
	inARow  int
	last    error // of the last fault; nil if there is no trouble
	retry   time.Time
	backOff time.Duration // zero while calls are let through
	probing bool
}

// New returns a breaker for a version that is published at a time; the zero time
// is a version that is not to be rolled back. opts have their defaults, and do not change.
func New(opts *Options, published time.Time) *Breaker {
	b := &Breaker{opts: opts, tenants: map[string]*tenant{}}
	if !published.IsZero() {
		b.probation = published.Add(opts.Probation)
		b.proving.Store(true)
	}
	return b
}

// Admit reports whether a tenant's call of a plugin may run; the error is an
// [*OpenError]. probe marks the call whose result decides about the others. The caller
// of an admitted call must call Settle.
func (b *Breaker) Admit(plugin, name string) (probe bool, err error) {
	if b.troubled.Load() == 0 {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tenants[name]
	if t == nil || t.backOff == 0 {
		return false, nil
	}
	if now := time.Now(); t.probing || now.Before(t.retry) {
		return false, t.openError(plugin, now)
	}
	t.probing = true
	return true, nil
}

func (t *tenant) openError(plugin string, now time.Time) error {
	wait := t.retry.Sub(now).Round(time.Millisecond)
	when := fmt.Sprintf("for another %s", wait)
	if t.probing {
		when = "until a first call has succeeded"
	}
	err := fault.Errorf(fault.Unavailable, "plugin %q is not called %s: its calls failed, the last so: %v", plugin, when, t.last)
	return &OpenError{Plugin: plugin, Retry: t.retry, err: err}
}

// Settle counts a call that was admitted, with its error if the verdict is Fault. It
// reports whether the version is to be rolled back.
func (b *Breaker) Settle(name string, probe bool, v Verdict, err error) (rollback bool) {
	if v == Success && !probe && !b.proving.Load() && b.troubled.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.proving.Load() && now.After(b.probation) {
		b.endProbation()
	}
	t := b.tenants[name]
	if t == nil {
		if t = b.watch(name, v, now); t == nil {
			return false
		}
	}
	if probe {
		t.probing = false
	}
	switch v {
	case Success:
		b.succeed(name, t, probe, now)
	case Fault:
		return b.fail(t, probe, now, err) && b.failing(now)
	}
	return false
}

// watch begins to judge a tenant, if there is reason and room to.
func (b *Breaker) watch(name string, v Verdict, now time.Time) *tenant {
	if v == None || v == Success && !b.proving.Load() {
		return nil
	}
	if len(b.tenants) >= maxTenants {
		b.forgetOld(now)
	}
	if len(b.tenants) >= maxTenants {
		return nil
	}
	t := &tenant{window: now}
	b.tenants[name] = t
	return t
}

// forgetOld makes room: tenants that have not called in their window, or not since
// they could have been let through again.
func (b *Breaker) forgetOld(now time.Time) {
	for name, t := range b.tenants {
		if !t.probing && now.Sub(t.window) > b.opts.Window && (t.backOff == 0 || now.Sub(t.retry) > b.opts.MaxBackOff) {
			b.forget(name, t)
		}
	}
}

func (b *Breaker) forget(name string, t *tenant) {
	delete(b.tenants, name)
	if t.last != nil {
		b.troubled.Add(-1)
	}
}

// endProbation keeps the tenants that have trouble.
func (b *Breaker) endProbation() {
	b.proving.Store(false)
	for name, t := range b.tenants {
		if t.last == nil {
			b.forget(name, t)
		}
	}
}

// count adds a call to the window, or begins the next.
func (t *tenant) count(window time.Duration, now time.Time) {
	if now.Sub(t.window) > window {
		t.window, t.calls, t.faults = now, 0, 0
	}
	t.calls++
}

// succeed counts a success.
func (b *Breaker) succeed(name string, t *tenant, probe bool, now time.Time) {
	t.count(b.opts.Window, now)
	if t.backOff > 0 && !probe {
		return // it began before the trouble
	}
	t.inARow = 0
	if probe {
		t.backOff, t.faults, t.calls = 0, 0, 0
	}
	if t.last != nil && t.faults == 0 { // in this window
		t.last = nil
		b.troubled.Add(-1)
		if !b.proving.Load() {
			delete(b.tenants, name)
		}
	}
}

// fail counts a fault and reports whether the tenant's calls are now
// refused.
func (b *Breaker) fail(t *tenant, probe bool, now time.Time, err error) bool {
	t.count(b.opts.Window, now)
	t.faults++
	t.inARow++
	if t.last == nil {
		b.troubled.Add(1)
	}
	t.last = err
	switch {
	case probe:
		t.backOff = min(2*t.backOff, b.opts.MaxBackOff)
	case t.backOff > 0:
		return false // it began before
	case t.inARow >= b.opts.FaultsInARow, t.calls >= b.opts.MinCalls && float64(t.faults) >= b.opts.FaultRate*float64(t.calls):
		t.backOff = b.opts.BackOff
	default:
		return false
	}
	t.retry = now.Add(t.backOff)
	return true
}

// failing reports whether a version in its probation is refused to more than half of
// the tenants that have called it lately.
func (b *Breaker) failing(now time.Time) bool {
	if !b.proving.Load() {
		return false
	}
	refused, all := 0, 0
	for _, t := range b.tenants {
		if t.backOff > 0 {
			refused++
		}
		if t.backOff > 0 || now.Sub(t.window) <= b.opts.Window {
			all++
		}
	}
	return 2*refused > all
}

// Open returns the tenants whose calls are refused, by name.
func (b *Breaker) Open() []OpenState {
	if b.troubled.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []OpenState
	for name, t := range b.tenants {
		if t.backOff > 0 {
			list = append(list, OpenState{Tenant: name, Retry: t.retry, Error: t.last.Error()})
		}
	}
	slices.SortFunc(list, func(x, y OpenState) int { return strings.Compare(x.Tenant, y.Tenant) })
	return list
}

var _ error = (*OpenError)(nil)
