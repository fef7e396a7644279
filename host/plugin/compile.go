package plugin

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/modulecache"
	"github.com/agenthost/agenthost/host/plugin/internal/usagereport"
	"github.com/agenthost/agenthost/host/usage"
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
// invalid_argument for bytes that are no module or break the compiler.
func CompileInto(job *CompileJob) error { return compileInto(job.Dir, job.Wasm) }

// TimeoutError returns the error for a compiler stopped by the job's Timeout.
func (j *CompileJob) TimeoutError() error {
	return host.Errorf(host.DeadlineExceeded, "compiling it took longer than the limit CompileTimeout of %s", j.Timeout).
		WithHint("split its largest functions, optimise for size, or raise the limit if you trust the author")
}

// MemoryError returns the error for a compiler stopped by the job's Memory.
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
	code    *verifiedCode // nil: not looked up yet
	plugin  string        // its id
	tenant  string        // pays for it, if it is billed
	owned   bool          // the plugin is the tenant's
	billed  bool          // false: it is the host's own
}

// newCompilation returns work for a plugin, of which the first tenant pays.
func newCompilation(plugin, owner string, tenants []string) *compilation {
	job := &compilation{plugin: plugin, owned: owner != ""}
	if len(tenants) > 0 {
		job.tenant, job.billed = tenants[0], true
	}
	return job
}

// flow returns the name of the job's flow in the scheduler of compile slots.
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
	refs int               // guarded by compiler.mu

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

// compiler makes the code of modules, once for all plugins that have the same
// bytes. It is safe for concurrent use.
type compiler struct {
	cache     *modulecache.Cache // nil without a directory
	external  func(context.Context, *CompileJob) error
	logger    *slog.Logger
	usageBook *usagereport.Book
	ledger    *sharedLedger
	profiles  bool                 // code reports the functions that guests enter
	user      []extism.Function    // that Extism plugins may import
	slots     *fairsched.Scheduler // of compiling; a quantum is a nanosecond
	life      context.Context      // the lifetime: ends with close; it bounds the compile jobs
	end       context.CancelFunc
	work      sync.WaitGroup // in progress; none begins once closed is set

	mu     sync.Mutex
	codes  map[[sha256.Size]byte]*code
	closed bool
}

func newCompiler(opts *Options, book *usagereport.Book, ledger *sharedLedger, user []extism.Function) (*compiler, error) {
	cache, err := modulecache.Open(opts.CacheDir, opts.CacheBytes, compileInto)
	if err != nil {
		return nil, err
	}
	cp := &compiler{cache: cache, external: opts.Compiler, logger: opts.Logger, profiles: opts.ProfileCalls, usageBook: book, ledger: ledger, user: user,
		slots: fairsched.New(compilesAtOnce, compilesAtOnce), codes: map[[sha256.Size]byte]*code{}}
	cp.life, cp.end = context.WithCancel(context.Background())
	return cp, nil
}

// close stops the compile jobs; work.Wait returns when they have ended.
func (cp *compiler) close() {
	cp.mu.Lock()
	cp.closed = true
	cp.mu.Unlock()
	cp.end()
}

// compile returns the compiled module, compiling it on first use. The caller may
// leave; the job continues for other callers that wait for it. Of the tenants that
// the plugin belongs to, the first pays for it.
func (cp *compiler) compile(ctx context.Context, mod *preparedModule, p *Plugin, tenants []string) (*code, error) {
	job := newCompilation(p.id, p.owner, tenants)
	job.key, job.metered, job.limits, job.keeps, job.code = mod.metered.Key, mod.metered.Wasm, p.limits, mod.keeps(&p.limits), mod.code
	if err := cp.payer(job).Check(usage.Time, time.Now()); err != nil {
		return nil, err
	}
	c, err := cp.share(job)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		cp.release(c)
		return nil, gone(ctx, "compiling")
	}
	if c.err != nil {
		cp.release(c)
		return nil, c.err
	}
	return c, nil
}

// share takes a reference to the code of a module, and begins to compile missing
// code.
func (cp *compiler) share(job *compilation) (*code, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.closed {
		return nil, errClosed("runtime")
	}
	c := cp.codes[job.key]
	if c == nil {
		c = &code{key: job.key, keeps: job.keeps, ready: make(chan struct{}), refs: 1} // one is the work's own
		cp.codes[job.key] = c
		cp.work.Go(func() { cp.fill(c, job) })
	}
	c.refs++
	return c, nil
}

// fill compiles a module for every caller that waits for it.
func (cp *compiler) fill(c *code, job *compilation) {
	defer close(c.ready)
	if slot, err := cp.slots.Enter(cp.life, job.flow(), math.MaxInt64); err == nil {
		started := time.Now()
		c.engine, c.err = cp.newEngine(cp.life, job)
		cp.compiled(job, slot, time.Since(started))
	} else {
		c.err = errClosed("runtime")
	}
	cp.release(c) // all callers may have left
}

// compiled gives a compile slot back, and bills the time to the tenant that pays.
func (cp *compiler) compiled(job *compilation, slot *fairsched.Flow, took time.Duration) {
	cp.slots.Leave(slot, int64(took), true)
	_ = cp.payer(job).Charge(usage.Time, int64(took), time.Now()) // the next one learns that the budget is used up
	if job.billed {
		cp.usageBook.Record(job.tenant, job.plugin, compileLine, job.owned).Compiled(took)
	}
}

// payer returns who pays for compiling: the tenant that it is billed to, or nobody.
func (cp *compiler) payer(job *compilation) usage.Payer {
	if !job.billed {
		return usage.Payer{}
	}
	return cp.ledger.Load().Account(job.tenant).Payer(nil)
}

// build compiles a module into a directory.
func (cp *compiler) build(ctx context.Context, job *compilation, dir string) error {
	j := &CompileJob{Wasm: job.metered, Dir: dir, Timeout: job.limits.CompileTimeout, Memory: job.limits.CompileMemory}
	if cp.external == nil {
		return CompileInto(j)
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	err := cp.external(ctx, j)
	switch {
	case err == nil:
		return modulecache.CheckCode(dir) // or the engine would compile it here
	case cp.life.Err() != nil:
		return errClosed("runtime")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return j.TimeoutError()
	}
	return err
}

// release gives back a module; the last one closes it.
func (cp *compiler) release(c *code) {
	if !cp.unshare(c) || c.engine == nil {
		return
	}
	if err := c.engine.close(); err != nil {
		cp.logger.Warn("close a module", "error", err)
	}
}

// unshare drops a reference and reports whether it was the last.
func (cp *compiler) unshare(c *code) bool {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if c.refs--; c.refs > 0 {
		return false
	}
	delete(cp.codes, c.key)
	return true
}
