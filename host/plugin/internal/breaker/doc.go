// Package breaker decides whether a version of a plugin is called. In goes the verdict on
// each call of a tenant; out comes whether the tenant's next call may run, and whether
// the version is to be rolled back.
//
// It promises that the calls of one tenant close the breaker for that tenant alone, that
// one call at a time probes a tenant whose back-off has ended, that the memory of a
// [Breaker] is bounded, and that a healthy version costs its calls one atomic load. It
// knows no plugin, no engine, and not why a call failed.
package breaker
