package instancepool

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Tenant is the use of the plugin by one tenant.
type Tenant interface {
	ID() string
	// CallLimits returns the present limits of the tenant's calls. With an error, that of a
	// tenant which does not have the plugin, they bound only its calls in progress.
	CallLimits() (Limits, error)
	// Release says that no pool uses the tenant any more: see [Options.Acquire].
	Release()
}

// Limits are those of one tenant's calls.
type Limits struct {
	Instances int           // calls that run at once, at each level
	Waiting   int           // calls that wait for one of those to end
	Timeout   time.Duration // how long a call waits
}

// Instance is an instance of the plugin, as a pool keeps it.
type Instance[T Tenant, I any] interface {
	comparable
	// Link returns the part of the instance that is the pools'.
	Link() *Link[I]
	// Suits reports whether the restored instance serves a tenant.
	Suits(T) bool
	// Close frees what the instance has. No call has it then.
	Close()
}

// Link is the part of an instance that pools read. While a call has the instance, its
// owner sets the exported fields.
type Link[I any] struct {
	Used     time.Time // when its last call began
	Restored bool      // nothing of any tenant is in it

	tenant     string
	prev, next I // of all that are idle
}

// Options are those of one plugin's pools.
type Options[T Tenant] struct {
	Plugin  string // its id, for errors
	Sweeper *Sweeper
	// Acquire returns a tenant, which its pool keeps until [Tenant.Release].
	Acquire func(tenant string) T
	// Blameless marks an error that says nothing about the plugin.
	Blameless func(error) error

	MaxIdle  int           // instances, of all tenants
	IdleTime time.Duration // after which an idle instance closes
}

// Pools are the calls and instances of one plugin, by tenant. They are safe for concurrent
// use.
type Pools[T Tenant, I Instance[T, I]] struct {
	opts Options[T]

	mu       sync.Mutex
	byTenant map[string]*Pool[T, I] // without those that have neither calls nor instances
	spare    []*Pool[T, I]          // removed ones
	live     int                    // instances, idle and in calls
	sweeping bool                   // a sweep will come, because something is idle
	restored []I                    // idle, for any tenant; the last used at the end
	idle     idleList[T, I]         // those and the ones in pools
	calls    int                    // in progress
	closed   bool
	drained  chan struct{} // closed once closed is set and no call is in progress
}

// New returns pools without calls and instances.
func New[T Tenant, I Instance[T, I]](opts Options[T]) *Pools[T, I] {
	return &Pools[T, I]{opts: opts, byTenant: map[string]*Pool[T, I]{}}
}

// Close waits for the calls in progress and closes the instances; the next call is
// refused. It reports whether it was the first to do so.
func (ps *Pools[T, I]) Close() bool {
	ps.mu.Lock()
	if ps.closed {
		ps.mu.Unlock()
		return false
	}
	ps.closed = true
	ps.drained = make(chan struct{})
	if ps.calls == 0 {
		close(ps.drained)
	}
	ps.mu.Unlock()
	<-ps.drained
	ps.mu.Lock()
	idle := ps.takeUnused(time.Time{})
	ps.mu.Unlock()
	for _, inst := range idle {
		inst.Close()
	}
	return true
}

// Retire closes the instances that were not used since a time, all idle ones if
// it is zero, and returns how many. Pools that are being closed do that
// themselves.
func (ps *Pools[T, I]) Retire(before time.Time) int {
	ps.mu.Lock()
	if ps.closed {
		ps.mu.Unlock()
		return 0
	}
	idle := ps.takeUnused(before)
	ps.calls++ // Close waits, so that no instance outlives the code
	ps.mu.Unlock()
	for _, inst := range idle {
		inst.Close()
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.ended()
	return len(idle)
}

// Counts are numbers of calls and instances at one moment.
type Counts struct {
	Calls   int // running and waiting
	Live    int // instances, idle and in calls
	Idle    int
	Tenants int // that have calls, or idle instances of their own
}

// Count returns the present numbers.
func (ps *Pools[T, I]) Count() Counts {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return Counts{Calls: ps.calls, Live: ps.live, Idle: ps.idle.n, Tenants: len(ps.byTenant)}
}

// Idle returns the idle instances, the longest unused first. They stay the pools', which may
// give each to a call: only a caller that knows of all calls may look into them.
func (ps *Pools[T, I]) Idle() (idle []I) {
	var none I
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for inst := ps.idle.first; inst != none; inst = inst.Link().next {
		idle = append(idle, inst)
	}
	return idle
}

// takeUnused removes and returns the instances that were not used since a time.
// ps.mu is held.
func (ps *Pools[T, I]) takeUnused(before time.Time) (idle []I) {
	for ps.idle.n > 0 && (before.IsZero() || ps.idle.first.Link().Used.Before(before)) {
		idle = append(idle, ps.evict())
	}
	ps.live -= len(idle)
	return idle
}

// ended notes the end of a call, or of something else that Close waits for.
// ps.mu is held.
func (ps *Pools[T, I]) ended() {
	if ps.calls--; ps.closed && ps.calls == 0 {
		close(ps.drained)
	}
}

// Take returns an idle instance for a call of the pool's tenant, the one that was used last:
// of the tenant's own, if the call may see state of earlier calls, or else a restored one.
// Without one, but with as many idle instances as allowed, it returns the longest unused of
// another tenant, and foreign is true: the caller restores it, which costs a tenth of a new
// one, or replaces it by a new one. With the zero I the caller makes one. In any case the
// call ends with [Pools.GiveBack].
func (ps *Pools[T, I]) Take(pl *Pool[T, I], restored bool) (inst I, foreign bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if n := len(pl.idle); n > 0 && !restored {
		inst, pl.idle = pl.idle[n-1], pl.idle[:n-1]
	} else if n := len(ps.restored); n > 0 && ps.restored[n-1].Suits(pl.tenant) {
		inst, ps.restored = ps.restored[n-1], ps.restored[:n-1]
	} else if ps.idle.n > 0 && ps.live >= ps.opts.MaxIdle {
		return ps.evict(), true
	} else {
		ps.live++
		return inst, false
	}
	ps.idle.remove(inst)
	return inst, false
}

// GiveBack ends a call and keeps its instance, unless keep is false or too many are idle:
// of the tenant's own at most so many are. It closes an instance that is not kept.
func (ps *Pools[T, I]) GiveBack(ctx context.Context, pl *Pool[T, I], inst I, keep bool, own int) {
	var none I
	ps.mu.Lock()
	surplus := inst
	if keep && !ps.closed {
		surplus = ps.keep(pl, inst, own)
	}
	if surplus != none { // Close waits for calls so that no instance outlives the code
		ps.mu.Unlock()
		surplus.Close()
		ps.mu.Lock()
		ps.live--
	}
	ps.next(pl, pl.level(levelOf(ctx)))
	ps.leave(pl)
	ps.mu.Unlock()
}

// keep makes an instance idle and returns the one to close for it, if there are
// too many: the given one, or the longest unused of any tenant. ps.mu is
// held.
func (ps *Pools[T, I]) keep(pl *Pool[T, I], inst I, own int) (surplus I) {
	if inst.Link().Restored {
		ps.restored = append(ps.restored, inst)
	} else {
		if len(pl.idle) >= own {
			return inst
		}
		inst.Link().tenant = pl.id
		pl.idle = append(pl.idle, inst)
	}
	ps.idle.push(inst)
	ps.sweepLater()
	if ps.idle.n > ps.opts.MaxIdle {
		return ps.evict()
	}
	return surplus
}

// evict removes and returns the longest unused instance. ps.mu is held.
func (ps *Pools[T, I]) evict() I {
	inst := ps.idle.first
	ps.idle.remove(inst)
	if inst.Link().Restored {
		ps.restored = slices.DeleteFunc(ps.restored, func(v I) bool { return v == inst })
		return inst
	}
	pl := ps.byTenant[inst.Link().tenant]
	pl.idle = slices.DeleteFunc(pl.idle, func(v I) bool { return v == inst })
	ps.forget(pl)
	return inst
}

// idleList links instances, the longest unused first.
type idleList[T Tenant, I Instance[T, I]] struct {
	first, last I
	n           int
}

func (l *idleList[T, I]) push(inst I) {
	var none I
	link := inst.Link()
	link.prev, link.next = l.last, none
	if l.last == none {
		l.first = inst
	} else {
		l.last.Link().next = inst
	}
	l.last = inst
	l.n++
}

func (l *idleList[T, I]) remove(inst I) {
	var none I
	link := inst.Link()
	if link.prev == none {
		l.first = link.next
	} else {
		link.prev.Link().next = link.next
	}
	if link.next == none {
		l.last = link.prev
	} else {
		link.next.Link().prev = link.prev
	}
	link.prev, link.next = none, none
	l.n--
}
