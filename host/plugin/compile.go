package plugin

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// code is a compiled module, shared by the plugins that have the same bytes.
type code struct {
	key    [sha256.Size]byte // of the metered module
	refs   int               // guarded by Runtime.mu
	once   sync.Once
	engine *engine
	err    error
}

// exports reports whether the module has a function of the given name.
func (c *code) exports(name string) bool {
	return c.engine.compiled.ExportedFunctions()[name] != nil
}

// instantiate makes an instance of the module and runs its start section.
func (c *code) instantiate(ctx context.Context, cfg wazero.ModuleConfig) (api.Module, error) {
	return c.engine.wasm.InstantiateModule(ctx, c.engine.compiled, cfg)
}

// compile returns the compiled module, compiling it if nobody has.
func (rt *Runtime) compile(ctx context.Context, mod *prepared) (*code, error) {
	c, err := rt.share(sha256.Sum256(mod.wasm))
	if err != nil {
		return nil, err
	}
	// Others may wait for the same code: it does not end with this caller.
	c.once.Do(func() { c.engine, c.err = rt.newEngine(context.WithoutCancel(ctx), mod.wasm) })
	if c.err != nil {
		rt.release(c)
		return nil, c.err
	}
	return c, nil
}

// share takes a reference to the code with the given key, which may still have
// to be compiled.
func (rt *Runtime) share(key [sha256.Size]byte) (*code, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return nil, errClosed("runtime")
	}
	c := rt.codes[key]
	if c == nil {
		c = &code{key: key}
		rt.codes[key] = c
	}
	c.refs++
	return c, nil
}

// release gives back a module; the last one closes it.
func (rt *Runtime) release(c *code) {
	if !rt.unshare(c) || c.engine == nil {
		return
	}
	if err := c.engine.close(); err != nil {
		rt.opts.Logger.Warn("close a module", "error", err)
	}
}

// unshare drops a reference and reports whether it was the last.
func (rt *Runtime) unshare(c *code) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if c.refs--; c.refs > 0 {
		return false
	}
	delete(rt.codes, c.key)
	return true
}
