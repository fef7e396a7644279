package extismsdk

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"

	extism "github.com/extism/go-sdk"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
)

// Name is the engine's name in configurations.
const Name = "extismsdk"

// maxIdle bounds the idle instances of a plugin, over all tenants.
const maxIdle = 32

// pageBytes is the unit of a module's memory.
const pageBytes = 64 << 10

// Options are the options of all plugins of one [New].
type Options struct {
	// AllowedPaths are the directories that plugins may use, with the paths that plugins
	// see; "ro:" before a directory makes it read-only.
	AllowedPaths map[string]string

	// Linked are modules that plugins import from, by their names.
	Linked []extism.Wasm

	Log func(level extism.LogLevel, text string) // called by many goroutines at once; nil drops the logs
}

// New returns the constructor of engines, for [plugin.Options.Engines]. opts may be nil.
func New(opts *Options) plugin.NewEngine {
	var o Options
	if opts != nil {
		o = *opts
	}
	return func(ctx context.Context, wasm []byte, load *plugin.LoadOptions) (plugin.Engine, error) {
		e := &engine{opts: o}
		// ctx is for the compilation alone: the compiled plugin outlives it.
		compiled, err := extism.NewCompiledPlugin(context.WithoutCancel(ctx), manifest(&o, wasm, load),
			extism.PluginConfig{EnableWasi: true, EnableHttpResponseHeaders: true}, []extism.HostFunction{hostCall()})
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "engine %s: %w", Name, err)
		}
		e.compiled = compiled
		return e, nil
	}
}

func manifest(o *Options, wasm []byte, load *plugin.LoadOptions) extism.Manifest {
	l := &load.Limits
	most := int64(l.ResponseBytes)
	if load.Extism.HTTPBytes > 0 {
		most = int64(load.Extism.HTTPBytes)
	}
	return extism.Manifest{
		Wasm:         append(slices.Clone(o.Linked), extism.WasmData{Data: wasm, Name: "main"}),
		Config:       load.Extism.Config,
		AllowedPaths: o.AllowedPaths,
		Memory: &extism.ManifestMemory{MaxPages: uint32(min(max(l.MemoryBytes/pageBytes, 1), math.MaxUint16+1)),
			MaxVarBytes: int64(l.VarBytes), MaxHttpResponseBytes: most},
		// With a timeout of any length the SDK ends calls with their context; the context
		// bounds them.
		Timeout: uint64(max(l.Timeout.Milliseconds(), 1)),
	}
}

// engine is a [plugin.Engine].
type engine struct {
	opts     Options
	compiled *extism.CompiledPlugin

	mu   sync.Mutex
	idle []instance // the least recently used first
}

// instance is one tenant's.
type instance struct {
	tenant string
	plugin *extism.Plugin
}

var _ plugin.Engine = (*engine)(nil)

// Call implements [plugin.Engine].
func (e *engine) Call(ctx context.Context, call *plugin.EngineCall) ([]byte, bool, error) {
	inst, err := e.take(ctx, call)
	if err != nil {
		return nil, false, err
	}
	output, failed, err := inst.call(ctx, call)
	if err != nil || call.Fresh {
		_ = inst.plugin.Close(context.WithoutCancel(ctx)) // it is not used again, even if this fails
	} else {
		e.giveBack(ctx, inst)
	}
	return output, failed, err
}

// Close implements [plugin.Engine].
func (e *engine) Close() error { return e.compiled.Close(context.Background()) }

// take returns an instance for a call, the tenant's last one if it has one.
func (e *engine) take(ctx context.Context, call *plugin.EngineCall) (instance, error) {
	if !call.Fresh {
		if inst, ok := e.takeIdle(call.Tenant); ok {
			return inst, nil
		}
	}
	p, err := e.compiled.Instance(ctx, extism.PluginInstanceConfig{})
	if err != nil {
		return instance{}, err
	}
	p.Timeout = 0 // the context has a deadline
	p.SetLogger(func(level extism.LogLevel, text string) {
		if e.opts.Log != nil {
			e.opts.Log(level, text)
		}
	})
	return instance{call.Tenant, p}, nil
}

func (e *engine) takeIdle(tenant string) (instance, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.idle) - 1; i >= 0; i-- {
		if inst := e.idle[i]; inst.tenant == tenant {
			e.idle = slices.Delete(e.idle, i, i+1)
			return inst, true
		}
	}
	return instance{}, false
}

func (e *engine) giveBack(ctx context.Context, inst instance) {
	e.mu.Lock()
	e.idle = append(e.idle, inst)
	var surplus *extism.Plugin
	if len(e.idle) > maxIdle {
		surplus = e.idle[0].plugin
		e.idle = slices.Delete(e.idle, 0, 1)
	}
	e.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close(context.WithoutCancel(ctx)) // it is not used again
	}
}

// call runs one export. After an error the instance must not be used again.
func (inst instance) call(ctx context.Context, call *plugin.EngineCall) (output []byte, failed bool, err error) {
	p := inst.plugin
	p.AllowedHosts = p.AllowedHosts[:0]
	for _, access := range call.Rights.HTTP {
		p.AllowedHosts = append(p.AllowedHosts, access.Host)
	}
	code, output, err := p.CallWithContext(context.WithValue(ctx, callKey{}, call), call.Export, call.Input)
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case err != nil:
		if !isPluginsOwn(ctx, p, err) {
			return nil, false, err
		}
		return []byte(err.Error()), true, nil
	case code == 0:
		return output, false, nil
	case len(output) > 0:
		return output, true, nil
	}
	return nil, false, host.Errorf(host.Internal, "%s returned %d and set no error", call.Export, int32(code)).
		WithHint("the plugin is broken")
}

// callKey is the key of a call in its context.
type callKey struct{}

// hostCall is agenthost_call of pdk/ABI.md.
func hostCall() extism.HostFunction {
	ptr := []extism.ValueType{extism.ValueTypePTR}
	return extism.NewHostFunctionWithStack("agenthost_call", func(ctx context.Context, p *extism.CurrentPlugin, stack []uint64) {
		at, err := operate(ctx, p, stack[0], stack[1])
		if err != nil {
			panic(err) // ends the call with the error
		}
		stack[0] = at
	}, append(ptr, ptr...), ptr)
}

func operate(ctx context.Context, p *extism.CurrentPlugin, opAt, requestAt uint64) (uint64, error) {
	call, ok := ctx.Value(callKey{}).(*plugin.EngineCall)
	if !ok {
		return 0, errors.New("agenthost_call outside a call")
	}
	op, err := p.ReadString(opAt)
	if err != nil {
		return 0, err
	}
	request, err := p.ReadBytes(requestAt)
	if err != nil {
		return 0, err
	}
	response, err := call.Operate(ctx, op, request)
	raw, err := envelope(response, err)
	if err != nil {
		return 0, err
	}
	return p.WriteBytes(raw)
}

// envelope is {"ok": ...} or {"error": {...}}.
func envelope(response []byte, err error) ([]byte, error) {
	if err != nil {
		return json.Marshal(map[string]*host.Error{"error": fault.AsError(err)})
	}
	if len(response) == 0 {
		response = []byte("{}")
	}
	return json.Marshal(map[string]json.RawMessage{"ok": response})
}

// isPluginsOwn reports whether err is the error that the plugin has set: the SDK has one
// type for that and for failures of the plugin.
func isPluginsOwn(ctx context.Context, p *extism.Plugin, err error) bool {
	text := p.GetErrorWithContext(ctx)
	return text != "" && text == err.Error()
}
