package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/modulecache"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// engine is the WebAssembly runtime of one compiled module, with everything that
// its instances import.
//
// A runtime for each module, and not one for all: a runtime never forgets a
// function type that it has met, takes a lock for each instance that comes and
// goes, and closing one compiled form of a module breaks another of the same
// bytes. One that goes with its module has none of this, for 0.3 ms and 110 kB a
// module, which many plugins and tenants share.
type engine struct {
	wasm     wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
}

// engineConfig is how modules are compiled, here and wherever else code for this
// host is made.
func engineConfig() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().WithCoreFeatures(engineFeatures).WithDebugInfoEnabled(false)
}

// engineFeatures is what modules may use: WebAssembly 2.0, which is what
// internal/wasmmeter knows.
const engineFeatures = api.CoreFeaturesV2

// openEngine links what a metered module imports and takes its code from a
// directory that it was compiled into; "" compiles it here and now.
func (cp *compiler) openEngine(ctx context.Context, metered []byte, dir string) (_ *engine, err error) {
	e := &engine{cache: wazero.NewCompilationCache()}
	if dir != "" {
		if e.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, host.Errorf(host.FailedPrecondition, "read compiled code: %w", err)
		}
	}
	wasiListeners := experimental.FunctionListenerFactory(wasiPrices{})
	if cp.profiles {
		ctx = experimental.WithFunctionListenerFactory(ctx, profileListeners{})
		wasiListeners = experimental.MultiFunctionListenerFactory(profileListeners{}, wasiPrices{}) // it looks before they are paid for
	}
	e.wasm = wazero.NewRuntimeWithConfig(ctx, engineConfig().WithCompilationCache(e.cache))
	if err = linkImports(ctx, e.wasm, wasiListeners); err == nil {
		e.compiled, err = compileModule(ctx, e.wasm, metered)
	}
	if err == nil && dir != "" {
		err = modulecache.CheckCode(dir) // had it not been taken from there, there were two
	}
	if err == nil && importsExtism(e.compiled) {
		err = linkExtism(ctx, e.wasm, cp.user)
	}
	if err == nil {
		err = e.checkImports()
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// checkImports refuses a module that imports a function which this host does not
// have, or has with another type: none of its instances could be started.
func (e *engine) checkImports() error {
	for _, f := range e.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		var have api.FunctionDefinition
		if m := e.wasm.Module(module); m != nil {
			have = m.ExportedFunctionDefinitions()[name]
		}
		switch {
		case have == nil:
			return refusal.Unsupported("it imports %q %q, which this host does not have", clean(module), clean(name)).
				WithHint("update the host, or build the plugin without it")
		case !slices.Equal(f.ParamTypes(), have.ParamTypes()) || !slices.Equal(f.ResultTypes(), have.ResultTypes()):
			return refusal.Invalid("it imports %q %q with the type (%s) -> (%s), not (%s) -> (%s)", module, name,
				wasmmeter.TypeNames(f.ParamTypes()), wasmmeter.TypeNames(f.ResultTypes()), wasmmeter.TypeNames(have.ParamTypes()), wasmmeter.TypeNames(have.ResultTypes())).
				WithHint("see pdk/ABI.md for the types of what plugins import")
		}
	}
	return nil
}

// close gives back the code. No instance may be open.
func (e *engine) close() error {
	ctx := context.Background()
	return errors.Join(e.wasm.Close(ctx), e.cache.Close(ctx))
}

// compileModule compiles a module or takes it from the runtime's cache. A
// compiler that breaks on a module has refused it.
func compileModule(ctx context.Context, wasm wazero.Runtime, metered []byte) (_ wazero.CompiledModule, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			refused := refusal.Invalid("compile: the compiler breaks on the module").WithHint("report it with the module, and build the module in another way")
			refused.Err = fmt.Errorf("%v", broken) // Go's words, which are not for the author of the module
			err = refused
		}
	}()
	compiled, err := wasm.CompileModule(ctx, metered)
	if err != nil {
		return nil, refusal.Invalid("compile: %v", err)
	}
	return compiled, nil
}

// compileInto compiles a module and leaves its code in a directory.
func compileInto(dir string, metered []byte) error {
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return err
	}
	wasm := wazero.NewRuntimeWithConfig(ctx, engineConfig().WithCompilationCache(cache))
	_, err = compileModule(ctx, wasm, metered)
	return errors.Join(err, wasm.Close(ctx), cache.Close(ctx))
}

// newEngine makes the engine of a metered module: from the cache if it is there,
// through the compiler that the options name, or in this process.
func (cp *compiler) newEngine(ctx context.Context, job *compilation) (*engine, error) {
	switch {
	case cp.cache != nil && !cp.profiles:
		return cp.cachedEngine(ctx, job)
	case cp.external == nil || cp.profiles:
		return cp.openEngine(ctx, job.metered, "")
	}
	dir, err := os.MkdirTemp("", "agenthost-code-")
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "compile: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := cp.build(ctx, job, dir); err != nil {
		return nil, err
	}
	return cp.openEngine(ctx, job.metered, dir)
}

// verified returns the directory of a job's code in the cache, "" if the cache has
// none.
func (cp *compiler) verified(job *compilation) string {
	if job.code != nil {
		return job.code.wait()
	}
	return cp.cache.Code(job.key)
}

// cachedEngine takes code from the cache. Another process may remove an entry
// after it was looked at, so a second try compiles.
func (cp *compiler) cachedEngine(ctx context.Context, job *compilation) (*engine, error) {
	if dir := cp.verified(job); dir != "" {
		e, err := cp.openEngine(ctx, job.metered, dir)
		if err == nil {
			return e, nil
		}
		cp.logger.WarnContext(ctx, "compiled code is of no use and is made again", "error", err)
		cp.cache.RemoveCode(job.key)
	}
	built, err := cp.cache.NewDir()
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "compile: %w", err)
	}
	defer os.RemoveAll(built)
	if err := cp.build(ctx, job, built); err != nil {
		return nil, err
	}
	// No other process touches a directory that is not renamed yet; and a cache that
	// cannot keep the code does not keep the module from running.
	e, err := cp.openEngine(ctx, job.metered, built)
	if err == nil {
		if err := cp.cache.AddCode(job.key, built); err != nil {
			cp.logger.WarnContext(ctx, "compiled code is not kept", "error", err)
		}
	}
	return e, err
}
