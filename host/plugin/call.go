package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
)

// CallResult is the outcome of a raw call.
type CallResult struct {
	Output     []byte
	GuestError bool       // Output is an error object
	Cost       *host.Cost // nil if nothing was begun
}

// CallOptions give a raw call what its host operations work on. Without it, or
// where the plugin is not granted it, the operations answer as they do in a run
// that has none.
type CallOptions struct {
	State *host.State         // of a tool, router or provider; nil is an empty one
	Own   *host.ProviderState // what a provider keeps; nil is nothing kept

	// View is the conversation of a processor, or of a router that is granted
	// messages. If the input has neither messages nor an outline, it gets what
	// the manifest asks for, as in a run.
	View *host.View

	Emit func(kind string, data json.RawMessage) // receives the events that a tool emits; nil drops them

	// Call is the call of a run that a tool's export works for: its operations are those
	// that the plugin's own tools have there. nil is a call outside a run. State is then
	// not looked at.
	Call *host.Call

	// Only are the operations that the guest may ask for, of those that it is granted; nil
	// is all of them.
	Only []string

	// Clock is where the virtual clock starts, and Seed what the fixed random bytes follow
	// from, in a call without the permissions clock and random. Zero values are those of
	// every other call.
	Clock time.Time
	Seed  uint64

	// Profile sums the call's instructions by function, in a runtime with
	// [Options.ProfileCalls]: in another one the call fails with code failed_precondition.
	Profile *guestprofile.Profile

	// Operate answers the host operations that the guest asks for, after limits
	// and prices: from a recording, for one. next is what the call would answer
	// without it, permissions included. An error goes to the guest as an object.
	// It is called in the goroutine of the call; nil is next.
	Operate func(ctx context.Context, op string, request []byte, next Operation) (response []byte, err error)
}

// Operation answers a host operation, given its name and its request.
type Operation func(ctx context.Context, op string, request []byte) (response []byte, err error)

// Call runs one export with a raw input: describe, tool, process, route,
// provide or observe, or a function of an Extism plugin. It is the door for
// tools that look at plugins; in a run the adapters are used. The result is not
// nil, also beside an error; code invalid_argument for a name that is none of
// these.
func (p *Plugin) Call(ctx context.Context, tenant, name string, input []byte, opts *CallOptions) (*CallResult, error) {
	// This much is inlined, so that neither value is allocated for a caller who
	// does not keep it.
	r := CallResult{Cost: new(host.Cost)}
	return &r, p.callRaw(ctx, tenant, name, input, opts, &r)
}

// callRaw does a raw call. It sets r.Cost to nil if nothing was begun.
func (p *Plugin) callRaw(ctx context.Context, tenant, name string, input []byte, opts *CallOptions, r *CallResult) error {
	e, err := p.module.exportNamed(name)
	if err == nil {
		if opts == nil {
			opts = &p.noOptions
		}
		if err = opts.checkProfile(p); err == nil {
			input, err = opts.completeInput(ctx, p, tenant, e, input)
		}
	}
	begun := false
	if err == nil {
		var cost host.Cost
		r.Output, r.GuestError, begun, err = (&callRequest{tenant: tenant, export: e, input: input, raw: opts}).serveBy(ctx, p, &cost)
		*r.Cost = cost
	}
	if !begun {
		r.Cost = nil
	}
	return err
}

// rawOperations are those that the adapters give each export. They are made when
// the guest first asks for one, which most calls never do.
type rawOperations struct {
	binding *binding
	export  abi.Export
	opts    *CallOptions
	made    operations
}

func (o *rawOperations) operate(ctx context.Context, op string, req []byte) ([]byte, error) {
	if o.opts.Only != nil && !slices.Contains(o.opts.Only, op) {
		return nil, host.Errorf(host.PermissionDenied, "the operation %s is not for this call", op)
	}
	if o.opts.Operate == nil {
		return o.own(ctx, op, req)
	}
	return rawbytes.Of(ctx).Plainly(req, func(req []byte) (out []byte, err error) {
		callmeter.WhileBlocked(ctx, func(ctx context.Context) { out, err = o.opts.Operate(ctx, op, req, o.own) })
		return out, err
	})
}

func (o *rawOperations) own(ctx context.Context, op string, req []byte) ([]byte, error) {
	if o.made == nil {
		if err := o.make(); err != nil {
			return nil, err
		}
	}
	return o.made.operate(ctx, op, req)
}

func (o *rawOperations) make() (err error) {
	s, state := o.binding, o.opts.State
	scope := host.Scope{Tenant: s.account.id}
	if state == nil {
		if state, err = host.NewState(nil, 0); err != nil {
			return err
		}
	}
	base := baseOperations{binding: s, scope: scope, state: state}
	switch {
	case o.export == abi.Provide || o.export == abi.Observe:
		if base.own = o.opts.Own; base.own == nil {
			base.own = host.NewProviderState(nil)
		}
		o.made = base
	case o.export == abi.Tool, o.export >= abi.ExportCount:
		if o.opts.Call != nil {
			o.made = s.toolOperations(o.opts.Call)
			return nil
		}
		call := host.NewCall("", nil, state)
		call.Scope = scope
		o.made = emittingOperations{s.toolOperations(call), o.opts.Emit}
	case o.export == abi.Process && o.opts.View != nil:
		o.made = viewOperations{baseOperations{binding: s, scope: scope}, o.opts.View, false}
	case o.export == abi.Process:
		o.made = baseOperations{binding: s, scope: scope}
	case o.export == abi.Route && !s.rights().granted.Messages:
		o.made = viewOperations{base, nil, true}
	case o.export == abi.Route && o.opts.View != nil:
		o.made = viewOperations{base, o.opts.View, true}
	default:
		o.made = base
	}
	return nil
}

// emittingOperations are a tool's operations outside a run: emit receives its events.
type emittingOperations struct {
	*toolOperations
	emit func(kind string, data json.RawMessage)
}

func (o emittingOperations) operate(ctx context.Context, op string, req []byte) ([]byte, error) {
	out, err := o.toolOperations.operate(ctx, op, req)
	if err != nil || op != "emit" || o.emit == nil {
		return out, err
	}
	var in struct {
		Kind string
		Data json.RawMessage
	}
	if err := abi.ReadRequest(op, req, &in); err != nil {
		return nil, err
	}
	callmeter.WhileBlocked(ctx, func(context.Context) { o.emit(clean(in.Kind), in.Data) })
	return out, nil
}

// completeInput adds the conversation to an input that has none.
func (o *CallOptions) completeInput(ctx context.Context, p *Plugin, tenant string, e abi.Export, input []byte) ([]byte, error) {
	view := o.View
	if view == nil || e != abi.Process && (e != abi.Route || !p.bindings.of(tenant).rights().granted.Messages) {
		return input, nil
	}
	return abi.AddConversation(ctx, e, p.manifest, input, view)
}
