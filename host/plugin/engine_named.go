package plugin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/usagereport"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/usage"
)

// Engine runs the calls of one plugin in a way of its own, instead of in this
// package's sandbox. It is for plugins that are trusted: what a call computes,
// and how much memory it takes, is the engine's to bound.
type Engine interface {
	// Call runs an export: one of pdk/ABI.md or a function of the plugin. failed
	// says that output is an error object, or text that is one's message. The call
	// ends with ctx. Call is used by many goroutines at once and keeps tenants
	// apart. It keeps neither the call nor, once it has returned, output.
	Call(ctx context.Context, call *EngineCall) (output []byte, failed bool, err error)

	// Close ends the engine. No call is in progress, and it comes once.
	Close() error
}

// EngineCall is a call that an [Engine] runs.
type EngineCall struct {
	Tenant string
	Export string
	Input  []byte
	Fresh  bool         // it must find nothing of calls before it
	Rights *Permissions // what the plugin is granted for the tenant; not to be changed

	// Operate runs a host operation of pdk/ABI.md with these rights. It is for
	// one goroutine at a time, until the call returns.
	Operate func(ctx context.Context, op string, request []byte) (response []byte, err error)
}

// NewEngine makes the engine of one plugin, of a module that imports from
// Extism's modules. opts has the limits that hold for the plugin; neither is to
// be changed.
type NewEngine func(ctx context.Context, wasm []byte, opts *LoadOptions) (Engine, error)

// setEngine has an engine that the options name run the plugin. Of the limits
// those hold that can be held from outside: ModuleBytes, StartTimeout, Timeout,
// InputBytes, OutputBytes, HostCalls, ResponseBytes, Instances and Waiting.
func (p *Plugin) setEngine(ctx context.Context, wasm []byte, opts *LoadOptions) (guestmodule.Module, error) {
	open := p.runtime.opts.Engines[opts.Engine]
	if open == nil {
		return guestmodule.Module{}, host.Errorf(host.InvalidArgument, "there is no engine %q", clean(opts.Engine)).
			WithHint("leave it out for the sandbox, or name one of the runtime's Engines: %s", list(slices.Sorted(maps.Keys(p.runtime.opts.Engines))))
	}
	if len(wasm) > p.limits.ModuleBytes {
		return guestmodule.Module{}, tooLarge(len(wasm), p.limits.ModuleBytes)
	}
	structure, err := wasmmeter.Read(wasm)
	if err != nil {
		return guestmodule.Module{}, err
	}
	m := guestmodule.Module{Wasm: structure}
	if m.Convention() != guestmodule.Extism {
		return guestmodule.Module{}, refusal.Unsupported("it is not an Extism plugin, and engine %q is for those", opts.Engine).WithHint("leave the engine out")
	}
	p.module.digest = digestName(structure.Digest[:])
	p.module.setExtism(m, opts, &p.limits)
	for e := range p.module.offers {
		p.module.offers[e] = m.HasFunction(abi.Export(e).String())
	}
	given := *opts
	given.Limits = p.limits
	ctx, cancel := context.WithTimeout(ctx, p.limits.StartTimeout)
	defer cancel()
	p.module.engine, err = open(ctx, wasm, &given)
	return m, engineError(ctx, p.id, "start", err)
}

func list(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}
	return strings.Join(names, ", ")
}

// engineError keeps an error of ours, and gives others a code.
func engineError(ctx context.Context, plugin, what string, err error) error {
	var ours *host.Error
	switch {
	case err == nil, errors.As(err, &ours):
		return err
	case ctx.Err() != nil:
		return callmeter.EndedError(ctx, "plugin %q: %s", plugin, what)
	}
	return host.Errorf(host.Internal, "plugin %q: %s: %s", plugin, what, clean(err.Error()))
}

// invokeEngine is [Plugin.serve] by an engine that the options name. pl has been entered.
func (p *Plugin) invokeEngine(ctx context.Context, pl *pool, r *callRequest, arrived time.Time, cost *host.Cost) (output []byte, guestErr bool, err error) {
	defer p.instances.Exit(ctx, pl)
	b := pl.Tenant()
	rights, name := b.rights(), p.module.exportName(r.export)
	if r.export < abi.ExportCount && !p.module.offers[r.export] {
		return nil, false, host.Errorf(host.Unimplemented, "plugin %q does not export %s", p.id, name)
	}
	timeout := rights.limits.Timeout
	if r.export == abi.Describe {
		timeout = rights.limits.StartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &engineCall{plugin: p, export: name, limits: &rights.limits, binding: b, ops: r.ops}
	if r.raw != nil && r.export != abi.Describe {
		c.ops = &rawOperations{binding: b, export: r.export, opts: r.raw}
	}
	started := time.Now()
	output, guestErr, err = p.module.engine.Call(ctx, &EngineCall{Tenant: b.ID(), Export: name, Input: r.input,
		Fresh: p.module.startsFresh(r.export), Rights: &rights.granted, Operate: c.operate})
	took := time.Since(started)
	switch {
	case err != nil:
		output, guestErr, err = nil, false, engineError(ctx, p.id, name, err)
	case len(output) > rights.limits.OutputBytes:
		output, guestErr = nil, false
		err = host.Errorf(host.ResourceExhausted, "plugin %q: %s wrote more than the limit OutputBytes of %d", p.id, name, rights.limits.OutputBytes)
	case guestErr:
		output = extismError(string(output[:min(len(output), extism.MaxErrorText)]))
		r.failed = abi.NewGuestError(p.id, name, output)
	case r.read != nil:
		if err = r.read(ctx, output); err != nil && ctx.Err() != nil {
			err = callmeter.EndedError(ctx, "plugin %q: reading what %s answered", p.id, name)
		}
	}
	*cost = host.Cost{Plugin: p.id, DurationUS: took.Microseconds(), HostCalls: c.calls,
		InputBytes: len(r.input), OutputBytes: len(output), WaitUS: started.Sub(arrived).Microseconds()}
	b.usageRecord(r.export).Add(cost, took, started.Sub(arrived), usagereport.OutcomeOf(err, guestErr))
	return output, guestErr, err
}

// engineCall is what a call of an engine may ask for.
type engineCall struct {
	plugin  *Plugin
	export  string
	limits  *Limits
	binding *binding
	ops     operations
	calls   int
}

// operate is [EngineCall.Operate].
func (c *engineCall) operate(ctx context.Context, op string, request []byte) ([]byte, error) {
	if c.calls++; c.calls > c.limits.HostCalls {
		return nil, host.Errorf(host.ResourceExhausted, "plugin %q: %s made more than the limit HostCalls of %d", c.plugin.id, c.export, c.limits.HostCalls)
	}
	if err := c.binding.payer(ctx).Charge(usage.HostCalls, 1, time.Now()); err != nil {
		return nil, err
	}
	if _, err := c.plugin.runtime.operationPrice(op, len(request)); err != nil {
		return nil, err
	}
	if len(request) > c.limits.ResponseBytes {
		return nil, host.Errorf(host.ResourceExhausted, "request of %s is %d bytes, more than the limit ResponseBytes of %d", op, len(request), c.limits.ResponseBytes)
	}
	if err := checkSigns(op, jsondoc.CountSigns(request)); err != nil {
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
