package instancepool

import (
	"context"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// Pool is one tenant's part of a plugin's pools: its calls, and the instances kept for its
// next ones. A call has it from [Pools.Enter] until the call ends. Its other fields are
// guarded by Pools.mu.
type Pool[T Tenant, I Instance[T, I]] struct {
	tenant T
	id     string
	calls  int      // running and waiting
	levels []*level // of the calls, by how many calls that call tools they stand within
	idle   []I      // the last used at the end
}

// Tenant returns the pool's tenant.
func (pl *Pool[T, I]) Tenant() T { return pl.tenant }

// level is the calls of a pool that stand within as many others. Those wait for calls of the
// next level alone, so that calls which hold places cannot wait for each other, whichever
// plugins they are of.
type level struct {
	running   int       // at most the limit Instances, and as many more as were suspended
	suspended int       // calls that wait for the tools that they call
	queue     []*waiter // calls that wait for one to end
}

// waiter is a call that waits for another of its pool to end.
type waiter struct {
	ready chan struct{} // gets one value when it may run
	taken bool          // ready has been sent to; guarded by Pools.mu
}

// levelKey is the key of a context in which calls stand within others.
type levelKey struct{}

// levelOf returns how many calls of plugins that call tools a call stands within.
func levelOf(ctx context.Context) int {
	n, _ := ctx.Value(levelKey{}).(int)
	return n
}

// level returns the calls at a level. Pools.mu is held.
func (pl *Pool[T, I]) level(n int) *level {
	for len(pl.levels) <= n {
		pl.levels = append(pl.levels, &level{})
	}
	return pl.levels[n]
}

// maxSpare bounds the empty pools that are kept to be used again.
const maxSpare = 64

// Enter begins a call for a tenant, if it has the plugin: it waits until the
// tenant may have another one running. Either [Pools.GiveBack] or [Pools.Exit] ends the
// call, with the same context.
func (ps *Pools[T, I]) Enter(ctx context.Context, tenant string) (*Pool[T, I], error) {
	ps.mu.Lock()
	if ps.closed {
		ps.mu.Unlock()
		return nil, fault.Errorf(fault.FailedPrecondition, "the plugin \"%s\" is closed", ps.opts.Plugin)
	}
	pl := ps.pool(tenant)
	lv := pl.level(levelOf(ctx))
	limits, err := ps.admit(pl, lv)
	if err != nil {
		ps.forget(pl)
		ps.mu.Unlock()
		return nil, err
	}
	pl.calls++
	ps.calls++
	if lv.running < limits.Instances {
		lv.running++
		ps.mu.Unlock()
		return pl, nil
	}
	w := &waiter{ready: make(chan struct{}, 1)}
	lv.queue = append(lv.queue, w)
	ps.mu.Unlock()
	if err := ps.await(ctx, pl, lv, w); err != nil {
		return nil, err
	}
	return pl, nil
}

// pool returns the tenant's pool, and makes a missing one. ps.mu is held.
func (ps *Pools[T, I]) pool(tenant string) *Pool[T, I] {
	pl := ps.byTenant[tenant]
	if pl != nil {
		return pl
	}
	if n := len(ps.spare); n > 0 {
		pl, ps.spare = ps.spare[n-1], ps.spare[:n-1]
	} else {
		pl = &Pool[T, I]{}
	}
	pl.tenant = ps.opts.Acquire(tenant)
	pl.id = pl.tenant.ID()
	ps.byTenant[pl.id] = pl
	return pl
}

// admit returns the limits of a tenant whose call may at least wait. ps.mu is
// held.
func (ps *Pools[T, I]) admit(pl *Pool[T, I], lv *level) (Limits, error) {
	limits, err := pl.tenant.CallLimits()
	if err == nil && len(lv.queue) >= limits.Waiting && lv.running >= limits.Instances {
		err = ps.crowded(lv)
	}
	return limits, err
}

// forget removes a pool that nothing needs. ps.mu is held.
func (ps *Pools[T, I]) forget(pl *Pool[T, I]) {
	if pl.calls > 0 || len(pl.idle) > 0 {
		return
	}
	delete(ps.byTenant, pl.id)
	pl.tenant.Release()
	var none T
	pl.tenant = none
	if len(ps.spare) < maxSpare {
		ps.spare = append(ps.spare, pl)
	}
}

// await waits for a running call of the same tenant to end, at most as long as a
// call may take. With an error the call has ended.
func (ps *Pools[T, I]) await(ctx context.Context, pl *Pool[T, I], lv *level, w *waiter) error {
	limits := pl.limits()
	timer := time.NewTimer(limits.Timeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = callmeter.EndedError(ctx, "plugin %q: a call that waited for an instance", ps.opts.Plugin)
	case <-timer.C:
		err = ps.opts.Blameless(fault.Errorf(fault.ResourceExhausted, "plugin %q: all %d instances that the limit Instances allows a tenant are busy", ps.opts.Plugin, limits.Instances).
			WithHint("raise the limit or call it less often at once"))
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if w.taken {
		ps.next(pl, lv)
	} else {
		lv.queue = slices.DeleteFunc(lv.queue, func(v *waiter) bool { return v == w })
	}
	ps.leave(pl)
	return err
}

func (ps *Pools[T, I]) crowded(lv *level) error {
	return ps.opts.Blameless(fault.Errorf(fault.ResourceExhausted, "plugin %q: %d calls of the tenant wait for an instance, which is the limit Waiting", ps.opts.Plugin, len(lv.queue)).
		WithHint("raise the limit or call it less often at once"))
}

// next lets the next call in line run in place of one that has ended. ps.mu
// is held.
func (ps *Pools[T, I]) next(pl *Pool[T, I], lv *level) {
	if len(lv.queue) == 0 || lv.running > pl.limits().Instances { // a call that was suspended runs again beside the others
		lv.running--
		return
	}
	w := lv.queue[0]
	lv.queue = slices.Delete(lv.queue, 0, 1)
	w.taken = true
	w.ready <- struct{}{}
}

// limits returns the limits of the tenant's calls in progress.
func (pl *Pool[T, I]) limits() Limits {
	limits, _ := pl.tenant.CallLimits() // a tenant that has lost the plugin keeps them
	return limits
}

// Suspend lets another call of the tenant run in the place of one that calls tools, and
// returns the context of these. As many calls of a level as may run can be suspended, so that
// a tenant has at most twice the limit Instances at each; those beyond keep their places.
func (ps *Pools[T, I]) Suspend(ctx context.Context, tenant string) (within context.Context, resume func()) {
	n := levelOf(ctx)
	within = context.WithValue(ctx, levelKey{}, n+1)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	pl := ps.byTenant[tenant]
	if pl == nil || pl.level(n).suspended >= pl.limits().Instances {
		return within, func() {}
	}
	lv := pl.level(n)
	lv.suspended++
	ps.next(pl, lv)
	return within, func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		lv.suspended--
		lv.running++
	}
}

// leave ends what Enter began, but for the place among those running. ps.mu
// is held.
func (ps *Pools[T, I]) leave(pl *Pool[T, I]) {
	pl.calls--
	ps.forget(pl)
	ps.ended()
}

// Exit ends a call that has no instance.
func (ps *Pools[T, I]) Exit(ctx context.Context, pl *Pool[T, I]) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.next(pl, pl.level(levelOf(ctx)))
	ps.leave(pl)
}
