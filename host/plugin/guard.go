package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/breaker"
	"github.com/agenthost/agenthost/host/usage"
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

// withDefaults returns the guard as the thresholds of a breaker.
func (g Guard) withDefaults() (breaker.Options, error) { return breaker.Options(g).WithDefaults() }

// OpenError says that a plugin is not called for a while because its calls
// failed: the plugin's id in Plugin, the time of the next try in Retry. Its code is
// unavailable.
type OpenError = breaker.OpenError

// OpenState describes a tenant whose calls a plugin does not receive: its name, when one
// call is let through, and the error of the last call that failed.
type OpenState = breaker.OpenState

// judge tells whose fault an error is.
func judge(ctx context.Context, err error) breaker.Verdict {
	var guest *GuestError
	var blameless *notAtFault
	var budget *usage.ExhaustedError
	switch {
	case err == nil, errors.As(err, &guest):
		return breaker.Success
	case ctx.Err() != nil, errors.As(err, &blameless), errors.As(err, &budget):
		return breaker.None
	}
	switch host.CodeOf(err) {
	case host.Internal, host.ResourceExhausted, host.DeadlineExceeded, host.DataLoss:
		return breaker.Fault
	case host.PermissionDenied:
		return breaker.Success
	}
	return breaker.None
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
