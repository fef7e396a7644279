package plugin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/breaker"
)

// The bounds of a [Slot].
const (
	defaultKeptVersions     = 2  // of SlotOptions.Kept
	defaultDrainingVersions = 16 // of SlotOptions.Draining
	slotRecords             = 32 // versions that State tells of
)

// Slot is a plugin whose module can be replaced while it serves. Its tools,
// processors, routers and providers stay with their agents: every call runs in the
// version that serves when the call begins and ends there, even if another version
// is published meanwhile. A run that must not see two versions pins them: see
// [Runtime.Pin].
//
// Each version is checked, compiled, described and tried aside, with nothing
// granted, and then published at once. One that fails any of that changes
// nothing. It is safe for concurrent use; the operations that change it come one
// after the other.
type Slot struct {
	runtime *Runtime
	id      string
	opts    SlotOptions
	guard   breaker.Options
	turn    chan struct{} // held by the operation that changes the slot
	current atomic.Pointer[version]

	revisions revisions

	mu      sync.Mutex
	granted Permissions
	asked   Permissions // by the last version that was published
	loading bool
	lastErr *host.Error
	closed  bool
}

// SlotOptions are the optional parts of a slot.
type SlotOptions struct {
	LoadOptions

	// Health is tried on every version before it serves, after what its manifest
	// declares. A trap, a broken limit or an error object keeps it from serving.
	Health []HealthCall

	// Check, if set, is asked at last. The version has nothing granted yet.
	Check func(ctx context.Context, p *Plugin) error

	Guard    Guard // when a version is rolled back, or not called for a while
	Kept     int   // earlier versions that are kept for a rollback (2)
	Draining int   // versions with calls or pins in progress that wait to be closed; more replacements are refused (16)
}

// NewSlot loads the first version of a plugin, as [Runtime.Load] does: what it
// asks for beyond the grants it does not get. Errors are those of Load;
// already_exists if its owner has a plugin of that id, failed_precondition if
// the version fails its health calls. Close the slot to give back what it holds;
// the runtime's Close does so too.
func (rt *Runtime) NewSlot(ctx context.Context, id string, wasm []byte, opts *SlotOptions) (*Slot, error) {
	s, err := rt.openSlot(id, opts)
	if err != nil {
		return nil, err
	}
	if _, err := s.replace(ctx, wasm, true); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (rt *Runtime) openSlot(id string, opts *SlotOptions) (*Slot, error) {
	if opts == nil {
		opts = &SlotOptions{}
	}
	s := &Slot{runtime: rt, id: id, opts: *opts, turn: make(chan struct{}, 1), granted: opts.Granted}
	if id == "" {
		return nil, host.Errorf(host.InvalidArgument, "a plugin needs an id")
	}
	if s.opts.Kept < 0 || s.opts.Draining < 0 {
		return nil, host.Errorf(host.InvalidArgument, "slot %q keeps %d versions and drains %d", id, s.opts.Kept, s.opts.Draining).
			WithHint("leave them out for the default")
	}
	s.opts.Kept = cmp.Or(s.opts.Kept, defaultKeptVersions)
	s.opts.Draining = cmp.Or(s.opts.Draining, defaultDrainingVersions)
	s.revisions = revisions{plugin: id, kept: s.opts.Kept, draining: s.opts.Draining, mu: &s.mu}
	var err error
	if s.guard, err = opts.Guard.withDefaults(); err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch {
	case rt.closed:
		return nil, errClosed("runtime")
	case rt.isTaken(s):
		return nil, host.Errorf(host.AlreadyExists, "there is a plugin %q already", id).WithHint("replace it, or choose another id")
	}
	rt.slots[s.key()] = s
	return s, nil
}

// slotKey identifies a plugin: two tenants may use the same id.
type slotKey struct{ owner, id string }

func (s *Slot) key() slotKey { return slotKey{s.opts.Owner, s.id} }

// isTaken reports whether the owner of a slot has a plugin of its id: one of its
// own, or of the host's. What other tenants have is not looked at. rt.mu is held.
func (rt *Runtime) isTaken(s *Slot) bool {
	if rt.slots[s.key()] != nil {
		return true
	}
	if s.opts.Owner != "" {
		shared := rt.slots[slotKey{"", s.id}]
		return shared != nil && shared.opts.serves(s.opts.Owner)
	}
	for key := range rt.slots {
		if key.id == s.id && s.opts.serves(key.owner) {
			return true
		}
	}
	return false
}

// Slot returns the host's slot of an id; nil if the id is free.
func (rt *Runtime) Slot(id string) *Slot { return rt.TenantSlot("", id) }

// TenantSlot returns a tenant's own slot of an id; nil if the tenant has none, even if
// the host or another tenant has a slot of that id.
func (rt *Runtime) TenantSlot(owner, id string) *Slot {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.slots[slotKey{owner, id}]
}

// Slots returns the slots of the host and of all tenants, by their ids and owners.
func (rt *Runtime) Slots() []*Slot {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	list := make([]*Slot, 0, len(rt.slots))
	for _, s := range rt.slots {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *Slot) int {
		return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.opts.Owner, b.opts.Owner))
	})
	return list
}

// Owner returns the tenant that the plugin is of; "" is the host.
func (s *Slot) Owner() string { return s.opts.Owner }

// ID returns the id of the plugin.
func (s *Slot) ID() string { return s.id }

// Current returns the version that serves, for its manifest and digest; nil if
// none does. It may be replaced and closed at any moment: to call it, use the
// slot.
func (s *Slot) Current() *Plugin {
	if v := s.current.Load(); v != nil {
		return v.plugin
	}
	return nil
}

// Replace makes a module the version that serves. It returns once that is so;
// calls in progress end on the version they began on, which is then kept for a
// rollback or closed. After an error the slot serves as before:
//
//   - those of [Runtime.Load], if the module cannot be loaded;
//   - failed_precondition, if it fails a health call;
//   - permission_denied, if it asks for something that the plugin is not granted
//     and that the version before it did not ask for. It is then held back until
//     [Slot.Grant] or [Slot.Accept], or until another one is loaded;
//   - resource_exhausted, if more versions than SlotOptions.Draining still have calls or
//     pins in progress.
//
// The version's state is returned beside an error too.
func (s *Slot) Replace(ctx context.Context, wasm []byte) (VersionState, error) {
	return s.replace(ctx, wasm, false)
}

func (s *Slot) replace(ctx context.Context, wasm []byte, isFirst bool) (VersionState, error) {
	if err := s.begin(ctx, true); err != nil {
		return VersionState{}, err
	}
	defer s.end()
	v := &version{slot: s, number: s.revisions.next(), gone: make(chan struct{})}
	if err := s.revisions.roomToDrain(); err != nil {
		return s.failed(v, err)
	}
	trial, err := s.try(ctx, wasm)
	if err != nil {
		return s.failed(v, err)
	}
	v.plugin = trial
	if v.missing = s.beyond(trial); len(v.missing) > 0 && !isFirst {
		return s.hold(v)
	}
	return s.serve(v, true)
}

// begin waits until no other operation changes the slot.
func (s *Slot) begin(ctx context.Context, loading bool) error {
	select {
	case s.turn <- struct{}{}:
	default:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return gone(ctx, "plugin %q: waiting for another change of it", s.id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.turn
		return errClosed("\"" + s.id + "\"")
	}
	s.loading = loading
	return nil
}

func (s *Slot) end() {
	s.mu.Lock()
	s.loading = false
	s.mu.Unlock()
	<-s.turn
}

// serve publishes a version that has been tried with nothing granted.
func (s *Slot) serve(v *version, replacesHeld bool) (VersionState, error) {
	if err := s.publish(v, replacesHeld); err != nil {
		v.plugin.Close()
		return s.failed(v, err)
	}
	state := s.revisions.stateOf(v)
	s.runtime.opts.Logger.Info("plugin version serves", "plugin", s.id, "version", state.Number, "digest", state.Digest)
	return state, nil
}

// publish makes v the version that serves and retires the one before it.
func (s *Slot) publish(v *version, replacesHeld bool) error {
	v.plugin.endTrial()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed("\"" + s.id + "\"")
	}
	s.revisions.add(v)
	if err := v.plugin.Grant(s.granted); err != nil {
		return err
	}
	s.lastErr, s.asked = nil, v.plugin.manifest.Permissions
	v.err, v.phase, v.since = nil, Serving, time.Now()
	v.breaker.Store(breaker.New(&s.guard, v.since))
	v.refs.And(^retired)
	if before := s.current.Swap(v); before != nil {
		before.phase, before.since = Kept, v.since
		s.revisions.retire(before)
	}
	if replacesHeld {
		s.revisions.dropHeld()
	}
	s.revisions.dropSurplus()
	return nil
}

// failed records a version that never served.
func (s *Slot) failed(v *version, err error) (VersionState, error) {
	s.runtime.opts.Logger.Warn("plugin version is not taken into service", "plugin", s.id, "version", v.number, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	v.phase, v.err, v.since = Failed, fault.AsError(err), time.Now()
	s.lastErr = v.err
	s.revisions.remember(v)
	return v.state(), err
}
