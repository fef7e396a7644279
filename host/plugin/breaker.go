package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The defaults of [Guard].
const (
	defaultFaultWindow   = time.Minute
	defaultFaultMinCalls = 20
	defaultFaultRate     = 0.5
	defaultFaultsInARow  = 5
	defaultProbation     = 10 * time.Minute
	defaultBackOff       = time.Second
	defaultMaxBackOff    = 5 * time.Minute
	maxWatchedTenants    = 1024 // of one version; the calls of more are not judged
)

// Guard says when a plugin is no longer called, and when a new version of it is
// rolled back. A zero field is its default.
//
// Only a plugin's own faults count: a trap, a limit that its call breaks, output
// that breaks the ABI. An error object is an answer, and a
// caller that leaves, a call that found no free instance or that a tenant's
// budget stopped says nothing.
//
// Calls are judged by tenant, because a tenant may be able to make a plugin
// fail: when its calls fail, those of other tenants still run. A tenant whose
// calls fail FaultsInARow times, or at a rate of FaultRate in a Window of at
// least MinCalls calls, is answered with code unavailable for BackOff, doubled
// each time up to MaxBackOff; then one call runs, and if it succeeds, so do the
// rest.
//
// A version that is in its Probation and has come to that for more than half of
// the tenants that call it is rolled back to the one before it, if that is kept.
type Guard struct {
	Window       time.Duration // (1 min)
	MinCalls     int           // (20)
	FaultRate    float64       // faults by calls (0.5)
	FaultsInARow int           // (5)
	Probation    time.Duration // from when it is published (10 min)
	BackOff      time.Duration // (1 s)
	MaxBackOff   time.Duration // (5 min)
}

func (g Guard) withDefaults() (Guard, error) {
	if g.Window < 0 || g.MinCalls < 0 || g.FaultRate < 0 || g.FaultRate > 1 || g.FaultsInARow < 0 || g.Probation < 0 || g.BackOff < 0 || g.MaxBackOff < 0 {
		return g, host.Errorf(host.InvalidArgument, "a plugin's guard has a negative field, or a FaultRate above 1").WithHint("leave it out for the default")
	}
	orDefault(&g.Window, defaultFaultWindow)
	orDefault(&g.MinCalls, defaultFaultMinCalls)
	orDefault(&g.FaultRate, defaultFaultRate)
	orDefault(&g.FaultsInARow, defaultFaultsInARow)
	orDefault(&g.Probation, defaultProbation)
	orDefault(&g.BackOff, defaultBackOff)
	orDefault(&g.MaxBackOff, defaultMaxBackOff)
	g.MaxBackOff = max(g.MaxBackOff, g.BackOff)
	return g, nil
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// verdict is the judgement of a plugin by one call.
type verdict int

const (
	verdictNone  verdict = iota // nothing
	verdictFine                 // it answered, if only with an error object
	verdictFault                // it failed
)

// judge tells whose fault an error is.
func judge(ctx context.Context, err error) verdict {
	var guest *GuestError
	var blameless *notAtFault
	var budget *BudgetError
	switch {
	case err == nil, errors.As(err, &guest):
		return verdictFine
	case ctx.Err() != nil, errors.As(err, &blameless), errors.As(err, &budget):
		return verdictNone
	}
	switch host.CodeOf(err) {
	case host.Internal, host.ResourceExhausted, host.DeadlineExceeded, host.DataLoss:
		return verdictFault
	case host.PermissionDenied:
		return verdictFine
	}
	return verdictNone
}

// notAtFault is an error that looks like a plugin's and is not.
type notAtFault struct{ error }

func (e *notAtFault) Unwrap() error { return e.error }

// blameless marks an error that is no fault of the plugin.
func blameless(err error) error {
	if err == nil {
		return nil
	}
	return &notAtFault{err}
}

// OpenError says that a plugin is not called for a while because its calls
// failed. Its code is unavailable.
type OpenError struct {
	Plugin string
	Retry  time.Time // when it is tried again
	err    *host.Error
}

// Error says for how long, and why.
func (e *OpenError) Error() string { return e.err.Error() }

// Unwrap returns the error as a [*host.Error].
func (e *OpenError) Unwrap() error { return e.err }

// OpenState tells of a tenant whose calls a plugin is not given.
type OpenState struct {
	Tenant string    `json:"tenant"`
	Retry  time.Time `json:"retry"` // when one call is let through
	Error  string    `json:"error"` // of the last call that failed
}

// health judges the calls of one version.
type health struct {
	guard    *Guard
	proving  atomic.Bool  // it is in its probation, and may be rolled back
	troubled atomic.Int32 // tenants whose last calls failed

	mu        sync.Mutex
	probation time.Time // until when
	tenants   map[string]*tenantHealth
}

// tenantHealth judges the calls of one tenant. It is kept while calls fail and,
// in the probation, for every tenant that calls.
type tenantHealth struct {
	window  time.Time // since when calls and faults are counted
	calls   int
	faults  int
	inARow  int
	last    error // of the last fault; nil if there is no trouble
	retry   time.Time
	backOff time.Duration // zero while calls are let through
	probing bool
}

// newHealth begins to judge a version that is published at a time; the zero time
// is one that is not to be rolled back.
func newHealth(g *Guard, published time.Time) *health {
	h := &health{guard: g, tenants: map[string]*tenantHealth{}}
	if !published.IsZero() {
		h.probation = published.Add(g.Probation)
		h.proving.Store(true)
	}
	return h
}

// admit reports whether a tenant's call may run. probe marks the call whose result
// decides about the others. An admitted caller must call settle.
func (h *health) admit(plugin, tenant string) (probe bool, err error) {
	if h.troubled.Load() == 0 {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tenants[tenant]
	if t == nil || t.backOff == 0 {
		return false, nil
	}
	if now := time.Now(); t.probing || now.Before(t.retry) {
		return false, t.openError(plugin, now)
	}
	t.probing = true
	return true, nil
}

func (t *tenantHealth) openError(plugin string, now time.Time) error {
	wait := t.retry.Sub(now).Round(time.Millisecond)
	when := fmt.Sprintf("for another %s", wait)
	if t.probing {
		when = "until a first call has succeeded"
	}
	err := host.Errorf(host.Unavailable, "plugin %q is not called %s: its calls failed, the last so: %v", plugin, when, t.last)
	return &OpenError{Plugin: plugin, Retry: t.retry, err: err}
}

// settle counts a call that was admitted. It reports whether the version is to
// be rolled back.
func (h *health) settle(tenant string, probe bool, v verdict, err error) (rollback bool) {
	if v == verdictFine && !probe && !h.proving.Load() && h.troubled.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.proving.Load() && now.After(h.probation) {
		h.endProbation()
	}
	t := h.tenants[tenant]
	if t == nil {
		if t = h.watch(tenant, v, now); t == nil {
			return false
		}
	}
	if probe {
		t.probing = false
	}
	switch v {
	case verdictFine:
		h.fine(tenant, t, probe, now)
	case verdictFault:
		return h.fault(t, probe, now, err) && h.failing(now)
	}
	return false
}

// watch begins to judge a tenant, if there is reason and room to.
func (h *health) watch(tenant string, v verdict, now time.Time) *tenantHealth {
	if v == verdictNone || v == verdictFine && !h.proving.Load() {
		return nil
	}
	if len(h.tenants) >= maxWatchedTenants {
		h.forgetOld(now)
	}
	if len(h.tenants) >= maxWatchedTenants {
		return nil
	}
	t := &tenantHealth{window: now}
	h.tenants[tenant] = t
	return t
}

// forgetOld makes room: tenants that have not called in their window, or not since
// they could have been let through again.
func (h *health) forgetOld(now time.Time) {
	for name, t := range h.tenants {
		if !t.probing && now.Sub(t.window) > h.guard.Window && (t.backOff == 0 || now.Sub(t.retry) > h.guard.MaxBackOff) {
			h.forget(name, t)
		}
	}
}

func (h *health) forget(name string, t *tenantHealth) {
	delete(h.tenants, name)
	if t.last != nil {
		h.troubled.Add(-1)
	}
}

// endProbation keeps the tenants that have trouble.
func (h *health) endProbation() {
	h.proving.Store(false)
	for name, t := range h.tenants {
		if t.last == nil {
			h.forget(name, t)
		}
	}
}

// count adds a call to the window, or begins the next.
func (t *tenantHealth) count(window time.Duration, now time.Time) {
	if now.Sub(t.window) > window {
		t.window, t.calls, t.faults = now, 0, 0
	}
	t.calls++
}

func (h *health) fine(name string, t *tenantHealth, probe bool, now time.Time) {
	t.count(h.guard.Window, now)
	if t.backOff > 0 && !probe {
		return // it began before the trouble
	}
	t.inARow = 0
	if probe {
		t.backOff, t.faults, t.calls = 0, 0, 0
	}
	if t.last != nil && t.faults == 0 { // in this window
		t.last = nil
		h.troubled.Add(-1)
		if !h.proving.Load() {
			delete(h.tenants, name)
		}
	}
}

// fault counts a failure and reports whether the tenant's calls are now
// refused.
func (h *health) fault(t *tenantHealth, probe bool, now time.Time, err error) bool {
	t.count(h.guard.Window, now)
	t.faults++
	t.inARow++
	if t.last == nil {
		h.troubled.Add(1)
	}
	t.last = err
	switch {
	case probe:
		t.backOff = min(2*t.backOff, h.guard.MaxBackOff)
	case t.backOff > 0:
		return false // it began before
	case t.inARow >= h.guard.FaultsInARow, t.calls >= h.guard.MinCalls && float64(t.faults) >= h.guard.FaultRate*float64(t.calls):
		t.backOff = h.guard.BackOff
	default:
		return false
	}
	t.retry = now.Add(t.backOff)
	return true
}

// failing reports whether a version in its probation is refused to more than half of
// the tenants that have called it lately.
func (h *health) failing(now time.Time) bool {
	if !h.proving.Load() {
		return false
	}
	refused, all := 0, 0
	for _, t := range h.tenants {
		if t.backOff > 0 {
			refused++
		}
		if t.backOff > 0 || now.Sub(t.window) <= h.guard.Window {
			all++
		}
	}
	return 2*refused > all
}

// open returns the tenants whose calls are refused.
func (h *health) open() []OpenState {
	if h.troubled.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []OpenState
	for name, t := range h.tenants {
		if t.backOff > 0 {
			list = append(list, OpenState{Tenant: name, Retry: t.retry, Error: t.last.Error()})
		}
	}
	slices.SortFunc(list, func(a, b OpenState) int { return strings.Compare(a.Tenant, b.Tenant) })
	return list
}

var _ error = (*OpenError)(nil)
