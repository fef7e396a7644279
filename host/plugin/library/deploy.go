package library

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/plugin"
)

// deployer makes this host run the plugins of a library.
type deployer struct {
	rows    *rows
	runtime *plugin.Runtime
	limits  plugin.Limits
	changed func(tenant, id string) // may be nil
	logger  *slog.Logger
	working chan struct{} // holds a value for each module that is compiled

	ctx        context.Context // the lifetime: ends with close
	cancel     context.CancelFunc
	background sync.WaitGroup // deployments of other hosts' changes, unloads, and the reader of changes

	mu          sync.Mutex
	deployments map[name]*deployment
	slots       map[string]map[string]*plugin.Slot // of the deployments that have one, by tenant and id
	retries     map[name]retry                     // deployments that failed
}

func newDeployer(rs *rows, rt *plugin.Runtime, opts *Options) *deployer {
	h := &deployer{rows: rs, runtime: rt, limits: opts.Limits, changed: opts.Changed, logger: opts.Logger,
		working: make(chan struct{}, maxWorking), deployments: map[name]*deployment{}, slots: map[string]map[string]*plugin.Slot{}, retries: map[name]retry{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// close ends the background work. Plugins stay as they serve.
func (h *deployer) close() {
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.background.Wait()
}

// due returns the plugins whose deployments are tried again now.
func (h *deployer) due() (names []name) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, r := range h.retries {
		if !time.Now().Before(r.at) {
			names = append(names, n)
		}
	}
	return names
}

// deployment is a plugin on this host.
type deployment struct {
	turn chan struct{} // a mutex: holds a value while the deployment changes
	slot *plugin.Slot  // nil until a version serves; guarded by turn and, for readers, by deployer.mu

	// Guarded by turn.
	serving string        // the digest that was deployed last, also if the sandbox has rolled it back since
	closed  chan struct{} // closed when the slot that was here before has ended; nil without one

	// Guarded by deployer.mu.
	users  int
	queued bool // a goroutine waits to deploy the stored record
}

// retry says when a deployment that failed is tried again.
type retry struct {
	at    time.Time
	pause time.Duration
}

// enter takes the turn to change a deployment.
func (h *deployer) enter(ctx context.Context, n name) (*deployment, error) {
	h.mu.Lock()
	d := h.deployments[n]
	if d == nil {
		d = &deployment{turn: make(chan struct{}, 1)}
		h.deployments[n] = d
	}
	d.users++
	h.mu.Unlock()
	select {
	case d.turn <- struct{}{}:
		return d, nil
	case <-ctx.Done():
		h.forget(n, d)
		return nil, fault.ContextError(ctx)
	}
}

// leave gives the turn back.
func (h *deployer) leave(n name, d *deployment) {
	<-d.turn
	h.forget(n, d)
}

// forget ends a use of a deployment. One of no plugin is dropped with its last use.
func (h *deployer) forget(n name, d *deployment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.users--; d.users == 0 && d.slot == nil && !d.queued {
		delete(h.deployments, n)
	}
}

func (h *deployer) deployedNames() (names []name) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.deployments {
		names = append(names, n)
	}
	return names
}

// slot returns the slot of a plugin on this host; nil without one.
func (h *deployer) slot(n name) *plugin.Slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.slots[n.tenant][n.id]
}

// ids returns the plugins of a tenant that have slots on this host.
func (h *deployer) ids(tenant string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.slots[tenant]))
}

// setSlot sets the slot of a deployment, whose turn the caller has; nil is none.
func (h *deployer) setSlot(n name, d *deployment, s *plugin.Slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.slot = s
	of := h.slots[n.tenant]
	switch {
	case s != nil && of == nil:
		h.slots[n.tenant] = map[string]*plugin.Slot{n.id: s}
	case s != nil:
		of[n.id] = s
	default:
		if delete(of, n.id); len(of) == 0 {
			delete(h.slots, n.tenant)
		}
	}
}

// deployLater deploys the stored record of a plugin in the background. One goroutine for
// each plugin waits at a time.
func (h *deployer) deployLater(n name) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.deployments[n]
	if d == nil {
		d = &deployment{turn: make(chan struct{}, 1)}
		h.deployments[n] = d
	}
	if d.queued || h.ctx.Err() != nil {
		return
	}
	d.queued = true
	h.begin(func() { h.deployStored(h.ctx, n) })
}

// deployStored deploys the stored record of a plugin, and says when that is tried again if
// it fails.
func (h *deployer) deployStored(ctx context.Context, n name) {
	ctx, cancel := context.WithTimeout(ctx, deployTimeout)
	defer cancel()
	d, err := h.enter(ctx, n)
	h.mu.Lock()
	if d != nil {
		d.queued = false // a later change is read by another call
	} else if waited := h.deployments[n]; waited != nil {
		waited.queued = false
	}
	h.mu.Unlock()
	if err == nil {
		defer h.leave(n, d)
		var r *record
		if r, _, err = h.rows.read(ctx, n); err == nil {
			err = h.deploy(ctx, d, n, r)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.retries, n)
		return
	}
	if h.ctx.Err() != nil {
		return
	}
	pause := min(max(2*h.retries[n].pause, firstRetry), lastRetry)
	h.retries[n] = retry{at: time.Now().Add(pause), pause: pause}
	h.logger.WarnContext(ctx, "a plugin does not serve as the store says", "tenant", n.tenant, "plugin", n.id, "retry", pause, "error", err)
}

// deploy makes this host run a plugin as a record says; nil is a plugin that is removed.
// The caller has the turn.
func (h *deployer) deploy(ctx context.Context, d *deployment, n name, r *record) error {
	before := d.serving
	err := h.deployRecord(ctx, d, n, r)
	if d.serving != before && h.changed != nil {
		h.changed(n.tenant, n.id)
	}
	return err
}

func (h *deployer) deployRecord(ctx context.Context, d *deployment, n name, r *record) error {
	switch {
	case r == nil:
		h.endSlot(n, d)
		return nil
	case r.Serving == "":
		return h.deactivate(d)
	case d.slot == nil:
		return h.newSlot(ctx, d, n, r)
	}
	before := d.slot.Granted()
	if err := d.slot.Grant(ctx, r.Granted); err != nil && fault.CodeOf(err) != fault.PermissionDenied { // a version that is held back is not a version of the library
		return err
	}
	if d.serving == r.Serving {
		return nil
	}
	if err := h.replace(ctx, d, n, r.Serving); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = d.slot.Grant(undo, before) // the version before serves with its grants; the store's are deployed later
		return err
	}
	d.serving = r.Serving
	return nil
}

// module returns the module of a version, with the right to compile it, which endWork gives
// back.
func (h *deployer) module(ctx context.Context, n name, digest string) ([]byte, error) {
	if err := h.beginWork(ctx); err != nil {
		return nil, err
	}
	wasm, err := h.rows.modules(n.tenant).Get(ctx, digest)
	if err != nil {
		h.endWork()
		return nil, kverror.Wrap(err, "read the module of plugin %q", n.id)
	}
	return wasm, nil
}

// newSlot loads the first version of a plugin on this host.
func (h *deployer) newSlot(ctx context.Context, d *deployment, n name, r *record) error {
	if d.closed != nil {
		select {
		case <-d.closed:
		case <-ctx.Done():
			return fault.ContextError(ctx)
		}
	}
	wasm, err := h.module(ctx, n, r.Serving)
	if err != nil {
		return err
	}
	defer h.endWork()
	s, err := h.runtime.NewSlot(ctx, n.id, wasm, &plugin.SlotOptions{LoadOptions: plugin.LoadOptions{Owner: n.tenant, Limits: h.limits, Granted: r.Granted}})
	if err != nil {
		return err
	}
	h.setSlot(n, d, s)
	d.serving = r.Serving
	return nil
}

// replace makes another version serve: the one that the slot keeps, or that of the store. It
// was accepted before, whatever it asks for.
func (h *deployer) replace(ctx context.Context, d *deployment, n name, digest string) error {
	if kept := lastKept(d.slot); kept == digest {
		_, err := d.slot.Rollback(ctx)
		return err
	}
	wasm, err := h.module(ctx, n, digest)
	if err != nil {
		return err
	}
	defer h.endWork()
	v, err := d.slot.Replace(ctx, wasm)
	if v.Phase == plugin.Held {
		_, err = d.slot.Accept(ctx)
	}
	return err
}

// lastKept returns the digest of the version that a rollback of a slot returns to.
func lastKept(s *plugin.Slot) (digest string) {
	state := s.State()
	for _, v := range state.Versions {
		if v.Phase == plugin.Kept {
			digest = v.Digest
		}
	}
	if state.Serving() == nil {
		return ""
	}
	return digest
}

// deactivate lets no call in, and keeps the slot: agents have parts of it.
func (h *deployer) deactivate(d *deployment) error {
	if d.slot == nil || d.serving == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, unloadTimeout)
	defer cancel()
	if err := d.slot.Unload(ctx); err != nil && fault.CodeOf(err) != fault.DeadlineExceeded { // its calls end later
		return err
	}
	d.serving = ""
	return nil
}

// endSlot ends the calls of a plugin, and frees its id when the last one has ended.
func (h *deployer) endSlot(n name, d *deployment) {
	d.serving = ""
	if d.slot == nil {
		return
	}
	s, closed := d.slot, make(chan struct{})
	h.setSlot(n, d, nil)
	d.closed = closed
	if h.unload(h.ctx, s) {
		close(closed)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d.users++ // its id is free when the slot has ended, and the next version waits for that
	h.begin(func() {
		defer h.forget(n, d)
		for h.ctx.Err() == nil { // then the runtime closes it
			if h.unload(h.ctx, s) {
				close(closed)
				return
			}
		}
	})
}

// unload ends a slot, unless calls of it are in progress for longer than unloadTimeout.
func (h *deployer) unload(ctx context.Context, s *plugin.Slot) bool {
	ctx, cancel := context.WithTimeout(ctx, unloadTimeout)
	defer cancel()
	if err := s.Unload(ctx); err != nil {
		return fault.CodeOf(err) == fault.FailedPrecondition // it is closed with the runtime
	}
	s.Close()
	return true
}

// begin runs fn in the background, unless the deployer is closed. h.mu is held.
func (h *deployer) begin(fn func()) {
	if h.ctx.Err() == nil {
		h.background.Go(fn)
	}
}

// beginWork waits until fewer modules are compiled.
func (h *deployer) beginWork(ctx context.Context) error {
	select {
	case h.working <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.ContextError(ctx)
	}
}

func (h *deployer) endWork() { <-h.working }
