package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Extism plugins. A module that imports from extism:host/env, as every Extism
// kit makes it, is metered, limited and leased like any other; what differs is
// how bytes get in and out (package extism). It either speaks our contract in that way,
// or knows nothing of this host: then its functions are tools (extism_tool.go).

// maxExtismConfig bounds the keys and values of [ExtismOptions.Config].
const maxExtismConfig = 1 << 20

// ExtismOptions are for a plugin that is built with an Extism kit.
type ExtismOptions struct {
	// Config is the configuration that the plugin reads, at most 1 MiB. It is
	// no place for secrets: the plugin sees it.
	Config map[string]string

	// HTTPBytes bounds the body of an HTTP response; 0 is the limit
	// ResponseBytes.
	HTTPBytes int

	// Tools says how the functions of a plugin without a manifest are offered:
	// each entry with the function's name as its Export. By default every
	// exported function without parameters is a tool of its own name that takes
	// one text. The entry point _start of a command is one if it is named here: each
	// call has an instance of its own then, which ends with it.
	Tools []ToolInfo

	// Asks are the hosts that a plugin without a manifest asks for, as an Extism
	// manifest's allowed_hosts say: no grant goes beyond them. nil: those that it is
	// granted.
	Asks []HTTPAccess
}

func (o ExtismOptions) check() error {
	if err := (&Permissions{HTTP: o.Asks}).Check(); err != nil {
		return host.Errorf(host.InvalidArgument, "Asks of an Extism plugin: %w", err)
	}
	n := 0
	for k, v := range o.Config {
		n += len(k) + len(v)
	}
	switch {
	case n > maxExtismConfig:
		return host.Errorf(host.InvalidArgument, "the Extism configuration has %d bytes, more than %d", n, maxExtismConfig)
	case o.HTTPBytes < 0:
		return host.Errorf(host.InvalidArgument, "HTTPBytes of an Extism plugin is %d", o.HTTPBytes).WithHint("leave it out for the default")
	}
	return nil
}

// extismPlugin is the Extism side of a plugin.
type extismPlugin struct {
	ExtismOptions
	options extism.Options
	exports []string    // its own functions, beside those of our contract
	asks    Permissions // permissions of a plugin without a manifest: those of its load
	silent  bool        // it has no manifest, so it gets the granted part of Extism's permissions
}

// newState returns the Extism side of an instance; nil for a native plugin.
func (x *extismPlugin) newState(inst *instance, flow *fairsched.Flow) *extism.State {
	if x == nil {
		return nil
	}
	return extism.New(&x.options, &inst.meter, &inst.call, &inst.plugin.runtime.memories, flow)
}

// runExtism calls a function of an Extism plugin. Any error means that the
// instance must be closed.
func (inst *instance) runExtism(name string) (output []byte, guestErr bool, err error) {
	fn := inst.guest.module.ExportedFunction(name)
	if fn == nil {
		return nil, false, host.Errorf(host.Unimplemented, "plugin %q does not export %s", inst.plugin.id, name)
	}
	inst.calls++
	if name == guestmodule.CommandExport {
		inst.calls = max(inst.calls, inst.plugin.limits.MaxCallsPerInstance) // its libc has been taken down
	}
	stack := inst.guest.stack[:]
	stack[0] = 0 // the result of a function that has none
	err = inst.callStack.use(fn).CallWithStack(inst.ctx, stack)
	inst.leave()
	if err != nil && !inst.exited(err) {
		return nil, false, inst.failure(err)
	}
	if err := inst.meter.CheckBudget(); err != nil {
		return nil, false, err
	}
	x := inst.extism
	inst.call.output = x.TakeOutput()
	switch code := uint32(stack[0]); {
	case x.ErrorText() != "":
		return extismError(x.ErrorText()), true, nil
	case code == 0:
		return inst.call.output, false, nil
	case len(inst.call.output) > 0:
		return inst.call.output, true, nil
	default:
		return nil, false, host.Errorf(host.Internal, "plugin %q: %s returned %d and set no error", inst.plugin.id, name, int32(code)).
			WithHint("the plugin is broken")
	}
}

// exited reports whether a call ended because the guest left with exit code 0,
// which is success. Its instance has ended with it.
func (inst *instance) exited(err error) bool {
	var exit *sys.ExitError
	if inst.meter.Stopped() != nil || !errors.As(err, &exit) || exit.ExitCode() != 0 {
		return false
	}
	inst.calls = inst.plugin.limits.MaxCallsPerInstance
	inst.guest.stack[0] = 0
	return true
}

// extismError makes an error object of an Extism error: the object that the plugin
// set, or one with the plugin's text.
func extismError(text string) []byte {
	var e host.Error
	if jsondoc.Unmarshal([]byte(text), &e) == nil && e.Message != "" {
		return []byte(text)
	}
	return abi.ErrorObject(fault.Disclose(host.Errorf(host.Internal, "%s", clean(text))))
}

// startFunctions returns the functions that run before an instance's first call: the
// module's start function and, as the kits' start-up code wants it, hs_init for
// Haskell after _initialize, and without that one a C toolchain's constructors.
func startFunctions(mod api.Module, extism bool) []api.Function {
	var list []api.Function
	add := func(name string, params int) bool {
		fn := mod.ExportedFunction(name)
		if fn == nil || len(fn.Definition().ParamTypes()) != params {
			return false
		}
		list = append(list, fn)
		return true
	}
	add(wasmmeter.StartExport, 0)
	found := add(abi.Initialize, 0)
	if !extism {
		return list
	}
	if haskell := add("hs_init", 2); !found && !haskell {
		add("__wasm_call_ctors", 0)
	}
	return list
}

// linkExtism instantiates what Extism plugins import.
func linkExtism(ctx context.Context, wasm wazero.Runtime, user []extism.Function) error {
	for _, m := range []struct {
		name      string
		functions []extism.Function
	}{{extism.EnvModule, extism.Functions()}, {extism.UserModule, user}} {
		b := wasm.NewHostModuleBuilder(m.name)
		for _, f := range m.functions {
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
				inst := instanceOf(ctx)
				inst.meter.Charge(extism.Price)
				f.Call(inst.extism, stack)
			}), f.Params, f.Results).Export(f.Name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// importsExtism reports whether a compiled module is an Extism plugin.
func importsExtism(compiled wazero.CompiledModule) bool {
	return slices.ContainsFunc(compiled.ImportedFunctions(), func(f api.FunctionDefinition) bool {
		module, _, _ := f.Import()
		return strings.HasPrefix(module, "extism:")
	})
}
