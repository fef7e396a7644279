package plugin

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Plugin is a loaded plugin. It is safe for concurrent use; calls beyond the
// limit Instances wait.
type Plugin struct {
	runtime  *Runtime
	id       string
	digest   string
	limits   Limits
	code     *code
	manifest *Manifest
	trial    atomic.Bool // it is tried before it serves: for nobody, with nothing granted
	only     []string    // the tenants that have it; nil is all
	grants   atomic.Pointer[Permissions]
	extism   *extismPlugin // nil for a native one

	mu           sync.Mutex
	pools        map[string]*pool // by tenant; one without calls and instances is removed
	idle         list.List        // of *instance, of all tenants; the longest unused is in front
	calls        int              // in progress
	seats        map[string]*seat // by tenant
	sweepSeatsAt int
	closed       bool
	drained      chan struct{} // closed once closed is set and no call is in progress
}

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
	p.retirePools()
	p.leaveSeats()
	p.runtime.mu.Lock()
	delete(p.runtime.plugins, p)
	p.runtime.mu.Unlock()
	if p.code != nil {
		p.runtime.release(p.code)
	}
}

// retirePools closes the idle instances of all tenants.
func (p *Plugin) retirePools() {
	p.mu.Lock()
	var idle []*instance
	for p.idle.Len() > 0 {
		idle = append(idle, p.evict())
	}
	p.mu.Unlock()
	for _, inst := range idle {
		inst.close()
	}
}

// pool holds one tenant's instances of one plugin. Its fields are guarded by
// Plugin.mu, but for the channel.
type pool struct {
	tenant string
	seat   *seat
	slots  chan struct{} // one for each running call
	calls  int           // running and waiting
	idle   []*instance   // the last used at the end
}

// enter begins a call for a tenant, if it has the plugin.
func (p *Plugin) enter(tenant string) (*pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed("\"" + p.id + "\"")
	}
	pl := p.pools[tenant]
	if pl == nil {
		s := p.seatLocked(tenant)
		pl = &pool{tenant: tenant, seat: s, slots: make(chan struct{}, s.rights().limits.Instances)}
	}
	if !pl.seat.rights().served {
		return nil, errNotServed()
	}
	p.pools[tenant] = pl
	pl.calls++
	p.calls++
	return pl, nil
}

// forget removes a pool that nothing needs. Plugin.mu is held.
func (p *Plugin) forget(pl *pool) {
	if pl.calls == 0 && len(pl.idle) == 0 {
		delete(p.pools, pl.tenant)
	}
}

// leave ends what enter began.
func (p *Plugin) leave(pl *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl.calls--
	p.forget(pl)
	if p.calls--; p.closed && p.calls == 0 {
		close(p.drained)
	}
}

// lease returns an instance for one call. The caller gives it back with
// release. An instance that could not be started comes with the error, to
// be abandoned.
func (p *Plugin) lease(ctx context.Context, pl *pool) (*instance, error) {
	if err := pl.wait(ctx, p); err != nil {
		return nil, err
	}
	if inst := p.reuse(pl); inst != nil {
		return inst, nil
	}
	inst, err := p.newInstance(ctx, pl.seat)
	if err != nil {
		<-pl.slots
	}
	return inst, err
}

// reuse takes the instance of the pool that was used last; nil if there is none.
func (p *Plugin) reuse(pl *pool) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(pl.idle)
	if n == 0 {
		return nil
	}
	inst := pl.idle[n-1]
	pl.idle = pl.idle[:n-1]
	p.idle.Remove(inst.place)
	return inst
}

// wait takes a slot, waiting at most as long as a call may take.
func (pl *pool) wait(ctx context.Context, p *Plugin) error {
	select {
	case pl.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(p.limits.Timeout)
	defer timer.Stop()
	select {
	case pl.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return gone(ctx, "plugin %q: a call that waited for an instance", p.id)
	case <-timer.C:
		return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: all %d instances that the limit Instances allows a tenant are busy", p.id, p.limits.Instances).
			WithHint("raise the limit or call it less often at once"))
	}
}

// release takes an instance back: to be used again if its call returned
// normally and it is neither worn nor swollen, to be closed otherwise.
func (p *Plugin) release(pl *pool, inst *instance, healthy bool) {
	surplus := inst
	if healthy && inst.calls < p.limits.CallsAnew && !inst.swollen() {
		inst.rest()
		surplus = p.keep(pl, inst)
	}
	if surplus != nil {
		surplus.close()
	}
	<-pl.slots
}

// keep makes an instance idle and returns the one to close for it, if there are
// too many: the given one, or the longest unused of any tenant.
func (p *Plugin) keep(pl *pool, inst *instance) (surplus *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(pl.idle) >= p.limits.IdleInstances {
		return inst
	}
	pl.idle = append(pl.idle, inst)
	inst.place = p.idle.PushBack(inst)
	if p.idle.Len() > p.limits.IdleOfAll {
		return p.evict()
	}
	return nil
}

// evict removes and returns the longest unused instance. Plugin.mu is held.
func (p *Plugin) evict() *instance {
	inst := p.idle.Remove(p.idle.Front()).(*instance)
	pl := p.pools[inst.tenant]
	pl.idle = slices.DeleteFunc(pl.idle, func(v *instance) bool { return v == inst })
	p.forget(pl)
	return inst
}

// swollen reports whether memory, which never shrinks, is near its limit.
func (inst *instance) swollen() bool {
	mem := inst.module.Memory()
	return mem != nil && int64(mem.Size()) > inst.plugin.limits.MemoryBytes/4*3
}

// gone is the error of what ended because ctx did: its code is canceled or
// deadline_exceeded, whatever the cause.
func gone(ctx context.Context, format string, args ...any) error {
	cause := context.Cause(ctx)
	return &host.Error{Code: host.CodeOf(ctx.Err()), Err: cause,
		Message: fmt.Sprintf(format, args...) + " was stopped: " + cause.Error()}
}

// invoke is the way of every call: lease, run, account, give back. guestErr
// says that output is an error object.
func (p *Plugin) invoke(ctx context.Context, tenant string, e export, input []byte, ops operations) (output []byte, guestErr bool, cost *host.Cost, err error) {
	pl, err := p.enter(tenant)
	if err != nil {
		return nil, false, nil, err
	}
	defer p.leave(pl)
	limits := &pl.seat.rights().limits
	if len(input) > limits.InputBytes {
		return nil, false, nil, blameless(host.Errorf(host.ResourceExhausted, "plugin %q: the input of %s is %d bytes, more than the limit InputBytes of %d",
			p.id, p.exportName(e), len(input), limits.InputBytes))
	}
	if err := pl.seat.account.open(); err != nil {
		return nil, false, nil, err
	}
	started := time.Now()
	inst, err := p.lease(ctx, pl)
	if err != nil {
		return nil, false, inst.abandon(started), err
	}
	started = time.Now()
	timeout := limits.Timeout
	if e == exportDescribe {
		timeout = p.limits.StartTimeout
	}
	inst.begin(ctx, p.exportName(e), timeout, limits, input, ops)
	output, guestErr, err = inst.run(e)
	cost = inst.cost(started)
	_ = inst.settle(cost.Instructions) // the next call learns that the budget is used up
	p.release(pl, inst, err == nil)
	return output, guestErr, cost, err
}

// call is invoke with the guest's error as an error.
func (p *Plugin) call(ctx context.Context, tenant string, e export, input []byte, ops operations) ([]byte, *host.Cost, error) {
	output, guestErr, cost, err := p.invoke(ctx, tenant, e, input, ops)
	if err == nil && guestErr {
		err = guestError(p.id, p.exportName(e), output)
	}
	return output, cost, err
}

// describeTenant is whose instance a plugin describes itself in: nobody's.
const describeTenant = ""

// readManifest takes the manifest from the module's section, or has the plugin
// describe itself.
func (p *Plugin) readManifest(ctx context.Context, section []byte) (*Manifest, error) {
	if section != nil {
		return readManifest(section)
	}
	if !p.code.exports(exportDescribe.String()) {
		if p.extism != nil {
			return p.plainManifest()
		}
		return nil, noManifest()
	}
	out, _, err := p.call(ctx, describeTenant, exportDescribe, nil, nil)
	if err != nil {
		return nil, err
	}
	return readManifest(out)
}

func noManifest() error {
	return unsupported("it has no manifest: neither a custom section %s nor an export %s", manifestSection, exportDescribe).
		WithHint("build it with: agenthost plugin build")
}
