package plugin

import (
	"context"
	"sync"
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
	granted  Permissions

	mu      sync.Mutex
	pools   map[string]*pool // by tenant
	calls   int              // in progress
	closed  bool
	drained chan struct{} // closed once closed is set and no call is in progress
}

// ID returns the id under which the plugin was loaded.
func (p *Plugin) ID() string { return p.id }

// Digest returns "sha256:" and the hex digest of the module as it was loaded.
func (p *Plugin) Digest() string { return p.digest }

// Manifest returns what the plugin says of itself. It must not be changed.
func (p *Plugin) Manifest() *Manifest { return p.manifest }

// Granted returns what the plugin may do.
func (p *Plugin) Granted() Permissions { return p.granted }

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
	pools := p.pools
	p.pools = map[string]*pool{}
	p.mu.Unlock()
	for _, pl := range pools {
		pl.close()
	}
}

// pool holds one tenant's instances of one plugin.
type pool struct {
	slots chan struct{} // one for each running call

	mu     sync.Mutex
	idle   []*instance
	closed bool
}

func (p *Plugin) pool(tenant string) (*pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed("\"" + p.id + "\"")
	}
	pl := p.pools[tenant]
	if pl == nil {
		pl = &pool{slots: make(chan struct{}, p.limits.Instances)}
		p.pools[tenant] = pl
	}
	p.calls++
	return pl, nil
}

// leave ends what pool began.
func (p *Plugin) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.closed && p.calls == 0 {
		close(p.drained)
	}
}

// lease returns an instance for one call. The caller gives it back with
// release. An instance that could not be started comes with the error, to
// be abandoned.
func (p *Plugin) lease(ctx context.Context, pl *pool, tenant string) (*instance, error) {
	if err := pl.wait(ctx, p); err != nil {
		return nil, err
	}
	pl.mu.Lock()
	if n := len(pl.idle); n > 0 {
		inst := pl.idle[n-1]
		pl.idle = pl.idle[:n-1]
		pl.mu.Unlock()
		return inst, nil
	}
	pl.mu.Unlock()
	inst, err := p.newInstance(ctx, tenant)
	if err != nil {
		<-pl.slots
	}
	return inst, err
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
		return context.Cause(ctx)
	case <-timer.C:
		return host.Errorf(host.ResourceExhausted, "plugin %q: all %d instances that the limit Instances allows a tenant are busy", p.id, p.limits.Instances).
			WithHint("raise the limit or call it less often at once")
	}
}

// release takes an instance back: to be used again if its call returned
// normally and it is neither worn nor swollen, to be closed otherwise.
func (p *Plugin) release(pl *pool, inst *instance, healthy bool) {
	keep := healthy && inst.calls < p.limits.CallsAnew && !inst.swollen()
	if keep {
		inst.call.ctx, inst.call.input, inst.call.output, inst.call.ops = nil, nil, nil, nil
		pl.mu.Lock()
		if keep = !pl.closed && len(pl.idle) < p.limits.IdleInstances; keep {
			pl.idle = append(pl.idle, inst)
		}
		pl.mu.Unlock()
	}
	if !keep {
		inst.close()
	}
	<-pl.slots
}

// swollen reports whether memory, which never shrinks, is near its limit.
func (inst *instance) swollen() bool {
	mem := inst.module.Memory()
	return mem != nil && int64(mem.Size()) > inst.plugin.limits.MemoryBytes/4*3
}

func (pl *pool) close() {
	pl.mu.Lock()
	pl.closed = true
	idle := pl.idle
	pl.idle = nil
	pl.mu.Unlock()
	for _, inst := range idle {
		inst.close()
	}
}

// invoke is the way of every call: lease, run, account, give back. guestErr
// says that output is an error object.
func (p *Plugin) invoke(ctx context.Context, tenant string, e export, input []byte, ops operations) (output []byte, guestErr bool, cost *host.Cost, err error) {
	if len(input) > p.limits.InputBytes {
		return nil, false, nil, host.Errorf(host.ResourceExhausted, "plugin %q: the input of %s is %d bytes, more than the limit InputBytes of %d",
			p.id, e, len(input), p.limits.InputBytes)
	}
	pl, err := p.pool(tenant)
	if err != nil {
		return nil, false, nil, err
	}
	defer p.leave()
	started := time.Now()
	inst, err := p.lease(ctx, pl, tenant)
	if err != nil {
		return nil, false, inst.abandon(started), err
	}
	started = time.Now()
	timeout := p.limits.Timeout
	if e == exportDescribe {
		timeout = p.limits.StartTimeout
	}
	inst.begin(ctx, e.String(), timeout, input, ops)
	output, guestErr, err = inst.run(e)
	cost = inst.cost(started)
	p.release(pl, inst, err == nil)
	return output, guestErr, cost, err
}

// call is invoke with the guest's error as an error.
func (p *Plugin) call(ctx context.Context, tenant string, e export, input []byte, ops operations) ([]byte, *host.Cost, error) {
	output, guestErr, cost, err := p.invoke(ctx, tenant, e, input, ops)
	if err == nil && guestErr {
		err = guestError(p.id, e.String(), output)
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
	if p.code.compiled.ExportedFunctions()[exportDescribe.String()] == nil {
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
