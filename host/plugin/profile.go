package plugin

import (
	"context"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

var _ experimental.FunctionListenerFactory = profileListeners{}

// profileListeners make what reports the functions that guests enter to the profiles of
// their calls.
type profileListeners struct{}

// NewFunctionListener implements [experimental.FunctionListenerFactory]. The functions that
// the meter has added to a module have none: they count for those that call them.
func (profileListeners) NewFunctionListener(f api.FunctionDefinition) experimental.FunctionListener {
	ofHost := f.GoFunction() != nil
	switch {
	case ofHost && f.ModuleName() == wasmmeter.ImportModule || !ofHost && strings.HasPrefix(f.Name(), wasmmeter.ImportModule+"."):
		return nil
	case ofHost:
		return profileListener(guestprofile.Imported(f.ModuleName(), f.Name()))
	}
	name := f.Name()
	if exports := f.ExportNames(); name == "" && len(exports) > 0 {
		name = exports[0]
	}
	return profileListener(guestprofile.Named(name, f.Index()))
}

// profileListener reports a function.
type profileListener guestprofile.Function

// Before implements [experimental.FunctionListener].
func (l profileListener) Before(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	if inst := instanceOf(ctx); inst != nil {
		inst.profile.Enter(guestprofile.Function(l), inst.meter.Spent())
	}
}

// After implements [experimental.FunctionListener].
func (l profileListener) After(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64) {
	if inst := instanceOf(ctx); inst != nil {
		inst.profile.Leave(inst.meter.Spent())
	}
}

// Abort implements [experimental.FunctionListener]. The call has ended: see instance.leave.
func (l profileListener) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}

// checkProfile fails if a call is to have a profile that its runtime does not make.
func (o *CallOptions) checkProfile(p *Plugin) error {
	if o.Profile == nil || p.runtime.opts.ProfileCalls && p.module.engine == nil {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "plugin %q: the runtime makes no profiles of its calls", p.id).
		WithHint("load the plugin in a runtime with the option ProfileCalls, and without an engine of its own")
}
