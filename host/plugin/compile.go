package plugin

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// compilesAtOnce is how many modules a runtime compiles at the same time; more
// loads wait. Each may take Limits.CompileMemory. A tenant compiles one at a time,
// and of those that wait the one goes first whose compiling has taken the least time
// (see package fairsched, which counts nanoseconds here). A module of the host's own is a flow
// of its own.
const compilesAtOnce = 2

// compileLine is the line of a bill for the compiling of a plugin, in place of an
// export.
const compileLine = "(compile)"

// CompileJob is a module to be compiled where a module that the structural
// limits do not see through does no harm: in a process of its own.
type CompileJob struct {
	Wasm    []byte        // the metered module; not to be changed
	Dir     string        // where the code goes: empty, and this user's alone
	Timeout time.Duration // Limits.CompileTimeout; the context ends with it
	Memory  int64         // Limits.CompileMemory, bytes
}

// CompileInto compiles a job's module in this process and leaves the code in its
// directory. It looks at neither of the job's limits: it is for the process that
// an [Options.Compiler] starts, with the same version of this package. Code
// invalid_argument for what is no module or breaks the compiler.
func CompileInto(job *CompileJob) error { return compileInto(job.Dir, job.Wasm) }

// TimeoutError is what a compiler answers that was stopped by the job's Timeout.
func (j *CompileJob) TimeoutError() error {
	return host.Errorf(host.DeadlineExceeded, "compiling it took longer than the limit CompileTimeout of %s", j.Timeout).
		WithHint("split its largest functions, optimise for size, or raise the limit if you trust the author")
}

// MemoryError is what a compiler answers that was stopped by the job's Memory.
func (j *CompileJob) MemoryError() error {
	return host.Errorf(host.ResourceExhausted, "compiling it took more memory than the limit CompileMemory of %d", j.Memory).
		WithHint("split its largest functions, optimise for size, or raise the limit if you trust the author")
}

// compilation is a module on its way to an engine, or the schemas of a manifest.
type compilation struct {
	key     [sha256.Size]byte // of metered
	metered []byte
	limits  Limits
	keeps   keeps
	code    *verifiedCode // nil: nobody has looked for it
	plugin  string        // its id
	tenant  string        // pays for it, if it is billed
	owned   bool          // the plugin is the tenant's
	billed  bool          // false: it is the host's own
}

// compilation returns work for the plugin, of which the first tenant pays.
func (p *Plugin) compilation(tenants []string) *compilation {
	job := &compilation{plugin: p.id, owned: p.owner != ""}
	if len(tenants) > 0 {
		job.tenant, job.billed = tenants[0], true
	}
	return job
}

// flow is what a compilation shares the compile slots as.
func (job *compilation) flow() string {
	switch {
	case job.billed:
		return "tenant " + job.tenant
	case job.metered == nil: // schemas
		return "plugin " + job.plugin
	}
	return "module " + string(job.key[:])
}

// code is a compiled module, shared by the plugins that have the same bytes.
type code struct {
	key  [sha256.Size]byte // of the metered module
	refs int               // guarded by Runtime.mu

	ready  chan struct{} // closed when one of these is set
	engine *engine
	err    error

	keeps  keeps
	images images // of instances that have started
}

// exports reports whether the module has a function of the given name.
func (c *code) exports(name string) bool {
	return c.engine.compiled.ExportedFunctions()[name] != nil
}

// instantiate makes an instance of the module. A metered module has no start
// section, so that runs no code of the guest.
func (c *code) instantiate(ctx context.Context, cfg wazero.ModuleConfig) (api.Module, error) {
	return c.engine.wasm.InstantiateModule(ctx, c.engine.compiled, cfg)
}

// compile returns the compiled module, compiling it if nobody has. The caller
// may leave; the work goes on for whoever waits too. Of the tenants that the plugin
// belongs to, the first pays for it.
func (rt *Runtime) compile(ctx context.Context, mod *preparedModule, p *Plugin, tenants []string) (*code, error) {
	job := p.compilation(tenants)
	job.key, job.metered, job.limits, job.keeps, job.code = mod.metered.Key, mod.metered.Wasm, p.limits, mod.keeps(&p.limits), mod.code
	c, err := rt.share(job)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		rt.release(c)
		return nil, gone(ctx, "compiling")
	}
	if c.err != nil {
		rt.release(c)
		return nil, c.err
	}
	return c, nil
}

// share takes a reference to the code of a module, and begins to compile it if
// there is none.
func (rt *Runtime) share(job *compilation) (*code, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return nil, errClosed("runtime")
	}
	c := rt.codes[job.key]
	if c == nil {
		c = &code{key: job.key, keeps: job.keeps, ready: make(chan struct{}), refs: 1} // one is the work's own
		rt.codes[job.key] = c
		rt.loads.Go(func() { rt.fill(c, job) })
	}
	c.refs++
	return c, nil
}

// fill compiles a module for everybody who waits for it.
func (rt *Runtime) fill(c *code, job *compilation) {
	defer close(c.ready)
	if slot, err := rt.compiling.Enter(rt.life, job.flow(), math.MaxInt64); err == nil {
		started := time.Now()
		c.engine, c.err = rt.newEngine(rt.life, job)
		rt.compiled(job, slot, time.Since(started))
	} else {
		c.err = errClosed("runtime")
	}
	rt.release(c) // everybody else may have left
}

// compiled gives a compile slot back, and bills the time to the tenant that pays.
func (rt *Runtime) compiled(job *compilation, slot *fairsched.Flow, took time.Duration) {
	rt.compiling.Leave(slot, int64(took), true)
	if job.billed {
		rt.tallies.tally(job.tenant, job.plugin, compileLine, job.owned).compiled(took)
	}
}

// build compiles a module into a directory.
func (rt *Runtime) build(ctx context.Context, job *compilation, dir string) error {
	j := &CompileJob{Wasm: job.metered, Dir: dir, Timeout: job.limits.CompileTimeout, Memory: job.limits.CompileMemory}
	if rt.opts.Compiler == nil {
		return CompileInto(j)
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	err := rt.opts.Compiler(ctx, j)
	switch {
	case err == nil:
		_, err = codeFile(dir) // or the engine would compile it here
		return err
	case rt.life.Err() != nil:
		return errClosed("runtime")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return j.TimeoutError()
	}
	return err
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
