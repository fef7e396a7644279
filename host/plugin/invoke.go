package plugin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/usagereport"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/usage"
)

// gone returns the error of work that ended because ctx did: its code is canceled or
// deadline_exceeded, whatever the cause.
func gone(ctx context.Context, format string, args ...any) error {
	return callmeter.EndedError(ctx, format, args...)
}

// callRequest describes one call.
type callRequest struct {
	tenant string
	payer  payer // set when the call is entered
	export abi.Export
	input  []byte
	ops    operations   // that the guest may use; nil: as raw says
	raw    *CallOptions // of a raw call
	read   answerReader // reads the output as a part of the call; nil for a raw call
	failed error        // the guest's error; set where read is
}

// serve is the way of every call: enter, take an instance, run, account, give
// back. guestErr says that output is an error object; cost is set if anything
// was begun, and begun says so.
func (p *Plugin) serve(ctx context.Context, r *callRequest, cost *host.Cost) (output []byte, guestErr, begun bool, err error) {
	arrived := time.Now()
	pl, err := p.instances.Enter(ctx, r.tenant)
	if err != nil {
		return nil, false, false, p.bindings.refused(r, arrived, err)
	}
	b := pl.Tenant()
	r.payer = b.payer(ctx)
	if err := b.affordable(r, arrived); err != nil {
		p.instances.Exit(ctx, pl)
		return nil, false, false, p.bindings.refused(r, arrived, err)
	}
	if p.module.engine != nil {
		output, guestErr, err = p.invokeEngine(ctx, pl, r, arrived, cost)
		return output, guestErr, true, err
	}
	scheduler := p.runtime.scheduler
	share, err := scheduler.Enter(ctx, b.ID(), p.limits.Timeout)
	if err != nil {
		p.instances.Exit(ctx, pl)
		return nil, false, false, p.bindings.refused(r, arrived, unserved(ctx, p.id, p.limits.Timeout, err))
	}
	fresh := p.module.startsFresh(r.export)
	started := time.Now()
	wait := started.Sub(arrived)
	inst, err := p.instances.take(ctx, pl, share, fresh)
	returned := false
	if err == nil {
		started = time.Now()
		inst.beginCall(ctx, r, started)
		output, guestErr, err = inst.run(r.export)
		if returned = err == nil; returned && r.read != nil {
			err = inst.readAnswer(r, output, guestErr)
		}
	}
	*cost = inst.cost(started)
	cost.InputBytes, cost.WaitUS = len(r.input), wait.Microseconds()
	b.usageRecord(r.export).Add(cost, inst.took, wait, usagereport.OutcomeOf(err, guestErr))
	_ = inst.meter.Settle(cost.Instructions, started.Add(inst.took)) // the next call learns that the budget is used up
	used := inst.meter.TakeUnreported()
	unscheduled := p.instances.giveBack(ctx, pl, inst, returned, fresh)
	scheduler.Leave(share, used+callPrice, !unscheduled)
	return output, guestErr, true, err
}

// affordable fails if the input is larger than the tenant's may be, or its budget
// is used up.
func (b *binding) affordable(r *callRequest, now time.Time) error {
	if limit := b.rights().limits.InputBytes; len(r.input) > limit {
		return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: the input of %s is %d bytes, more than the limit InputBytes of %d",
			b.plugin.id, b.plugin.module.exportName(r.export), len(r.input), limit))
	}
	return r.payer.Check(usage.Instructions, now)
}

// unserved returns the error of a call that the scheduler did not run.
func unserved(ctx context.Context, plugin string, timeout time.Duration, err error) error {
	if err == fairsched.ErrBusy {
		return blameless(host.Errorf(host.ResourceExhausted, "plugin %q: a call waited longer than the limit Timeout of %s for its turn", plugin, timeout).
			WithHint("raise the runtime's limits Running or Calls, or call less often at once"))
	}
	return callmeter.EndedError(ctx, "plugin %q: a call that waited for its turn", plugin)
}

// call is serveBy with the guest's error as an error. read scheduler the output
// into the caller's result, within the limits of the call.
func (p *Plugin) call(ctx context.Context, tenant string, e abi.Export, input []byte, ops operations, read answerReader) (*host.Cost, error) {
	cost := &host.Cost{}
	r := &callRequest{tenant: tenant, export: e, input: input, ops: ops, read: read}
	_, guestErr, begun, err := r.serveBy(ctx, p, cost)
	if err == nil && guestErr {
		err = r.failed
	}
	if !begun {
		cost = nil
	}
	return cost, p.bindings.forReader(tenant, err)
}

// forReader marks the part of a call's error that clients may read: all of it for a
// tenant that owns the plugin, and otherwise the plugin's own error objects with a
// code other than internal and data_loss. See [fault.ForClient].
func (bs *bindings) forReader(tenant string, err error) error {
	if err == nil {
		return nil
	}
	switch host.CodeOf(err) {
	case host.Canceled, host.DeadlineExceeded:
		return err
	case host.Internal, host.DataLoss:
		if !bs.isOwnedBy(tenant) {
			return err
		}
	default:
		var guest *GuestError
		if !bs.isOwnedBy(tenant) && !errors.As(err, &guest) {
			return err
		}
	}
	return fault.Disclose(err)
}

// isOwnedBy reports whether the plugin was loaded for that tenant, and not for
// all tenants.
func (bs *bindings) isOwnedBy(tenant string) bool {
	return tenant != "" && slices.Contains(bs.only, tenant)
}

// describeTenant is the tenant of the instance that describes a plugin: none.
const describeTenant = ""

// readManifest takes the manifest from the module's section, or has the plugin
// describe itself.
func (p *Plugin) readManifest(ctx context.Context, section []byte) (*Manifest, error) {
	if section != nil {
		return abi.ReadManifest(section)
	}
	if !p.module.exportsFunc(abi.Describe) {
		if p.module.extism != nil {
			return p.module.extism.plainManifest(p.id)
		}
		return nil, noManifest()
	}
	var m *Manifest
	_, err := p.call(ctx, describeTenant, abi.Describe, nil, nil, func(_ context.Context, out []byte) (err error) {
		m, err = abi.ReadManifest(out)
		return err
	})
	return m, err
}

func noManifest() error {
	return refusal.Unsupported("it has no manifest: neither a custom section %s nor an export %s", wasmmeter.ManifestSection, abi.Describe).
		WithHint("in Go, build it with: agenthost plugin build; in other languages put the manifest's JSON into that section, or export %s", abi.Describe)
}
