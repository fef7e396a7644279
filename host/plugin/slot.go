package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The bounds of a [Slot].
const (
	DefaultKeptVersions     = 2  // of SlotOptions.Kept
	DefaultDrainingVersions = 16 // of SlotOptions.Draining
	slotRecords             = 32 // versions that State tells of
)

// Slot is a plugin whose module can be replaced while it serves. What is made of
// it, tools, processors, routers and providers, stays with its agents: every
// call goes to the version that serves when it begins and ends there, whatever
// happens meanwhile. A run that must not see two versions pins them: see
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
	turn    chan struct{} // held by the operation that changes the slot
	current atomic.Pointer[version]

	mu       sync.Mutex
	granted  Permissions
	asked    Permissions    // by the last version that was published
	number   int            // of the last version
	versions []*version     // those that hold something, the oldest first
	past     []VersionState // those that do not, the oldest first; at most slotRecords
	loading  bool
	lastErr  *host.Error
	closed   bool
	closers  sync.WaitGroup
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

// HealthCall is a call that must succeed.
type HealthCall struct {
	Export string          `json:"export"` // tool, process, route, provide or observe
	Input  json.RawMessage `json:"input"`
}

// NewSlot loads the first version of a plugin, as [Runtime.Load] does: what it
// asks for beyond the grants it does not get. Errors are those of Load;
// already_exists if the runtime has a slot of that id, failed_precondition if
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
	orDefault(&s.opts.Kept, DefaultKeptVersions)
	orDefault(&s.opts.Draining, DefaultDrainingVersions)
	var err error
	if s.opts.Guard, err = opts.Guard.withDefaults(); err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch {
	case rt.closed:
		return nil, errClosed("runtime")
	case rt.slots[id] != nil:
		return nil, host.Errorf(host.AlreadyExists, "there is a plugin %q already", id).WithHint("replace it, or choose another id")
	}
	rt.slots[id] = s
	return s, nil
}

// Slot returns the slot of an id; nil if there is none.
func (rt *Runtime) Slot(id string) *Slot {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.slots[id]
}

// Slots returns the runtime's slots by their ids.
func (rt *Runtime) Slots() []*Slot {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	list := make([]*Slot, 0, len(rt.slots))
	for _, s := range rt.slots {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *Slot) int { return strings.Compare(a.id, b.id) })
	return list
}

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
	v := s.newVersion()
	if err := s.roomToDrain(); err != nil {
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

// begin waits until nobody else changes the slot.
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

func (s *Slot) newVersion() *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	return &version{slot: s, number: s.number, gone: make(chan struct{})}
}

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

// try loads a module with nothing granted and sees that it works.
func (s *Slot) try(ctx context.Context, wasm []byte) (*Plugin, error) {
	p, err := s.runtime.load(ctx, s.id, wasm, &s.opts.LoadOptions)
	if err != nil {
		return nil, loadError(s.id, err)
	}
	p.trial.Store(true)
	if err := s.health(ctx, p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// health makes the calls that a version must answer. It has its own tenant,
// nobody's, and what it leaves behind ends with it.
func (s *Slot) health(ctx context.Context, p *Plugin) error {
	// Describing starts an instance, which may fail. Not to describe is allowed.
	if _, err := p.Call(ctx, describeTenant, "describe", nil, nil); err != nil && host.CodeOf(err) != host.Unimplemented {
		return unhealthy(ctx, s.id, "start", err)
	}
	for _, c := range slices.Concat(p.manifest.Health, s.opts.Health) {
		_, _, err := p.healthCall(ctx, c)
		if err != nil {
			return unhealthy(ctx, s.id, "health call of "+clean(c.Export), err)
		}
	}
	if s.opts.Check != nil {
		if err := s.opts.Check(ctx, p); err != nil {
			return unhealthy(ctx, s.id, "check", err)
		}
	}
	return nil
}

func (p *Plugin) healthCall(ctx context.Context, c HealthCall) ([]byte, *host.Cost, error) {
	r, err := p.Call(ctx, describeTenant, c.Export, c.Input, nil)
	if err == nil && r.GuestError {
		err = guestError(p.id, c.Export, r.Output)
	}
	return r.Output, r.Cost, err
}

func unhealthy(ctx context.Context, id, what string, err error) error {
	if ctx.Err() != nil {
		return gone(ctx, "plugin %q: its %s", id, what)
	}
	return host.Errorf(host.FailedPrecondition, "plugin %q is not taken into service: its %s: %w", id, what, err)
}

// beyond returns what a version asks for that it is not granted and that the one
// before it did not ask for.
func (s *Slot) beyond(p *Plugin) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing, known := p.manifest.Permissions.Missing(s.granted), s.asked.Missing(s.granted)
	return slices.DeleteFunc(missing, func(m string) bool { return slices.Contains(known, m) })
}

// endTrial lets tenants in. What was left of the trial ends.
func (p *Plugin) endTrial() {
	if !p.trial.Swap(false) {
		return
	}
	p.retirePools()
	p.leaveSeats()
	p.runtime.tenants.age.Add(1)
}

// serve publishes a version that has been tried with nothing granted.
func (s *Slot) serve(v *version, replacesHeld bool) (VersionState, error) {
	if err := s.publish(v, replacesHeld); err != nil {
		v.plugin.Close()
		return s.failed(v, err)
	}
	state := s.stateOf(v)
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
	if !slices.Contains(s.versions, v) {
		s.versions = append(s.versions, v)
	}
	if err := v.plugin.Grant(s.granted); err != nil {
		return err
	}
	s.lastErr, s.asked = nil, v.plugin.manifest.Permissions
	v.err, v.phase, v.since = nil, Serving, time.Now()
	v.health = newHealth(&s.opts.Guard, v.since)
	v.refs.And(^retired)
	if before := s.current.Swap(v); before != nil {
		before.phase, before.since = Kept, v.since
		s.retire(before)
	}
	if replacesHeld {
		s.dropHeld()
	}
	s.dropSurplus()
	return nil
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

// dropHeld drops the version that is held back. Slot.mu is held.
func (s *Slot) dropHeld() {
	if v := s.held(); v != nil {
		s.drop(v, Replaced)
	}
}

// held returns the version that is held back, if there is one. Slot.mu is held.
func (s *Slot) held() *version {
	i := slices.IndexFunc(s.versions, func(v *version) bool { return v.phase == Held })
	if i < 0 {
		return nil
	}
	return s.versions[i]
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
		s.closers.Go(v.plugin.retirePools)
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

// failed records a version that never served.
func (s *Slot) failed(v *version, err error) (VersionState, error) {
	s.runtime.opts.Logger.Warn("plugin version is not taken into service", "plugin", s.id, "version", v.number, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	v.phase, v.err, v.since = Failed, host.AsError(err), time.Now()
	s.lastErr = v.err
	s.remember(v)
	return v.state(), err
}

// hold keeps a version that asks for too much, with nothing granted. It takes
// the place of one that was held before.
func (s *Slot) hold(v *version) (VersionState, error) {
	err := host.Errorf(host.PermissionDenied, "plugin %q: version %d is held back: it asks for more than it is granted: %s", s.id, v.number, strings.Join(v.missing, ", ")).
		WithHint("grant it, or load another version")
	s.runtime.opts.Logger.Warn("plugin version is held back", "plugin", s.id, "version", v.number, "missing", v.missing)
	v.plugin.retirePools()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropHeld()
	v.phase, v.err, v.since = Held, err, time.Now()
	v.refs.Or(retired)
	s.versions = append(s.versions, v)
	s.lastErr = err
	return v.state(), err
}

// Grant sets what the plugin may do for tenants without grants of their own: of
// the version that serves at once, as [Plugin.Grant] does, and of those that
// follow. A version that is held back serves if that is enough for it. Errors:
// permission_denied if a version stays held back, invalid_argument for
// permissions that make no sense.
func (s *Slot) Grant(ctx context.Context, granted Permissions) error {
	if err := s.begin(ctx, false); err != nil {
		return err
	}
	defer s.end()
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

// setGrants grants something to every version that serves or may, and returns
// the one that is held back.
func (s *Slot) setGrants(granted Permissions) (held *version, err error) {
	granted = granted.clone()
	if err := granted.check(); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "grants of plugin %q: %w", s.id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = granted
	for _, v := range s.versions {
		if v.phase == Draining || v.phase == Held {
			continue // what ends goes on as it began
		}
		if err := v.plugin.Grant(granted); err != nil {
			return nil, err
		}
	}
	return s.held(), nil
}

// Accept takes the version that is held back into service with what is granted,
// and no more: what else it asks for fails with code permission_denied. Code
// failed_precondition if no version is held back.
func (s *Slot) Accept(ctx context.Context) (VersionState, error) {
	if err := s.begin(ctx, false); err != nil {
		return VersionState{}, err
	}
	defer s.end()
	s.mu.Lock()
	held := s.held()
	s.mu.Unlock()
	if held == nil {
		return VersionState{}, host.Errorf(host.FailedPrecondition, "plugin %q: no version is held back", s.id)
	}
	return s.serve(held, false)
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
	v.health = newHealth(&s.opts.Guard, time.Time{})
	v.refs.And(^retired)
	s.current.Store(v)
	if why != nil {
		bad.err = host.AsError(why)
		s.lastErr = bad.err
	}
	s.drop(bad, last)
	s.runtime.opts.Logger.Warn("plugin is rolled back", "plugin", s.id, "from", bad.number, "to", v.number, "error", why)
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
	defer s.end()
	for _, v := range s.dropAll() {
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
	if s.runtime.slots[s.id] == s {
		delete(s.runtime.slots, s.id)
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
	return host.Errorf(host.Unavailable, "plugin %q is unloaded", s.id).WithHint("load it again")
}
