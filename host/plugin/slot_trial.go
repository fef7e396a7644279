package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// try loads a module with nothing granted and sees that it works.
func (s *Slot) try(ctx context.Context, wasm []byte) (*Plugin, error) {
	p, err := s.runtime.load(ctx, s.id, wasm, &s.opts.LoadOptions)
	if err != nil {
		return nil, loadError(s.id, err)
	}
	p.bindings.trial.Store(true)
	if err := s.health(ctx, p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// health makes the calls that a version must answer. They run for no tenant
// (describeTenant), and their instances end with the trial.
func (s *Slot) health(ctx context.Context, p *Plugin) error {
	// Describing starts an instance, which may fail. Not to describe is allowed.
	if _, err := p.Call(ctx, describeTenant, "describe", nil, nil); err != nil && host.CodeOf(err) != host.Unimplemented {
		return unhealthy(ctx, s.id, "start", err)
	}
	for _, c := range slices.Concat(p.manifest.Health, s.opts.Health) {
		_, _, err := runHealthCall(ctx, c, p)
		if err != nil {
			return unhealthy(ctx, s.id, "health call of "+clean(c.Export), err)
		}
	}
	if s.opts.Check != nil {
		if err := s.opts.Check(ctx, p); err != nil {
			return unhealthy(ctx, s.id, "check", err)
		}
	}
	return nil
}

func runHealthCall(ctx context.Context, c HealthCall, p *Plugin) ([]byte, *host.Cost, error) {
	r, err := p.Call(ctx, describeTenant, c.Export, c.Input, nil)
	if err == nil && r.GuestError {
		err = abi.NewGuestError(p.id, c.Export, r.Output)
	}
	return r.Output, r.Cost, err
}

func unhealthy(ctx context.Context, id, what string, err error) error {
	if ctx.Err() != nil {
		return gone(ctx, "plugin %q: its %s", id, what)
	}
	return host.Errorf(host.FailedPrecondition, "plugin %q is not taken into service: its %s: %w", id, what, err)
}

// endTrial lets tenants in, and ends the rest of the trial.
func (p *Plugin) endTrial() {
	if !p.bindings.trial.Swap(false) {
		return
	}
	p.instances.Retire(time.Time{})
	p.bindings.clear()
	p.runtime.tenants.age.Add(1)
}
