package plugin

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/instancepool"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// instancePools are the calls and idle instances of one plugin, and pool is one tenant's
// part of them.
type (
	instancePools = instancepool.Pools[*binding, *instance]
	pool          = instancepool.Pool[*binding, *instance]
)

// instances are the calls and instances of one plugin: it restores and makes those that its
// pools do not have.
type instances struct {
	*instancePools
	plugin *Plugin
}

// open makes the pools of the plugin.
func (is *instances) open(p *Plugin) {
	is.plugin = p
	is.instancePools = instancepool.New[*binding, *instance](instancepool.Options[*binding]{
		Plugin: p.id, Sweeper: p.runtime.sweeper, Acquire: p.bindings.acquire, Blameless: blameless,
		MaxIdle: p.limits.MaxIdle, IdleTime: p.limits.IdleTime,
	})
}

// ID implements [instancepool.Tenant].
func (b *binding) ID() string { return b.account.id }

// CallLimits implements [instancepool.Tenant].
func (b *binding) CallLimits() (instancepool.Limits, error) {
	r := b.rights()
	limits := instancepool.Limits{Instances: r.limits.Instances, Waiting: r.limits.Waiting, Timeout: r.limits.Timeout}
	if !r.served {
		return limits, errNotServed()
	}
	return limits, nil
}

// Release implements [instancepool.Tenant].
func (b *binding) Release() { b.pools.Add(-1) }

// Link implements [instancepool.Instance].
func (inst *instance) Link() *instancepool.Link[*instance] { return &inst.link }

// Suits implements [instancepool.Instance].
func (inst *instance) Suits(b *binding) bool { return inst.image.suits(b) }

// take returns an instance for a call of the pool's tenant, made if need be. One
// that could not be started comes with the error, to be closed.
func (is *instances) take(ctx context.Context, pl *pool, flow *fairsched.Flow, fresh bool) (*instance, error) {
	b := pl.Tenant()
	inst, foreign := is.Take(pl, fresh)
	if foreign {
		inst.assign(b, flow)
		inst.beginStart(ctx, is.plugin.limits.Instructions)
		if !(inst.restore() && inst.Suits(b) || inst.meter.Unscheduled()) {
			inst.Close()
			inst = nil
		}
	}
	if inst == nil {
		return is.make(ctx, b, flow)
	}
	inst.assign(b, flow)
	inst.lend(flow)
	if inst.meter.Unscheduled() {
		return inst, inst.meter.LateError()
	}
	return inst, nil
}

// make is newInstance, which gets the memory of idle instances of all
// plugins if there is no other.
func (is *instances) make(ctx context.Context, b *binding, flow *fairsched.Flow) (*instance, error) {
	p := is.plugin
	inst, err := p.newInstance(ctx, b, flow)
	if err == nil || !errors.Is(err, linearmem.ErrExhausted) || !p.runtime.retireIdle() {
		return inst, err
	}
	inst.Close()
	return p.newInstance(ctx, b, flow)
}

// giveBack ends a call and keeps its instance if the call returned normally and the
// instance is not worn; otherwise it closes the instance. It reports whether the call
// has left the scheduler.
func (is *instances) giveBack(ctx context.Context, pl *pool, inst *instance, healthy, fresh bool) (unscheduled bool) {
	p, limits := is.plugin, inst.call.limits
	keep := healthy && inst.calls < limits.MaxCallsPerInstance
	if keep && (fresh || inst.guest.swollen(p.limits.MemoryBytes)) {
		keep = inst.restore()
	}
	unscheduled = inst.meter.Unscheduled()
	inst.rest()
	inst.lend(nil)
	keep = keep && !p.runtime.memories.Tight()
	if keep && inst.link.Restored {
		inst.release()
	}
	is.GiveBack(ctx, pl, inst, keep, limits.IdleInstances)
	return unscheduled
}

// lend gives the memory of the instance to a flow, in place of the one that had it; nil is
// that of idle instances.
func (inst *instance) lend(flow *fairsched.Flow) {
	inst.guest.linear.Lend(flow)
	inst.extism.Lend(flow)
	inst.callStack.claim.Lend(flow)
}
