package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Plugin is a loaded plugin. It is safe for concurrent use; calls beyond the
// limit Instances wait.
type Plugin struct {
	runtime  *Runtime
	id       string
	owner    string // the tenant that it is of; "" is the host
	digest   string
	limits   Limits
	code     *code
	manifest *Manifest
	schemas  *schemas    // of the manifest
	trial    atomic.Bool // it is tried before it serves: for nobody, with nothing granted
	only     []string    // the tenants that have it; nil is all
	number   int64       // in the order of loading
	grants   atomic.Pointer[Permissions]
	extism   *extismPlugin     // nil for a native one
	engine   Engine            // runs the calls, if the options name one
	offers   [exportCount]bool // of the contract; set with engine

	isolation Isolation
	noOptions CallOptions // of raw calls without

	mu       sync.Mutex
	pools    map[string]*pool // by tenant; one without calls and instances is removed
	spare    []*pool          // removed ones
	live     int              // instances, idle and in calls
	sweeping bool             // a sweep will come, because something is idle
	fresh    []*instance      // idle and as new, for any tenant; the last used at the end
	idle     idleList         // those and the ones in pools
	calls    int              // in progress
	closed   bool
	drained  chan struct{} // closed once closed is set and no call is in progress

	bindings        map[string]*binding // by tenant
	sweepBindingsAt int
}

// Owner returns the tenant that the plugin is of; "" is the host.
func (p *Plugin) Owner() string { return p.owner }

// ID returns the id under which the plugin was loaded.
func (p *Plugin) ID() string { return p.id }

// Digest returns "sha256:" and the hex digest of the module as it was loaded.
func (p *Plugin) Digest() string { return p.digest }

// Manifest returns what the plugin says of itself. It must not be changed.
func (p *Plugin) Manifest() *Manifest { return p.manifest }

// Close waits for the calls in progress and gives back what the plugin holds.
// Later calls fail. It may be called twice.
func (p *Plugin) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.drained = make(chan struct{})
	if p.calls == 0 {
		close(p.drained)
	}
	p.mu.Unlock()
	<-p.drained
	p.mu.Lock()
	idle := p.takeUnused(time.Time{})
	p.mu.Unlock()
	for _, inst := range idle {
		inst.close()
	}
	p.leaveBindings()
	p.runtime.mu.Lock()
	delete(p.runtime.plugins, p)
	p.runtime.mu.Unlock()
	if p.engine != nil {
		_ = p.engine.Close() // nothing runs in it; there is nothing to do about an error
	}
	if p.code != nil {
		p.runtime.release(p.code)
	}
}

// retirePools closes the idle instances of all tenants.
func (p *Plugin) retirePools() { p.retire(time.Time{}) }

// retire closes the instances that were not used since a time, all idle ones if
// it is zero, and returns how many. A plugin that is being closed does that
// itself.
func (p *Plugin) retire(before time.Time) int {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return 0
	}
	idle := p.takeUnused(before)
	p.calls++ // Close waits, so that no instance outlives the code
	p.mu.Unlock()
	for _, inst := range idle {
		inst.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended()
	return len(idle)
}

// takeUnused removes and returns the instances that were not used since a time.
// Plugin.mu is held.
func (p *Plugin) takeUnused(before time.Time) (idle []*instance) {
	for p.idle.n > 0 && (before.IsZero() || p.idle.first.used.Before(before)) {
		idle = append(idle, p.evict())
	}
	p.live -= len(idle)
	return idle
}

// ended notes the end of a call, or of something else that Close waits for.
// Plugin.mu is held.
func (p *Plugin) ended() {
	if p.calls--; p.closed && p.calls == 0 {
		close(p.drained)
	}
}

// waiter is a call that waits for another of its pool to end.
type waiter struct {
	ready chan struct{} // gets one value when it may run
	taken bool          // ready has been sent to; guarded by Plugin.mu
}

// pool is one tenant's part of one plugin: its running calls, and the instances
// kept for its next ones. Its fields are guarded by Plugin.mu.
type pool struct {
	tenant  string
	binding *binding
	calls   int         // running and waiting
	running int         // at most the limit Instances
	queue   []*waiter   // calls that wait for one to end
	idle    []*instance // the last used at the end
}

// sparePools bounds the empty pools that a plugin keeps to use again.
const sparePools = 64

// enter begins a call for a tenant, if it has the plugin: it waits until the
// tenant may have another one running.
func (p *Plugin) enter(ctx context.Context, tenant string) (*pool, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed("\"" + p.id + "\"")
	}
	pl := p.pool(tenant)
	limits, err := p.admit(pl)
	if err != nil {
		p.forget(pl)
		p.mu.Unlock()
		return nil, err
	}
	pl.calls++
	p.calls++
	if pl.running < limits.Instances {
		pl.running++
		p.mu.Unlock()
		return pl, nil
	}
	w := &waiter{ready: make(chan struct{}, 1)}
	pl.queue = append(pl.queue, w)
	p.mu.Unlock()
	if err := p.await(ctx, pl, w); err != nil {
		return nil, err
	}
	return pl, nil
}

// pool returns the tenant's pool, made if there is none. Plugin.mu is held.
func (p *Plugin) pool(tenant string) *pool {
	pl := p.pools[tenant]
	if pl != nil {
		return pl
	}
	if n := len(p.spare); n > 0 {
		pl, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		pl = &pool{}
	}
	pl.binding = p.bindingLocked(tenant)
	pl.tenant = pl.binding.account.id
	p.pools[pl.tenant] = pl
	return pl
}

// admit returns the limits of a tenant whose call may at least wait. Plugin.mu is
// held.
func (p *Plugin) admit(pl *pool) (*Limits, error) {
	r := pl.binding.rights()
	switch {
	case !r.served:
		return nil, errNotServed()
	case len(pl.queue) >= r.limits.Waiting && pl.running >= r.limits.Instances:
		return nil, p.crowded(pl)
	}
	return &r.limits, nil
}

// forget removes a pool that nothing needs. Plugin.mu is held.
func (p *Plugin) forget(pl *pool) {
	if pl.calls > 0 || len(pl.idle) > 0 {
		return
	}
	delete(p.pools, pl.tenant)
	pl.binding = nil
	if len(p.spare) < sparePools {
		p.spare = append(p.spare, pl)
	}
}

// await waits for a running call of the same tenant to end, at most as long as a
// call may take. With an error the call has ended.
func (p *Plugin) await(ctx context.Context, pl *pool, w *waiter) error {
	limits := &pl.binding.rights().limits
	timer := time.NewTimer(limits.Timeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = gone(ctx, "plugin %q: a call that waited for an instance", p.id)
	case <-timer.C:
		err = blameless(host.Errorf(host.ResourceExhausted, "plugin %q: all %d instances that the limit Instances allows a tenant are busy", p.id, limits.Instances).
			WithHint("raise the limit or call it less often at once"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.taken {
		p.next(pl)
	} else {
		pl.queue = slices.DeleteFunc(pl.queue, func(v *waiter) bool { return v == w })
	}
	p.leave(pl)
	return err
}

func (p *Plugin) crowded(pl *pool) error {
	return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: %d calls of the tenant wait for an instance, which is the limit Waiting", p.id, len(pl.queue)).
		WithHint("raise the limit or call it less often at once"))
}

// next lets the next call in line run in place of one that has ended. Plugin.mu
// is held.
func (p *Plugin) next(pl *pool) {
	if len(pl.queue) == 0 {
		pl.running--
		return
	}
	w := pl.queue[0]
	pl.queue = slices.Delete(pl.queue, 0, 1)
	w.taken = true
	w.ready <- struct{}{}
}

// leave ends what enter began, but for the place among those running. Plugin.mu
// is held.
func (p *Plugin) leave(pl *pool) {
	pl.calls--
	p.forget(pl)
	p.ended()
}

// exit ends a call that has no instance.
func (p *Plugin) exit(pl *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next(pl)
	p.leave(pl)
}

// take returns an instance for a call of the tenant, made if need be. One that
// could not be started comes with the error, to be closed.
func (p *Plugin) take(ctx context.Context, pl *pool, sh *fairsched.Flow, fresh bool) (*instance, error) {
	p.mu.Lock()
	inst, foreign := p.takeIdle(pl, fresh)
	if inst == nil && foreign == nil {
		p.live++
	}
	p.mu.Unlock()
	if foreign != nil {
		foreign.tenant, foreign.binding, foreign.share = pl.tenant, pl.binding, sh
		foreign.begin(ctx, startName, time.Now(), p.limits.StartTimeout, &p.limits)
		if foreign.restore() && foreign.image.suits(pl.binding) || foreign.turnless {
			inst = foreign
		} else {
			foreign.close()
		}
	}
	if inst == nil {
		return p.makeInstance(ctx, pl.binding, sh)
	}
	inst.tenant, inst.binding, inst.share = pl.tenant, pl.binding, sh
	inst.linear.lend(sh)
	inst.extism.lend(sh)
	inst.callStack.claim.lend(sh)
	if inst.turnless {
		return inst, inst.late()
	}
	return inst, nil
}

// makeInstance is newInstance, which gets the memory of idle instances of all
// plugins if there is no other.
func (p *Plugin) makeInstance(ctx context.Context, s *binding, sh *fairsched.Flow) (*instance, error) {
	inst, err := p.newInstance(ctx, s, sh)
	if err == nil || !errors.Is(err, errNoMemory) || !p.runtime.retireIdle() {
		return inst, err
	}
	inst.close()
	return p.newInstance(ctx, s, sh)
}

// takeIdle takes the idle instance that was used last: of the tenant's own, if
// the call may see what earlier ones left, or else of those that are as new. If
// there is none, but as many instances as may be idle, it takes the longest
// unused of another tenant, to be restored: that costs a tenth of a new one.
// Plugin.mu is held.
func (p *Plugin) takeIdle(pl *pool, fresh bool) (inst, foreign *instance) {
	if n := len(pl.idle); n > 0 && !fresh {
		inst, pl.idle = pl.idle[n-1], pl.idle[:n-1]
	} else if n := len(p.fresh); n > 0 && p.fresh[n-1].image.suits(pl.binding) {
		inst, p.fresh = p.fresh[n-1], p.fresh[:n-1]
	} else if p.idle.n > 0 && p.live >= p.limits.IdleOfAll {
		return nil, p.evict()
	} else {
		return nil, nil
	}
	p.idle.remove(inst)
	return inst, nil
}

// giveBack ends a call, with its instance: to be used again if the call returned
// normally and the instance is not worn, to be closed otherwise. It reports whether
// the call has no turn any more.
func (p *Plugin) giveBack(pl *pool, inst *instance, healthy, fresh bool) (turnless bool) {
	keep := healthy && inst.calls < inst.call.limits.CallsAnew
	if keep && (fresh || inst.swollen()) {
		keep = inst.restore()
	}
	turnless = inst.turnless
	inst.rest()
	inst.linear.lend(nil)
	inst.extism.lend(nil)
	inst.callStack.claim.lend(nil)
	keep = keep && !p.runtime.memories.tight()
	p.mu.Lock()
	surplus := inst
	if keep && !p.closed {
		surplus = p.keep(pl, inst)
	}
	if surplus != nil { // Close waits for calls so that no instance outlives the code
		p.mu.Unlock()
		surplus.close()
		p.mu.Lock()
		p.live--
	}
	p.next(pl)
	p.leave(pl)
	p.mu.Unlock()
	return turnless
}

// keep makes an instance idle and returns the one to close for it, if there are
// too many: the given one, or the longest unused of any tenant. Plugin.mu is
// held.
func (p *Plugin) keep(pl *pool, inst *instance) (surplus *instance) {
	if inst.restored {
		inst.tenant, inst.binding, inst.share = "", nil, nil
		p.fresh = append(p.fresh, inst)
	} else {
		if len(pl.idle) >= inst.call.limits.IdleInstances {
			return inst
		}
		pl.idle = append(pl.idle, inst)
	}
	p.idle.push(inst)
	p.sweepLater()
	if p.idle.n > p.limits.IdleOfAll {
		return p.evict()
	}
	return nil
}

// evict removes and returns the longest unused instance. Plugin.mu is held.
func (p *Plugin) evict() *instance {
	inst := p.idle.first
	p.idle.remove(inst)
	if inst.restored {
		p.fresh = slices.DeleteFunc(p.fresh, func(v *instance) bool { return v == inst })
		return inst
	}
	pl := p.pools[inst.tenant]
	pl.idle = slices.DeleteFunc(pl.idle, func(v *instance) bool { return v == inst })
	p.forget(pl)
	return inst
}

// idleList links instances, the longest unused first.
type idleList struct {
	first, last *instance
	n           int
}

func (l *idleList) push(inst *instance) {
	inst.prev, inst.next = l.last, nil
	if l.last == nil {
		l.first = inst
	} else {
		l.last.next = inst
	}
	l.last = inst
	l.n++
}

func (l *idleList) remove(inst *instance) {
	if inst.prev == nil {
		l.first = inst.next
	} else {
		inst.prev.next = inst.next
	}
	if inst.next == nil {
		l.last = inst.prev
	} else {
		inst.next.prev = inst.prev
	}
	inst.prev, inst.next = nil, nil
	l.n--
}

// swollen reports whether memory, which a guest cannot make smaller, is near its
// limit.
func (inst *instance) swollen() bool {
	return inst.memory != nil && int64(inst.memory.Size()) > inst.plugin.limits.MemoryBytes/4*3
}

// gone is the error of what ended because ctx did: its code is canceled or
// deadline_exceeded, whatever the cause.
func gone(ctx context.Context, format string, args ...any) error {
	cause := context.Cause(ctx)
	return &host.Error{Code: host.CodeOf(ctx.Err()), Err: cause,
		Message: fmt.Sprintf(format, args...) + " was stopped: " + cause.Error()}
}

// callRequest is what one call is about.
type callRequest struct {
	tenant string
	export export
	input  []byte
	ops    operations   // what the guest may ask for; nil: as raw says
	raw    *CallOptions // of a raw call
	read   answerReader // reads the output as a part of the call; nil for a raw call
	failed error        // what the guest says of its error; set where read is
}

// invoke is the way of every call: enter, take an instance, run, account, give
// back. guestErr says that output is an error object; cost is set if anything
// was begun, and begun says so.
func (p *Plugin) invoke(ctx context.Context, r *callRequest, cost *host.Cost) (output []byte, guestErr, begun bool, err error) {
	arrived := time.Now()
	pl, err := p.enter(ctx, r.tenant)
	if err != nil {
		return nil, false, false, p.refused(r, arrived, err)
	}
	if err := p.affordable(pl, r, arrived); err != nil {
		p.exit(pl)
		return nil, false, false, p.refused(r, arrived, err)
	}
	if p.engine != nil {
		output, guestErr, err = p.invokeEngine(ctx, pl, r, arrived, cost)
		return output, guestErr, true, err
	}
	turns := p.runtime.scheduler
	share, err := turns.Enter(ctx, pl.tenant, p.limits.Timeout)
	if err != nil {
		p.exit(pl)
		return nil, false, false, p.refused(r, arrived, p.unserved(ctx, err))
	}
	fresh := p.startsFresh(r.export)
	started := time.Now()
	wait := started.Sub(arrived)
	inst, err := p.take(ctx, pl, share, fresh)
	returned := false
	if err == nil {
		started = time.Now()
		inst.beginCall(ctx, r, started)
		output, guestErr, err = inst.run(r.export)
		if returned = err == nil; returned && r.read != nil {
			err = inst.readAnswer(r, output, guestErr)
		}
	}
	*cost = inst.cost(started)
	cost.InputBytes, cost.WaitUS = len(r.input), wait.Microseconds()
	pl.binding.tally(r.export).record(cost, inst.took, wait, outcomeOf(err, guestErr))
	_ = inst.settle(cost.Instructions, started.Add(inst.took)) // the next call learns that the budget is used up
	used := inst.unaccounted()
	turnless := p.giveBack(pl, inst, returned, fresh)
	turns.Leave(share, used+callPrice, !turnless)
	return output, guestErr, true, err
}

// affordable fails if the input is larger than the tenant's may be, or its budget
// is used up.
func (p *Plugin) affordable(pl *pool, r *callRequest, now time.Time) error {
	if limit := pl.binding.rights().limits.InputBytes; len(r.input) > limit {
		return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: the input of %s is %d bytes, more than the limit InputBytes of %d",
			p.id, p.exportName(r.export), len(r.input), limit))
	}
	return pl.binding.account.open(now)
}

// unserved is the error of a call that had no turn.
func (p *Plugin) unserved(ctx context.Context, err error) error {
	if err == fairsched.ErrBusy {
		return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: a call waited longer than the limit Timeout of %s for its turn", p.id, p.limits.Timeout).
			WithHint("raise the runtime's limits Running or Calls, or call less often at once"))
	}
	return gone(ctx, "plugin %q: a call that waited for its turn", p.id)
}

// call is invoke with the guest's error as an error. read makes of the output what
// the caller gets, within the limits of the call.
func (p *Plugin) call(ctx context.Context, tenant string, e export, input []byte, ops operations, read answerReader) (*host.Cost, error) {
	cost := &host.Cost{}
	r := &callRequest{tenant: tenant, export: e, input: input, ops: ops, read: read}
	_, guestErr, begun, err := p.invoke(ctx, r, cost)
	if err == nil && guestErr {
		err = r.failed
	}
	if !begun {
		cost = nil
	}
	return cost, p.forReader(tenant, err)
}

// forReader marks what clients may read of an error of a call: all of it for a
// tenant that owns the plugin, and otherwise what the plugin said on purpose,
// under a code other than internal and data_loss. See [host.ClientError].
func (p *Plugin) forReader(tenant string, err error) error {
	if err == nil {
		return nil
	}
	switch host.CodeOf(err) {
	case host.Canceled, host.DeadlineExceeded:
		return err
	case host.Internal, host.DataLoss:
		if !p.isOwnedBy(tenant) {
			return err
		}
	default:
		var guest *GuestError
		if !p.isOwnedBy(tenant) && !errors.As(err, &guest) {
			return err
		}
	}
	return host.Disclose(err)
}

// isOwnedBy reports whether the plugin was loaded for that tenant, and not for
// everybody.
func (p *Plugin) isOwnedBy(tenant string) bool {
	return tenant != "" && slices.Contains(p.only, tenant)
}

// describeTenant is whose instance a plugin describes itself in: nobody's.
const describeTenant = ""

// readManifest takes the manifest from the module's section, or has the plugin
// describe itself.
func (p *Plugin) readManifest(ctx context.Context, section []byte) (*Manifest, error) {
	if section != nil {
		return readManifest(section)
	}
	if !p.exportsFunc(exportDescribe) {
		if p.extism != nil {
			return p.plainManifest()
		}
		return nil, noManifest()
	}
	var m *Manifest
	_, err := p.call(ctx, describeTenant, exportDescribe, nil, nil, func(_ context.Context, out []byte) (err error) {
		m, err = readManifest(out)
		return err
	})
	return m, err
}

func noManifest() error {
	return unsupported("it has no manifest: neither a custom section %s nor an export %s", wasmmeter.ManifestSection, exportDescribe).
		WithHint("in Go, build it with: agenthost plugin build; in other languages put the manifest's JSON into that section, or export %s", exportDescribe)
}
