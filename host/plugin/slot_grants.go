package plugin

import (
	"context"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
)

// beyond returns the permissions a version asks for that it is not granted and that
// the one before it did not ask for.
func (s *Slot) beyond(p *Plugin) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.manifest.Permissions.Widens(s.granted, s.asked)
}

// hold keeps a version that asks for too much, with nothing granted. It takes
// the place of one that was held before.
func (s *Slot) hold(v *version) (VersionState, error) {
	err := host.Errorf(host.PermissionDenied, "plugin %q: version %d is held back: it asks for more than it is granted: %s", s.id, v.number, strings.Join(v.missing, ", ")).
		WithHint("grant it, or load another version")
	s.runtime.opts.Logger.Warn("plugin version is held back", "plugin", s.id, "version", v.number, "missing", v.missing)
	v.plugin.instances.Retire(time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revisions.dropHeld()
	v.phase, v.err, v.since = Held, err, time.Now()
	v.refs.Or(retired)
	s.revisions.add(v)
	s.lastErr = err
	return v.state(), err
}

// Grant sets the permissions of the plugin for tenants without grants of their own: of
// the serving version at once, as [Plugin.Grant] does, and of later versions. A
// version whose last calls are ending loses the permissions taken back, and gets no
// new ones. A version that is held back serves if the grant is enough for it. Errors:
// permission_denied if a version stays held back, invalid_argument for
// permissions that make no sense.
func (s *Slot) Grant(ctx context.Context, granted Permissions) error {
	change, err := s.PrepareGrant(ctx, granted)
	if err != nil {
		return err
	}
	return change.Commit()
}

// GrantChange is a grant that has been checked and is not made yet. Other changes of its slot
// wait until it is committed or canceled, one of which its owner must do, once.
type GrantChange struct {
	slot    *Slot
	granted Permissions
}

// PrepareGrant checks a grant and waits until no other change of the slot is made, so that the
// grants of several slots are made all or none. Code invalid_argument for permissions that make
// no sense; that of ctx; that of a slot that is closed.
func (s *Slot) PrepareGrant(ctx context.Context, granted Permissions) (*GrantChange, error) {
	if err := granted.Check(); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "grants of plugin %q: %w", s.id, err)
	}
	if err := s.begin(ctx, false); err != nil {
		return nil, err
	}
	return &GrantChange{s, granted.Clone()}, nil
}

// Cancel leaves the grants of the slot.
func (c *GrantChange) Cancel() { c.slot.end() }

// Commit makes the grant. It fails as [Slot.Grant] does where a version stays held back; the
// permissions are granted all the same.
func (c *GrantChange) Commit() error {
	defer c.slot.end()
	return c.slot.grant(c.granted)
}

// grant is Grant for the caller whose turn it is.
func (s *Slot) grant(granted Permissions) error {
	held, err := s.setGrants(granted)
	if held == nil || err != nil {
		return err
	}
	missing := s.beyond(held.plugin)
	s.mu.Lock()
	held.missing = missing
	s.mu.Unlock()
	if len(missing) > 0 {
		return host.Errorf(host.PermissionDenied, "plugin %q: version %d stays held back: it asks for %s too", s.id, held.number, strings.Join(missing, ", ")).
			WithHint("grant it, or load another version")
	}
	_, err = s.serve(held, false)
	return err
}

// Granted returns the permissions granted to the slot, whatever its versions ask for.
func (s *Slot) Granted() Permissions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted.Clone()
}

// setGrants grants something to every version that serves or may, and returns
// the one that is held back.
func (s *Slot) setGrants(granted Permissions) (held *version, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = granted
	for _, v := range s.revisions.live {
		switch v.phase {
		case Held:
		case Draining: // its calls keep their permissions, except those taken back
			v.plugin.bindings.narrow(granted)
		default:
			if err := v.plugin.Grant(granted); err != nil {
				return nil, err
			}
		}
	}
	return s.revisions.held(), nil
}

// Accept takes the version that is held back into service with the granted
// permissions only: uses of others fail with code permission_denied. Code
// failed_precondition if no version is held back.
func (s *Slot) Accept(ctx context.Context) (VersionState, error) {
	if err := s.begin(ctx, false); err != nil {
		return VersionState{}, err
	}
	defer s.end()
	s.mu.Lock()
	held := s.revisions.held()
	s.mu.Unlock()
	if held == nil {
		return VersionState{}, host.Errorf(host.FailedPrecondition, "plugin %q: no version is held back", s.id)
	}
	return s.serve(held, false)
}
