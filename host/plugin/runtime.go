package plugin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/hostfunc"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
	"github.com/agenthost/agenthost/host/plugin/internal/instancepool"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/usagereport"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/usage"
)

// Runtime compiles plugins and keeps them. It is safe for concurrent use.
type Runtime struct {
	opts      Options
	compiler  *compiler
	tenants   *tenants
	ledger    sharedLedger
	usageBook *usagereport.Book
	scheduler *fairsched.Scheduler
	meters    callmeter.Host
	memories  linearmem.Budget
	fetcher   Fetcher

	interpreters map[string]*interpreter // modules that run scripts, by their digests
	operations   *hostfunc.Set           // of the embedder

	stop    []func() // closers of the parts that Options did not give
	sweeper *instancepool.Sweeper
	began   time.Time // where the real monotonic clock of guests starts

	mu      sync.Mutex
	plugins map[*Plugin]struct{}
	slots   map[slotKey]*Slot
	loaded  int64 // plugins, ever
	closed  bool
	loads   sync.WaitGroup // in progress; none begins once closed is set
}

// Options are the optional parts of a runtime.
type Options struct {
	// CacheDir keeps compiled code between runs of the program. It holds
	// executable code: it is made with mode 0700 and must belong to this user
	// alone. "" compiles at every start. Processes may share it.
	CacheDir   string
	CacheBytes int64 // its size; the least recently used entries are removed (1 GiB)

	// Compiler compiles a module into job.Dir, best by a process of its own that
	// ends with the limits of the job and calls [CompileInto]. It is for modules
	// from untrusted sources: the structural limits keep the time to compile
	// within CompileWork by estimate, and only a process can be stopped whatever
	// it does. An error of code invalid_argument is the module's fault;
	// [CompileJob.TimeoutError] and [CompileJob.MemoryError] name a limit. It may
	// run twice at once. nil compiles in this process, without CompileTimeout and
	// CompileMemory.
	Compiler func(ctx context.Context, job *CompileJob) error

	Limits Limits // for plugins loaded without their own

	// Engines run plugins that a [LoadOptions.Engine] names them for, instead of
	// the sandbox, by name. They are for plugins that are trusted as the program
	// itself is; host/plugin/extismsdk is one. Calls in them cost no instructions,
	// because an engine does not count them, and Running, Calls and TotalMemoryBytes
	// do not bound them.
	Engines map[string]NewEngine

	// Interpreters are modules that run scripts: plugins that are text, and name one of
	// these by its digest. Its code is compiled once for all of them, in the sandbox like
	// that of any plugin. pdk/js has one for JavaScript. They are not to be changed.
	Interpreters [][]byte

	// Running bounds the calls that run guest code at one time, over all plugins
	// and tenants; those that wait in a host operation do not count. Default: as
	// many as the program has cores (GOMAXPROCS), because guests compute. Tenants
	// alternate: the one that has used the fewest instructions runs first.
	Running int
	// Calls bounds the calls in progress, each of which has an instance, over all
	// plugins and tenants; those that wait for tools that they call do not count. A
	// tenant may have as many as are still free, so that one alone gets half (512).
	Calls int
	// TotalMemoryBytes bounds the memory of all instances together (4 GiB): their
	// linear memory, their tables, the stacks of their calls (twice, because the
	// collector lets as much garbage stand), and of Extism plugins their blocks and
	// variables.
	TotalMemoryBytes int64

	// Tenants are the settings of tenants by id, and AnyTenant those of every other
	// tenant; both can be left out.
	Tenants   map[string]*Tenant
	AnyTenant *Tenant

	// Ledger has the plans of tenants, and counts what their plugins use: to the run that
	// a call belongs to, or to the tenant's use outside runs. Default: one of the runtime's
	// own, in memory, with the default plan; see [Runtime.Ledger].
	Ledger *usage.Ledger

	// ReportedTenants is how many tenants have lines of their own in a usage report
	// (10,000); the rest are summed. See [Runtime.UsageReport].
	ReportedTenants int

	// Ceiling bounds the permissions of every plugin, whatever it is granted; nil is
	// no ceiling.
	Ceiling *Permissions

	// The services of host operations. Without a Store, kv.get and its like fail with
	// code unimplemented, and without a Queue queue.send does; without a Fetcher,
	// requests go out by an egress.Client that has Secrets, or none; without Models,
	// plugins ask the model of the agent at work. host/plugin/pluginkv is a Store,
	// host/queue a Queue: see [Runtime.HandleJob]. The runtime does not close
	// the parts given here.
	Store   Store
	Fetcher Fetcher
	Secrets egress.Secrets // for requests, where there is no Fetcher
	Models  Models
	Queue   host.Enqueuer

	// Operations are host operations of the program's own, beside those of pdk/ABI.md: a
	// plugin that is granted one calls it by its name. See package hostfunc.
	Operations []hostfunc.Operation

	// ProfileCalls compiles plugins so that calls can have a profile of their instructions by
	// function: see [CallOptions.Profile]. Their code is compiled in this process, reports
	// each function that it enters and leaves, and takes many times as long to run: such a
	// runtime is for looking at a plugin, and should serve no other calls.
	ProfileCalls bool

	Log    func(LogLine) // receives guests' log lines, from many goroutines at once; default: to Logger
	Logger *slog.Logger  // nil discards
}

// NewRuntime returns a runtime. Close it when no plugin is in use.
func NewRuntime(_ context.Context, opts *Options) (*Runtime, error) {
	if opts == nil {
		opts = &Options{}
	}
	rt := &Runtime{opts: *opts, plugins: map[*Plugin]struct{}{},
		slots: map[slotKey]*Slot{}, began: time.Now(), interpreters: interpreters(opts.Interpreters)}
	if err := opts.Limits.check(); err != nil {
		return nil, err
	}
	var err error
	if rt.usageBook, err = usagereport.New(opts.ReportedTenants); err != nil {
		return nil, err
	}
	if rt.tenants, err = newTenants(opts); err != nil {
		return nil, err
	}
	if err := rt.ledger.begin(opts.Ledger); err != nil {
		return nil, err
	}
	rt.opts.Limits = opts.Limits.withDefaults()
	if err := rt.setBounds(); err != nil {
		return nil, err
	}
	if rt.opts.Logger == nil {
		rt.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if rt.opts.Log == nil {
		rt.opts.Log = rt.logLine
	}
	if rt.operations, err = hostfunc.NewSet(opts.Operations, rt.opts.Logger); err != nil {
		return nil, err
	}
	if rt.compiler, err = newCompiler(&rt.opts, rt.usageBook, &rt.ledger, rt.userFunctions()); err != nil {
		return nil, err
	}
	rt.openServices()
	rt.sweeper = instancepool.StartSweeper(rt.sweepIdle)
	return rt, nil
}

// The defaults of [Options].
const (
	defaultCalls            = 512
	defaultTotalMemoryBytes = 4 << 30
)

// setBounds fills in the limits of all plugins together.
func (rt *Runtime) setBounds() error {
	o := &rt.opts
	if o.Running < 0 || o.Calls < 0 || o.TotalMemoryBytes < 0 {
		return host.Errorf(host.InvalidArgument, "a runtime of plugins is limited to %d running and %d calls, and %d bytes of memory", o.Running, o.Calls, o.TotalMemoryBytes).
			WithHint("leave Running, Calls or TotalMemoryBytes out for the default")
	}
	o.Running = cmp.Or(o.Running, runtime.GOMAXPROCS(0))
	o.Calls = cmp.Or(o.Calls, defaultCalls)
	o.TotalMemoryBytes = cmp.Or(o.TotalMemoryBytes, defaultTotalMemoryBytes)
	rt.scheduler = fairsched.New(o.Running, o.Calls)
	rt.meters = callmeter.Host{Scheduler: rt.scheduler, Uninterruptible: fairsched.New(1, math.MaxInt), Blameless: blameless}
	rt.memories.Limit = o.TotalMemoryBytes
	return nil
}

// openServices makes the services of host operations that Options did not give.
func (rt *Runtime) openServices() {
	if rt.fetcher = rt.opts.Fetcher; rt.fetcher == nil {
		client := egress.New(&egress.Options{Secrets: rt.opts.Secrets})
		rt.fetcher = client
		rt.stop = append(rt.stop, func() { _ = client.Close() }) // it only closes connections
	}
}

// retireIdle closes the idle instances of all plugins, and reports whether there
// were any.
func (rt *Runtime) retireIdle() bool {
	rt.mu.Lock()
	plugins := slices.Collect(maps.Keys(rt.plugins))
	rt.mu.Unlock()
	n := 0
	for _, p := range plugins {
		n += p.instances.Retire(time.Time{})
	}
	return n > 0
}

// sweepIdle closes the instances of all plugins that were idle for too long.
func (rt *Runtime) sweepIdle() {
	for _, p := range rt.open() {
		p.instances.Sweep()
	}
}

// DropIdle closes the idle instances of all plugins, whose memory may have data of earlier
// calls, as the erasure of a tenant needs. The next calls make new ones.
func (rt *Runtime) DropIdle() { rt.retireIdle() }

func (rt *Runtime) logLine(l LogLine) {
	rt.opts.Logger.Log(context.Background(), l.Level, l.Text, "plugin", l.Plugin, "tenant", l.Tenant, "export", l.Export)
}

// Close closes every plugin, waiting for the calls in them and for loads in progress,
// and the runtime. It may be called twice.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return nil
	}
	rt.closed = true
	rt.mu.Unlock()
	rt.compiler.close()
	for _, stop := range rt.stop {
		stop()
	}
	for _, s := range rt.Slots() {
		s.shut(false)
	}
	for _, p := range rt.open() {
		p.Close()
	}
	rt.loads.Wait()
	rt.compiler.work.Wait()
	rt.sweeper.Stop()
	return rt.ledger.own.Close(ctx)
}

func (rt *Runtime) open() []*Plugin {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return slices.Collect(maps.Keys(rt.plugins))
}

// LoadOptions are the optional parts of loading a plugin.
type LoadOptions struct {
	Limits  Limits      // zero fields are the runtime's
	Granted Permissions // of the permissions asked for, for tenants without grants of their own; default: nothing

	// Owner is the tenant that the plugin is of, and the only one that has it; "" is
	// the host. Two tenants may use the same id, each for a plugin of its own;
	// no error, text or sum of one tenant shows the plugins of another.
	Owner string

	// Tenants are the only ones that have a plugin of the host's. For all others it
	// does not exist: a call fails with code not_found and does not say the plugin's
	// name. nil is all tenants, and an empty list none.
	Tenants []string

	Extism ExtismOptions // for a plugin that is built with an Extism kit

	// Engine names one of the runtime's Engines, to run the plugin outside the
	// sandbox; "" is the sandbox.
	Engine string

	// Isolation says how much state of earlier calls a call may find. Default: none
	// for processors and routers, and for other parts that of the tenant's calls.
	Isolation Isolation
}

func (o *LoadOptions) checkOwner() error {
	if o.Owner == "" {
		return nil
	}
	if o.Tenants != nil {
		return host.Errorf(host.InvalidArgument, "a plugin has both Owner and Tenants").
			WithHint("only its owner has it: leave Tenants out")
	}
	return host.ValidateTenant(o.Owner)
}

// tenants returns the only tenants that have the plugin; nil is all.
func (o *LoadOptions) tenants() []string {
	if o.Owner != "" {
		return []string{o.Owner}
	}
	return slices.Clone(o.Tenants)
}

// serves reports whether a tenant has the plugin.
func (o *LoadOptions) serves(tenant string) bool {
	only := o.tenants()
	return only == nil || slices.Contains(only, tenant)
}

// LoadFile is [Runtime.Load] from a file. Code not_found if it does not exist.
func (rt *Runtime) LoadFile(ctx context.Context, id, path string, opts *LoadOptions) (*Plugin, error) {
	wasm, err := ReadModule(path, rt.limitsFor(opts).ModuleBytes)
	if err != nil {
		return nil, loadError(id, err)
	}
	return rt.Load(ctx, id, wasm, opts)
}

// ReadModule reads a module from a file of at most max bytes. Code not_found if
// it does not exist, invalid_argument if it is a directory or too large.
func ReadModule(path string, max int) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, host.Errorf(host.NotFound, "there is no file %s", path).WithHint("check the path; a plugin in Go is named by its directory")
	case err != nil:
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	case info.IsDir():
		return nil, host.Errorf(host.InvalidArgument, "%s is a directory", path).WithHint("name its .wasm file, or build it: agenthost plugin build %s", path)
	case !info.Mode().IsRegular():
		return nil, host.Errorf(host.InvalidArgument, "%s is not a file", path).WithHint("name a .wasm file")
	case info.Size() > int64(max):
		return nil, host.Errorf(host.InvalidArgument, "%s is %d bytes, more than the limit ModuleBytes of %d", path, info.Size(), max)
	}
	return readAtMost(path, max)
}

// readAtMost reads a file, also one whose size is not known before.
func readAtMost(path string, max int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	}
	defer f.Close()
	wasm, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	switch {
	case err != nil:
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	case len(wasm) > max:
		return nil, host.Errorf(host.InvalidArgument, "%s is more than the limit ModuleBytes of %d", path, max)
	}
	return wasm, nil
}

// Load checks, meters and compiles a module, reads its manifest, and returns it
// under the operator's id. Errors: invalid_argument for a module that is
// malformed or too large, failed_precondition for one that is made for another
// host; either names the plugin, the fault and the remedy.
//
// Modules with the same bytes and limits are compiled once.
func (rt *Runtime) Load(ctx context.Context, id string, wasm []byte, opts *LoadOptions) (*Plugin, error) {
	p, err := rt.load(ctx, id, wasm, opts)
	if err != nil {
		return nil, loadError(id, err)
	}
	if missing := p.manifest.Permissions.Missing(p.Granted()); len(missing) > 0 {
		rt.opts.Logger.WarnContext(ctx, "plugin asks for more than it is granted", "plugin", id, "missing", missing)
	}
	return p, nil
}

func loadError(id string, err error) error {
	e := *fault.AsError(err)
	e.Message, e.Err = "load plugin \""+id+"\": "+e.Message, err
	return &e
}

func (rt *Runtime) limitsFor(opts *LoadOptions) Limits {
	if opts == nil {
		return rt.opts.Limits
	}
	return opts.Limits.over(rt.opts.Limits)
}

func (rt *Runtime) load(ctx context.Context, id string, wasm []byte, opts *LoadOptions) (*Plugin, error) {
	if opts == nil {
		opts = &LoadOptions{}
	}
	if id == "" {
		return nil, host.Errorf(host.InvalidArgument, "a plugin needs an id")
	}
	if err := opts.checkOwner(); err != nil {
		return nil, err
	}
	if err := opts.Limits.check(); err != nil {
		return nil, err
	}
	if err := errors.Join(opts.Extism.check(), opts.Isolation.check()); err != nil {
		return nil, err
	}
	if err := rt.startLoad(); err != nil {
		return nil, err
	}
	defer rt.loads.Done()
	p := newPlugin(rt, id, opts)
	module, err := p.setModule(ctx, wasm, opts)
	if err != nil {
		return nil, err
	}
	if p.manifest, err = p.readManifest(ctx, p.module.manifestOf(module)); err == nil {
		err = refusal.First(append(module.OfferProblems(p.manifest), rt.missingOperations(p.manifest, opts.Owner)...))
	}
	if err == nil {
		err = p.compileSchemas(ctx, opts.tenants())
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	p.bindings.only = opts.tenants()
	if err := p.Grant(opts.Granted); err != nil {
		p.Close()
		return nil, err
	}
	p.instances.Retire(time.Time{})
	p.bindings.clear() // the describing instance had nothing granted
	if err := rt.register(p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// setModule prepares the engine or the module that runs the plugin's calls.
func (p *Plugin) setModule(ctx context.Context, wasm []byte, opts *LoadOptions) (guestmodule.Module, error) {
	if opts.Engine != "" {
		return p.setEngine(ctx, wasm, opts)
	}
	s, by, err := p.runtime.readScript(wasm, &p.limits)
	if err != nil {
		return guestmodule.Module{}, err
	}
	var prepared *preparedModule
	if s == nil {
		prepared, err = p.runtime.compiler.prepare(wasm, p.limits.structure())
	} else {
		prepared, err = by.prepare(p.runtime.compiler, p.limits.structure())
	}
	if err != nil {
		return guestmodule.Module{}, err
	}
	m := guestmodule.Module{Wasm: prepared.metered.Module, User: p.runtime.userFunctions()}
	if err := m.Check(); err != nil {
		return guestmodule.Module{}, err
	}
	p.module.digest, p.module.script = digestName(m.Wasm.Digest[:]), s
	if s != nil {
		p.module.digest = digestName(s.digest[:])
	}
	p.module.setExtism(m, opts, &p.limits)
	p.module.code, err = p.runtime.compiler.compile(ctx, prepared, p, opts.tenants())
	return m, err
}

// startLoad counts a load in the wait group loads.
func (rt *Runtime) startLoad() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return errClosed("runtime")
	}
	rt.loads.Add(1)
	return nil
}

func (rt *Runtime) register(p *Plugin) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return errClosed("runtime")
	}
	rt.plugins[p] = struct{}{}
	rt.loaded++
	p.number = rt.loaded
	return nil
}

func errClosed(what string) error {
	return host.Errorf(host.FailedPrecondition, "the plugin %s is closed", what)
}

// structure returns the limits of a module's structure.
func (l Limits) structure() *wasmmeter.Limits {
	return &wasmmeter.Limits{
		ModuleBytes: l.ModuleBytes, MemoryPages: l.memoryPages(),
		TableEntries: uint32(l.TableEntries), CallDepth: int64(min(l.CallDepth, wasmmeter.MaxCallDepth)), CompileTime: l.CompileWork,
	}
}

// over returns l with its zero fields taken from d.
func (l Limits) over(d Limits) Limits {
	if l.Timeout == 0 {
		l.Timeout = d.Timeout
	}
	if l.StartTimeout == 0 {
		l.StartTimeout = d.StartTimeout
	}
	if l.IdleTime == 0 {
		l.IdleTime = d.IdleTime
	}
	if l.CompileWork == 0 {
		l.CompileWork = d.CompileWork
	}
	if l.CompileTimeout == 0 {
		l.CompileTimeout = d.CompileTimeout
	}
	if l.CompileMemory == 0 {
		l.CompileMemory = d.CompileMemory
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = d.MemoryBytes
	}
	if l.KVBytes == 0 {
		l.KVBytes = d.KVBytes
	}
	if l.Instructions == 0 {
		l.Instructions = d.Instructions
	}
	if l.StartInstructions == 0 {
		l.StartInstructions = d.StartInstructions
	}
	for _, f := range []struct{ v, d *int }{
		{&l.ModuleBytes, &d.ModuleBytes}, {&l.TableEntries, &d.TableEntries}, {&l.CallDepth, &d.CallDepth},
		{&l.InputBytes, &d.InputBytes}, {&l.OutputBytes, &d.OutputBytes}, {&l.HostCalls, &d.HostCalls},
		{&l.ResponseBytes, &d.ResponseBytes}, {&l.LogBytes, &d.LogBytes}, {&l.BlockBytes, &d.BlockBytes}, {&l.VarBytes, &d.VarBytes}, {&l.Instances, &d.Instances},
		{&l.IdleInstances, &d.IdleInstances}, {&l.MaxIdle, &d.MaxIdle}, {&l.Waiting, &d.Waiting},
		{&l.MaxCallsPerInstance, &d.MaxCallsPerInstance},
	} {
		if *f.v == 0 {
			*f.v = *f.d
		}
	}
	return l
}
