package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
)

// roomToDrain refuses another version while too many wait for their last call.
func (s *Slot) roomToDrain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, v := range s.versions {
		if v.phase == Draining {
			n++
		}
	}
	if n < s.opts.Draining {
		return nil
	}
	return host.Errorf(host.ResourceExhausted, "plugin %q: %d versions still have calls or pinned runs in progress, as many as the limit Draining", s.id, n).
		WithHint("wait for them, or release the pins")
}

// retire lets no new call into a version. Slot.mu is held.
func (s *Slot) retire(v *version) {
	v.refs.Or(retired)
	s.drained(v)
}

// drop closes a version when its last call has ended, and remembers it as last.
// Slot.mu is held.
func (s *Slot) drop(v *version, last Phase) {
	v.phase, v.last = Draining, last
	s.retire(v)
}

// dropSurplus drops the oldest of the kept versions that are too many. Slot.mu is
// held.
func (s *Slot) dropSurplus() {
	kept := 0
	for _, v := range slices.Backward(s.versions) {
		if v.phase != Kept {
			continue
		}
		if kept++; kept > s.opts.Kept {
			s.drop(v, Replaced)
		}
	}
}

// drained does what has waited for a version's last call, if that has ended: a
// kept version keeps its code only, a dropped one nothing. Slot.mu is held.
func (s *Slot) drained(v *version) {
	if v.refs.Load() != retired || v.closing {
		return
	}
	switch v.phase {
	case Kept:
		s.closers.Go(func() { v.plugin.instances.retire(time.Time{}) })
	case Draining:
		v.closing = true
		s.closers.Go(func() { s.close(v) })
	}
}

// close gives back what a version holds.
func (s *Slot) close(v *version) {
	v.plugin.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	v.phase = v.last
	s.remember(v)
	close(v.gone)
}

// remember makes a record of a version that holds nothing. Slot.mu is held.
func (s *Slot) remember(v *version) {
	s.versions = slices.DeleteFunc(s.versions, func(u *version) bool { return u == v })
	s.past = append(s.past, v.state())
	if n := len(s.past) - slotRecords; n > 0 {
		s.past = slices.Delete(s.past, 0, n)
	}
}

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
	return s.stateOf(v), nil
}

// rollback replaces the version bad, if it still serves, by the one before it
// and returns that; nil if there is none.
func (s *Slot) rollback(bad *version, last Phase, why error) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad == nil || s.closed || s.current.Load() != bad {
		return nil
	}
	i := slices.IndexFunc(s.versions, func(v *version) bool { return v == bad }) - 1
	for i >= 0 && s.versions[i].phase != Kept {
		i--
	}
	if i < 0 {
		return nil
	}
	v := s.versions[i]
	v.phase, v.since = Serving, time.Now()
	v.health.Store(newHealth(&s.opts.Guard, time.Time{}))
	v.refs.And(^retired)
	s.current.Store(v)
	logger := s.runtime.opts.Logger.With("plugin", s.id, "from", bad.number, "to", v.number)
	if why != nil {
		bad.err = host.AsError(why)
		s.lastErr = bad.err
		logger.Warn("plugin is rolled back", "error", why)
	} else {
		logger.Info("plugin is rolled back, as somebody asked")
	}
	s.drop(bad, last)
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

// dropAll lets no new call in and returns what is yet to be closed.
func (s *Slot) dropAll() []*version {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(nil)
	for _, v := range s.versions {
		if v.phase != Draining {
			s.drop(v, Unloaded)
		}
	}
	return slices.Clone(s.versions)
}

// Close ends the slot: it waits for the calls and pins in progress and gives
// back what every version holds. Its id is free again. It may be called twice.
func (s *Slot) Close() { s.shut(true) }

// shut is Close that may wait for calls only, and not for pins.
func (s *Slot) shut(waitForPins bool) {
	s.turn <- struct{}{} // what is in progress ends first
	defer func() { <-s.turn }()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, v := range s.dropAll() {
		if !waitForPins {
			s.closeNow(v)
		}
		<-v.gone
	}
	s.closers.Wait()
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	if s.runtime.slots[s.key()] == s {
		delete(s.runtime.slots, s.key())
	}
}

// closeNow closes a version that has pins, if nobody does already.
func (s *Slot) closeNow(v *version) {
	s.mu.Lock()
	closing := v.closing
	v.closing = true
	s.mu.Unlock()
	if !closing {
		s.close(v)
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
