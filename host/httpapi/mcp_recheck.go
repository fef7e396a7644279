package httpapi

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/keys"
)

// recheckTimeout bounds the wait for a store or an issuer that verifies a credential again.
const recheckTimeout = 10 * time.Second

// mcpScopes returns the scopes that requests of the protocol need: of tools and prompts, and
// of resources.
func mcpScopes() []string { return []string{WriteRuns, ReadThreads} }

// credentialWatch verifies the credential of a request that lasts again and again.
type credentialWatch struct {
	call   *call
	every  time.Duration
	outage time.Duration // for which the credential need not be verified
	end    func()        // ends the request

	mu       sync.Mutex
	stopped  bool
	timer    *time.Timer
	verified time.Time // when the credential was last found valid
}

// recheck calls end when the credential of a call is not valid any more, until stop is
// called.
func (h *mcpHandlers) recheck(c *call, end func()) (stop func()) {
	w := &credentialWatch{call: c, every: cmp.Or(h.mcp.Recheck, DefaultRecheck), outage: cmp.Or(h.mcp.RecheckOutage, DefaultRecheckOutage), end: end, verified: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.every, w.verify)
	return w.stop
}

func (w *credentialWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// verify verifies the credential once, and sets the time of the next.
func (w *credentialWatch) verify() {
	ctx, cancel := context.WithTimeout(w.call.ctx, recheckTimeout)
	defer cancel()
	now, err := w.call.api.authenticate(w.call.r.WithContext(ctx))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return
	case err == nil && stillServes(now, w.call.principal):
		w.verified = time.Now()
	case err == nil || isRefusal(err) || w.expired() || time.Since(w.verified) > w.outage:
		w.end()
		return
	}
	w.timer.Reset(w.every)
}

// isRefusal reports whether an error says that a credential is not valid, and not that this
// is not known.
func isRefusal(err error) bool {
	code := host.CodeOf(err)
	return code == host.Unauthenticated || code == host.PermissionDenied
}

// expired reports whether the credential has come to the end that was known of it.
func (w *credentialWatch) expired() bool {
	end := w.call.principal.Expires
	return !end.IsZero() && time.Now().After(end)
}

// stillServes reports whether a credential reaches all that it reached before.
func stillServes(now, before *keys.Principal) bool {
	if now == nil || now.Tenant != before.Tenant || now.Thread != before.Thread {
		return false
	}
	return !slices.ContainsFunc(mcpScopes(), func(scope string) bool { return before.Has(scope) && !now.Has(scope) })
}
