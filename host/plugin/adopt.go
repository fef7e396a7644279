package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Engine runs the calls of one plugin in a way of its own, instead of in this
// package's sandbox. It is for plugins that are trusted: what a call may compute
// and how much memory it takes is the engine's to bound.
type Engine interface {
	// Call runs an export: one of pdk/ABI.md or a function of the plugin. failed
	// says that output is an error object, or text that is one's message. The
	// call ends with ctx, and may ask for host operations by operate until then.
	// It is called by many goroutines at once, and must keep tenants apart. It
	// keeps neither input nor, once it has returned, output.
	Call(ctx context.Context, tenant, export string, input []byte, operate Operate) (output []byte, failed bool, err error)

	// Exports lists the names of the functions that can be called.
	Exports() []string

	// Digest is "sha256:" and the hex digest of the module.
	Digest() string

	// Close ends the engine. No call is in progress.
	Close() error
}

// Operate runs a host operation of pdk/ABI.md with what the plugin is granted.
type Operate func(ctx context.Context, op string, request []byte) (response []byte, err error)

// Adopt returns a plugin whose calls e runs, under the operator's id. It serves
// the same interfaces as a loaded one, with the same tenants, permissions and
// host operations, and of the limits those that hold from outside: Timeout,
// InputBytes, OutputBytes, HostCalls, ResponseBytes and Instances. Calls cost no
// instructions, because nobody counts them. Closing the plugin closes e, and so
// does an error here.
func (rt *Runtime) Adopt(ctx context.Context, id string, e Engine, opts *LoadOptions) (*Plugin, error) {
	p, err := rt.adopt(ctx, id, e, opts)
	if err != nil {
		return nil, loadError(id, errors.Join(err, e.Close()))
	}
	return p, nil
}

func (rt *Runtime) adopt(ctx context.Context, id string, e Engine, opts *LoadOptions) (*Plugin, error) {
	if opts == nil {
		opts = &LoadOptions{}
	}
	if id == "" {
		return nil, host.Errorf(host.InvalidArgument, "a plugin needs an id")
	}
	if err := errors.Join(opts.Limits.check(), opts.Extism.check()); err != nil {
		return nil, err
	}
	if err := rt.startLoad(); err != nil {
		return nil, err
	}
	defer rt.loads.Done()
	p := &Plugin{runtime: rt, id: id, digest: e.Digest(), limits: rt.limitsFor(opts), pools: map[string]*pool{}, engine: e,
		extism: &extismPlugin{ExtismOptions: opts.Extism, asks: Permissions{HTTP: opts.Granted.HTTP}, exports: ownFunctions(e.Exports())}}
	var err error
	if p.manifest, err = p.readManifest(ctx, nil); err != nil {
		return nil, err
	}
	p.only = slices.Clone(opts.Tenants)
	if err := p.Grant(opts.Granted); err != nil {
		return nil, err
	}
	p.leaveSeats()
	return p, rt.register(p)
}

// ownFunctions are those that are neither of our contract nor start-up code.
func ownFunctions(exports []string) (list []string) {
	for _, name := range exports {
		if !strings.HasPrefix(name, exportPrefix) && !startUp(name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// hasExport reports whether a function of the contract can be called.
func (p *Plugin) hasExport(e export) bool {
	if p.engine != nil {
		return slices.Contains(p.engine.Exports(), e.String())
	}
	return p.code.exports(e.String())
}

// invokeEngine is invoke by another engine. pl has been entered.
func (p *Plugin) invokeEngine(ctx context.Context, pl *pool, r *callRequest, arrived time.Time, cost *host.Cost) (output []byte, guestErr bool, err error) {
	defer p.exit(pl)
	limits, name := &pl.seat.rights().limits, p.exportName(r.export)
	timeout := limits.Timeout
	if r.export == exportDescribe {
		timeout = limits.StartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &engineCall{plugin: p, export: name, limits: limits, seat: pl.seat, ops: r.ops}
	if r.raw != nil && r.export != exportDescribe {
		c.ops = &rawOperations{seat: pl.seat, export: r.export, opts: r.raw}
	}
	started := time.Now()
	output, guestErr, err = p.engine.Call(ctx, pl.tenant, name, r.input, c.operate)
	took := time.Since(started)
	switch {
	case ctx.Err() != nil && err != nil:
		err = gone(ctx, "plugin %q: %s", p.id, name)
	case err != nil:
		err = host.Errorf(host.Internal, "plugin %q: %s: %s", p.id, name, clean(err.Error()))
	case len(output) > limits.OutputBytes:
		err = host.Errorf(host.ResourceExhausted, "plugin %q: %s wrote more than the limit OutputBytes of %d", p.id, name, limits.OutputBytes)
	case guestErr:
		output = extismError(string(output))
	}
	*cost = host.Cost{Plugin: p.id, DurationUS: took.Microseconds(), HostCalls: c.calls,
		InputBytes: len(r.input), OutputBytes: len(output), WaitUS: started.Sub(arrived).Microseconds()}
	pl.seat.tally(r.export).record(cost, took, started.Sub(arrived), outcomeOf(err, guestErr))
	return output, guestErr, err
}

// engineCall is a call that another engine runs.
type engineCall struct {
	plugin *Plugin
	export string
	limits *Limits
	seat   *seat
	ops    operations
	calls  int
}

// operate is the [Operate] of the call. An engine runs a call in one goroutine.
func (c *engineCall) operate(ctx context.Context, op string, request []byte) ([]byte, error) {
	if c.calls++; c.calls > c.limits.HostCalls {
		return nil, host.Errorf(host.ResourceExhausted, "plugin %q: %s made more than the limit HostCalls of %d", c.plugin.id, c.export, c.limits.HostCalls)
	}
	if err := c.seat.account.charge(hostCalls, 1); err != nil {
		return nil, err
	}
	if _, known := prices[op]; !known {
		return nil, host.Errorf(host.Unimplemented, "this host has no operation %q", clean(op))
	}
	if len(request) > c.limits.ResponseBytes {
		return nil, host.Errorf(host.ResourceExhausted, "request of %s is %d bytes, more than the limit ResponseBytes of %d", op, len(request), c.limits.ResponseBytes)
	}
	if err := checkSigns(op, signs(request)); err != nil {
		return nil, err
	}
	if c.ops == nil {
		return nil, host.Errorf(host.FailedPrecondition, "%s has nothing to call %q on", c.export, op)
	}
	response, err := c.ops.operate(ctx, op, request)
	if err == nil && len(response) > c.limits.ResponseBytes {
		err = host.Errorf(host.ResourceExhausted, "response of %s is %d bytes, more than the limit ResponseBytes of %d", op, len(response), c.limits.ResponseBytes)
	}
	return response, err
}
