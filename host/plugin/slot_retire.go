package plugin

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/breaker"
)

// Rollback makes the version that served before serve again, and drops the one
// that serves. Code failed_precondition if none is kept.
func (s *Slot) Rollback(ctx context.Context) (VersionState, error) {
	if err := s.begin(ctx, false); err != nil {
		return VersionState{}, err
	}
	defer s.end()
	v := s.rollback(s.current.Load(), Replaced, nil)
	if v == nil {
		return VersionState{}, host.Errorf(host.FailedPrecondition, "plugin %q keeps no earlier version", s.id).WithHint("load one")
	}
	return s.revisions.stateOf(v), nil
}

// rollback replaces the version bad, if it still serves, by the one before it
// and returns that; nil without an earlier version.
func (s *Slot) rollback(bad *version, last Phase, why error) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad == nil || s.closed || s.current.Load() != bad {
		return nil
	}
	v := s.revisions.before(bad)
	if v == nil {
		return nil
	}
	v.phase, v.since = Serving, time.Now()
	v.breaker.Store(breaker.New(&s.guard, time.Time{}))
	v.refs.And(^retired)
	s.current.Store(v)
	logger := s.runtime.opts.Logger.With("plugin", s.id, "from", bad.number, "to", v.number)
	if why != nil {
		bad.err = fault.AsError(why)
		s.lastErr = bad.err
		logger.Warn("plugin is rolled back", "error", why)
	} else {
		logger.Info("plugin is rolled back, as somebody asked")
	}
	s.revisions.drop(bad, last)
	return v
}

// Unload stops serving: later calls fail with code unavailable, until a version
// is loaded with [Slot.Replace]. Every version is closed when its last call has
// ended; Unload waits for that as long as ctx does, and they are closed also if
// it does not.
func (s *Slot) Unload(ctx context.Context) error {
	if err := s.begin(ctx, false); err != nil {
		return err
	}
	dropped := s.dropAll()
	s.end() // another version may be loaded before the last call has ended
	for _, v := range dropped {
		select {
		case <-v.gone:
		case <-ctx.Done():
			return gone(ctx, "plugin %q is unloaded; waiting for its calls", s.id)
		}
	}
	return nil
}

// dropAll lets no new call in and returns the versions yet to be closed.
func (s *Slot) dropAll() []*version {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(nil)
	return s.revisions.dropAll()
}

// Close ends the slot: it waits for the calls and pins in progress and gives
// back the resources of every version. Its id is free again. It may be called twice.
func (s *Slot) Close() { s.shut(true) }

// shut is Close that may wait for calls only, and not for pins.
func (s *Slot) shut(waitForPins bool) {
	s.turn <- struct{}{} // an operation in progress ends first
	defer func() { <-s.turn }()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, v := range s.dropAll() {
		if !waitForPins {
			s.revisions.closeNow(v)
		}
		<-v.gone
	}
	s.revisions.closers.Wait()
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	if s.runtime.slots[s.key()] == s {
		delete(s.runtime.slots, s.key())
	}
}

// errUnloaded is the answer to a call that no version serves.
func (s *Slot) errUnloaded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed("\"" + s.id + "\"")
	}
	return host.Errorf(host.FailedPrecondition, "plugin %q is unloaded", s.id).WithHint("load it again")
}
