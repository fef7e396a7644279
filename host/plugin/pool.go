package plugin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// instancePools are the calls and instances of one plugin, by tenant. It is safe
// for concurrent use.
type instancePools struct {
	plugin   string // its id
	limits   *Limits
	bindings *bindings
	memories *linearmem.Budget // of all plugins
	sweeper  *sweeper
	make     func(context.Context, *binding, *fairsched.Flow) (*instance, error) // not nil; with an error it is to be closed
	makeRoom func() bool                                                         // closes idle instances of all plugins

	mu       sync.Mutex
	byTenant map[string]*pool // without those that have neither calls nor instances
	spare    []*pool          // removed ones
	live     int              // instances, idle and in calls
	sweeping bool             // a sweep will come, because something is idle
	fresh    []*instance      // idle and as new, for any tenant; the last used at the end
	idle     idleList         // those and the ones in pools
	calls    int              // in progress
	closed   bool
	drained  chan struct{} // closed once closed is set and no call is in progress
}

// close waits for the calls in progress and closes the instances; the next call is
// refused. It reports whether it was the first to do so.
func (ip *instancePools) close() bool {
	ip.mu.Lock()
	if ip.closed {
		ip.mu.Unlock()
		return false
	}
	ip.closed = true
	ip.drained = make(chan struct{})
	if ip.calls == 0 {
		close(ip.drained)
	}
	ip.mu.Unlock()
	<-ip.drained
	ip.mu.Lock()
	idle := ip.takeUnused(time.Time{})
	ip.mu.Unlock()
	for _, inst := range idle {
		inst.close()
	}
	return true
}

// retire closes the instances that were not used since a time, all idle ones if
// it is zero, and returns how many. A plugin that is being closed does that
// itself.
func (ip *instancePools) retire(before time.Time) int {
	ip.mu.Lock()
	if ip.closed {
		ip.mu.Unlock()
		return 0
	}
	idle := ip.takeUnused(before)
	ip.calls++ // Close waits, so that no instance outlives the code
	ip.mu.Unlock()
	for _, inst := range idle {
		inst.close()
	}
	ip.mu.Lock()
	defer ip.mu.Unlock()
	ip.ended()
	return len(idle)
}

// takeUnused removes and returns the instances that were not used since a time.
// ip.mu is held.
func (ip *instancePools) takeUnused(before time.Time) (idle []*instance) {
	for ip.idle.n > 0 && (before.IsZero() || ip.idle.first.used.Before(before)) {
		idle = append(idle, ip.evict())
	}
	ip.live -= len(idle)
	return idle
}

// ended notes the end of a call, or of something else that Close waits for.
// ip.mu is held.
func (ip *instancePools) ended() {
	if ip.calls--; ip.closed && ip.calls == 0 {
		close(ip.drained)
	}
}

// waiter is a call that waits for another of its pool to end.
type waiter struct {
	ready chan struct{} // gets one value when it may run
	taken bool          // ready has been sent to; guarded by instancePools.mu
}

// pool is one tenant's part of a plugin's instances: its calls, and the instances
// kept for its next ones. Its fields are guarded by instancePools.mu.
type pool struct {
	tenant  string
	binding *binding
	calls   int         // running and waiting
	levels  []*level    // of the calls, by how many calls that call tools they stand within
	idle    []*instance // the last used at the end
}

// level is the calls of a pool that stand within as many others. Those wait for calls of the
// next level alone, so that calls which hold places cannot wait for each other, whichever
// plugins they are of.
type level struct {
	running   int       // at most the limit Instances, and as many more as were suspended
	suspended int       // calls that wait for the tools that they call
	queue     []*waiter // calls that wait for one to end
}

// levelKey is the key of a context in which calls stand within others.
type levelKey struct{}

// levelOf returns how many calls of plugins that call tools a call stands within.
func levelOf(ctx context.Context) int {
	n, _ := ctx.Value(levelKey{}).(int)
	return n
}

// level returns the calls at a level. The mutex of the plugin's pools is held.
func (pl *pool) level(n int) *level {
	for len(pl.levels) <= n {
		pl.levels = append(pl.levels, &level{})
	}
	return pl.levels[n]
}

// sparePools bounds the empty pools that a plugin keeps to use again.
const sparePools = 64

// enter begins a call for a tenant, if it has the plugin: it waits until the
// tenant may have another one running.
func (ip *instancePools) enter(ctx context.Context, tenant string) (*pool, error) {
	ip.mu.Lock()
	if ip.closed {
		ip.mu.Unlock()
		return nil, errClosed("\"" + ip.plugin + "\"")
	}
	pl := ip.pool(tenant)
	lv := pl.level(levelOf(ctx))
	limits, err := ip.admit(pl, lv)
	if err != nil {
		ip.forget(pl)
		ip.mu.Unlock()
		return nil, err
	}
	pl.calls++
	ip.calls++
	if lv.running < limits.Instances {
		lv.running++
		ip.mu.Unlock()
		return pl, nil
	}
	w := &waiter{ready: make(chan struct{}, 1)}
	lv.queue = append(lv.queue, w)
	ip.mu.Unlock()
	if err := ip.await(ctx, pl, lv, w); err != nil {
		return nil, err
	}
	return pl, nil
}

// pool returns the tenant's pool, and makes a missing one. ip.mu is held.
func (ip *instancePools) pool(tenant string) *pool {
	pl := ip.byTenant[tenant]
	if pl != nil {
		return pl
	}
	if n := len(ip.spare); n > 0 {
		pl, ip.spare = ip.spare[n-1], ip.spare[:n-1]
	} else {
		pl = &pool{}
	}
	pl.binding = ip.bindings.acquire(tenant)
	pl.tenant = pl.binding.account.id
	ip.byTenant[pl.tenant] = pl
	return pl
}

// admit returns the limits of a tenant whose call may at least wait. ip.mu is
// held.
func (ip *instancePools) admit(pl *pool, lv *level) (*Limits, error) {
	r := pl.binding.rights()
	switch {
	case !r.served:
		return nil, errNotServed()
	case len(lv.queue) >= r.limits.Waiting && lv.running >= r.limits.Instances:
		return nil, ip.crowded(lv)
	}
	return &r.limits, nil
}

// forget removes a pool that nothing needs. ip.mu is held.
func (ip *instancePools) forget(pl *pool) {
	if pl.calls > 0 || len(pl.idle) > 0 {
		return
	}
	delete(ip.byTenant, pl.tenant)
	pl.binding.pools.Add(-1)
	pl.binding = nil
	if len(ip.spare) < sparePools {
		ip.spare = append(ip.spare, pl)
	}
}

// await waits for a running call of the same tenant to end, at most as long as a
// call may take. With an error the call has ended.
func (ip *instancePools) await(ctx context.Context, pl *pool, lv *level, w *waiter) error {
	limits := &pl.binding.rights().limits
	timer := time.NewTimer(limits.Timeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = callmeter.EndedError(ctx, "plugin %q: a call that waited for an instance", ip.plugin)
	case <-timer.C:
		err = blameless(host.Errorf(host.ResourceExhausted, "plugin %q: all %d instances that the limit Instances allows a tenant are busy", ip.plugin, limits.Instances).
			WithHint("raise the limit or call it less often at once"))
	}
	ip.mu.Lock()
	defer ip.mu.Unlock()
	if w.taken {
		ip.next(pl, lv)
	} else {
		lv.queue = slices.DeleteFunc(lv.queue, func(v *waiter) bool { return v == w })
	}
	ip.leave(pl)
	return err
}

func (ip *instancePools) crowded(lv *level) error {
	return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: %d calls of the tenant wait for an instance, which is the limit Waiting", ip.plugin, len(lv.queue)).
		WithHint("raise the limit or call it less often at once"))
}

// next lets the next call in line run in place of one that has ended. ip.mu
// is held.
func (ip *instancePools) next(pl *pool, lv *level) {
	if len(lv.queue) == 0 || lv.running > pl.binding.rights().limits.Instances { // a call that was suspended runs again beside the others
		lv.running--
		return
	}
	w := lv.queue[0]
	lv.queue = slices.Delete(lv.queue, 0, 1)
	w.taken = true
	w.ready <- struct{}{}
}

// suspend lets another call of the tenant run in the place of one that calls tools, and
// returns the context of these. As many calls of a level as may run can be suspended, so that
// a tenant has at most twice the limit Instances at each; those beyond keep their places.
func (ip *instancePools) suspend(ctx context.Context, tenant string) (within context.Context, resume func()) {
	n := levelOf(ctx)
	within = context.WithValue(ctx, levelKey{}, n+1)
	ip.mu.Lock()
	defer ip.mu.Unlock()
	pl := ip.byTenant[tenant]
	if pl == nil || pl.level(n).suspended >= pl.binding.rights().limits.Instances {
		return within, func() {}
	}
	lv := pl.level(n)
	lv.suspended++
	ip.next(pl, lv)
	return within, func() {
		ip.mu.Lock()
		defer ip.mu.Unlock()
		lv.suspended--
		lv.running++
	}
}

// leave ends what enter began, but for the place among those running. ip.mu
// is held.
func (ip *instancePools) leave(pl *pool) {
	pl.calls--
	ip.forget(pl)
	ip.ended()
}

// exit ends a call that has no instance.
func (ip *instancePools) exit(ctx context.Context, pl *pool) {
	ip.mu.Lock()
	defer ip.mu.Unlock()
	ip.next(pl, pl.level(levelOf(ctx)))
	ip.leave(pl)
}

// take returns an instance for a call of the tenant, made if need be. One that
// could not be started comes with the error, to be closed.
func (ip *instancePools) take(ctx context.Context, pl *pool, sh *fairsched.Flow, fresh bool) (*instance, error) {
	ip.mu.Lock()
	inst, foreign := ip.takeIdle(pl, fresh)
	if inst == nil && foreign == nil {
		ip.live++
	}
	ip.mu.Unlock()
	if foreign != nil {
		foreign.assign(pl.binding, sh)
		foreign.beginStart(ctx, ip.limits.Instructions)
		if foreign.restore() && foreign.image.suits(pl.binding) || foreign.meter.Unscheduled() {
			inst = foreign
		} else {
			foreign.close()
		}
	}
	if inst == nil {
		return ip.makeInstance(ctx, pl.binding, sh)
	}
	inst.assign(pl.binding, sh)
	inst.guest.linear.Lend(sh)
	inst.extism.Lend(sh)
	inst.callStack.claim.Lend(sh)
	if inst.meter.Unscheduled() {
		return inst, inst.meter.LateError()
	}
	return inst, nil
}

// makeInstance is newInstance, which gets the memory of idle instances of all
// plugins if there is no other.
func (ip *instancePools) makeInstance(ctx context.Context, s *binding, sh *fairsched.Flow) (*instance, error) {
	inst, err := ip.make(ctx, s, sh)
	if err == nil || !errors.Is(err, linearmem.ErrExhausted) || !ip.makeRoom() {
		return inst, err
	}
	inst.close()
	return ip.make(ctx, s, sh)
}

// takeIdle takes the idle instance that was used last: of the tenant's own, if
// the call may see state of earlier calls, or else of the restored ones. Without
// one, but with as many idle instances as allowed, it takes the longest unused of
// another tenant, to be restored: that costs a tenth of a new one.
// ip.mu is held.
func (ip *instancePools) takeIdle(pl *pool, fresh bool) (inst, foreign *instance) {
	if n := len(pl.idle); n > 0 && !fresh {
		inst, pl.idle = pl.idle[n-1], pl.idle[:n-1]
	} else if n := len(ip.fresh); n > 0 && ip.fresh[n-1].image.suits(pl.binding) {
		inst, ip.fresh = ip.fresh[n-1], ip.fresh[:n-1]
	} else if ip.idle.n > 0 && ip.live >= ip.limits.MaxIdle {
		return nil, ip.evict()
	} else {
		return nil, nil
	}
	ip.idle.remove(inst)
	return inst, nil
}

// giveBack ends a call and keeps its instance if the call returned normally and the
// instance is not worn; otherwise it closes the instance. It reports whether the call
// has left the scheduler.
func (ip *instancePools) giveBack(ctx context.Context, pl *pool, inst *instance, healthy, fresh bool) (unscheduled bool) {
	keep := healthy && inst.calls < inst.call.limits.MaxCallsPerInstance
	if keep && (fresh || inst.guest.swollen(inst.plugin.limits.MemoryBytes)) {
		keep = inst.restore()
	}
	unscheduled = inst.meter.Unscheduled()
	inst.rest()
	inst.guest.linear.Lend(nil)
	inst.extism.Lend(nil)
	inst.callStack.claim.Lend(nil)
	keep = keep && !ip.memories.Tight()
	ip.mu.Lock()
	surplus := inst
	if keep && !ip.closed {
		surplus = ip.keep(pl, inst)
	}
	if surplus != nil { // Close waits for calls so that no instance outlives the code
		ip.mu.Unlock()
		surplus.close()
		ip.mu.Lock()
		ip.live--
	}
	ip.next(pl, pl.level(levelOf(ctx)))
	ip.leave(pl)
	ip.mu.Unlock()
	return unscheduled
}

// keep makes an instance idle and returns the one to close for it, if there are
// too many: the given one, or the longest unused of any tenant. ip.mu is
// held.
func (ip *instancePools) keep(pl *pool, inst *instance) (surplus *instance) {
	if inst.restored {
		inst.release()
		ip.fresh = append(ip.fresh, inst)
	} else {
		if len(pl.idle) >= inst.call.limits.IdleInstances {
			return inst
		}
		pl.idle = append(pl.idle, inst)
	}
	ip.idle.push(inst)
	ip.sweepLater()
	if ip.idle.n > ip.limits.MaxIdle {
		return ip.evict()
	}
	return nil
}

// evict removes and returns the longest unused instance. ip.mu is held.
func (ip *instancePools) evict() *instance {
	inst := ip.idle.first
	ip.idle.remove(inst)
	if inst.restored {
		ip.fresh = slices.DeleteFunc(ip.fresh, func(v *instance) bool { return v == inst })
		return inst
	}
	pl := ip.byTenant[inst.tenant]
	pl.idle = slices.DeleteFunc(pl.idle, func(v *instance) bool { return v == inst })
	ip.forget(pl)
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
