package project

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/host/usage"
)

// Project is a configuration wired into a running host. It is the one place that
// imports every package.
type Project struct {
	config  *configfile.Config
	getenv  func(string) string
	logger  *slog.Logger
	erasing func(tenants int) // see Options.Erasing; may be nil
	live    bool              // plugins can be replaced while they serve
	closers *closers

	// The stores, open.
	data      *datadir.Dir
	threads   *threads.Store
	ledger    *usage.Ledger
	queue     *queue.Queue  // the jobs that runs enqueue for after their turns
	traces    *trace.Log    // nil without a data directory
	retention lateRetention // has begun only where this process removes expired data
	tenants   *tenantSet

	// What the configuration names, made.
	plugins  *pluginSet
	models   *modelSet
	memories *memorySet
	messages *messageSet
	builder  *builder

	host  *host.Host
	hosts hosts
	// The options of sessions' own hosts, and the views of their clients.
	hostOptions    host.Options
	historyOptions host.HistoryOptions
	views          map[string]*stream.View // by target; nil shows everything

	targets targetSet
	mcp     lateMCP
}

// targetSet is the agents and networks, made again when a plugin offers more than before.
type targetSet struct {
	generation atomic.Uint64 // counts how often they were made

	mu     sync.Mutex
	byName map[string]host.Target
}

// set replaces the agents and networks.
func (s *targetSet) set(byName map[string]host.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName = byName
	s.generation.Add(1)
}

// parts makes tools, processors and other parts of a plugin: a *plugin.Plugin, or a
// *plugin.Slot if the plugin can be replaced.
type parts interface {
	ID() string
	Tools(*plugin.PartOptions) ([]*host.Tool, error)
	Tool(string, *plugin.PartOptions) (*host.Tool, error)
	Processor(string, *plugin.PartOptions) (host.Processor, error)
	Router(string, *plugin.PartOptions) (host.Router, error)
	Provider(string, *plugin.PartOptions) (host.Provider, error)
}

var (
	_ parts = (*plugin.Plugin)(nil)
	_ parts = (*plugin.Slot)(nil)
)

// Options are a caller's additions to a configuration.
type Options struct {
	// FS is the file system that [Load] reads. Default: the operating system's files.
	FS      fs.FS
	Getenv  func(string) string // default: os.Getenv
	Modules *Modules            // default: one with Getenv
	Logger  *slog.Logger        // default: nothing is logged
	// Sigstore, unless nil, makes the verifiers of the identities that trusts name: sigstore.New of
	// host/plugin/sigstore. Without it a configuration with identities is refused.
	Sigstore func(share.Identity) (share.BundleVerifier, error)
	// Progress, unless nil, is called before each slow step with its name.
	Progress func(string)
	// Erasing, unless nil, is called with the number of tenants whose interrupted
	// deletions are being completed.
	Erasing func(tenants int)

	// Data says where data is kept: the path of a directory, or
	// postgres://user:password@host:5432/database, which any number of hosts may share; ""
	// keeps it in memory. See [datadir.ParseAddress].
	Data string
	// Verify reads all files of a data directory before it is used.
	Verify bool
	// WaitLock is how long to wait for another process that has the data directory open
	// and does not share it.
	WaitLock time.Duration
	Model    string // a model for every agent; "" leaves that to the configuration
	// Meter, unless nil, receives the events of all runs, such as a *metrics.Collector.
	Meter host.Meter
	// Instrument, unless nil, is called around all runs and the operations in them.
	Instrument host.Instrument

	Version     string // of the program, which the hosts of a database compare; default: that of the build
	Replaceable bool   // plugins can be replaced while they serve
	Registered  bool   // only tenants with records are served: see [Project.Tenants]
}

// Load reads the configuration in a directory, or the file of that name, and wires it.
// A nil *Options means the defaults. Load cleans up after itself if it fails.
func Load(ctx context.Context, dir string, options *Options) (*Project, error) {
	var fsys fs.FS
	if options != nil {
		fsys = options.FS
	}
	file, err := ReadFile(fsys, dir)
	if err != nil {
		return nil, err
	}
	return Open(ctx, file, options)
}

// Open wires a configuration. A nil *Options means the defaults. Open cleans up after
// itself if it fails.
func Open(ctx context.Context, file *File, options *Options) (_ *Project, err error) {
	opts := options.orDefaults()
	c := file.c
	p := wire(c, opts)
	p.mcp.project = p
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, step := range []func() error{
		func() error { return p.open(ctx, opts) },
		func() error { return p.models.open(ctx, opts.Model) },
		func() error { return p.builder.openMCPServers(opts, p.closers) },
		func() error { return p.memories.open(ctx) },
		func() error { return p.messages.open(ctx) },
		p.makeTargets,
		func() (err error) { p.views, err = viewsOf(c); return err },
		p.makeHost,
		func() error { return p.targets.check(p.host, c) },
		(&mcpCatalog{project: p}).check,
		func() error { return p.startQueue(ctx) },
		func() error { return p.openRuns(ctx) },
		func() error {
			p.tenants.registry.Store(p.Runs())
			p.closers.add(p.tenants.store.Close) // before the registry
			return nil
		},
		func() error { return erasures{p}.follow(ctx) },
		func() error { return erasures{p}.resume(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.plugins.serving.Store(true)
	return p, nil
}

// orDefaults returns a copy of the options in which the functions and objects that a
// project calls are set.
func (o *Options) orDefaults() *Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.Modules == nil {
		opts.Modules = NewModules(&ModulesOptions{Getenv: opts.Getenv})
	}
	if opts.Version == "" {
		opts.Version = buildVersion()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &opts
}

// buildVersion returns the version of the program's main module.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// wire returns a project before anything is opened.
func wire(c *configfile.Config, opts *Options) *Project {
	closers := &closers{}
	trusts := &trusts{sigstore: opts.Sigstore}
	plugins := &pluginSet{config: c, modules: opts.Modules, trusts: trusts, progress: opts.Progress, live: opts.Replaceable}
	models := &modelSet{config: c, getenv: opts.Getenv, logger: opts.Logger, closers: closers, byName: map[string]host.Model{}}
	memories := &memorySet{config: c, getenv: opts.Getenv, models: models, logger: opts.Logger}
	reducers := &reducerSet{config: c, models: models}
	messages := &messageSet{config: c, getenv: opts.Getenv, logger: opts.Logger, reducers: reducers, closers: closers}
	return &Project{
		config: c, getenv: opts.Getenv, logger: opts.Logger, erasing: opts.Erasing, hostOptions: host.Options{Meter: opts.Meter, Instrument: opts.Instrument}, live: opts.Replaceable, hosts: hosts{version: opts.Version}, closers: closers,
		tenants: &tenantSet{trusts: trusts}, plugins: plugins, models: models, memories: memories, messages: messages,
		builder: &builder{config: c, plugins: plugins, models: models, memories: memories, reducers: reducers, messages: messages, code: &codeModes{config: c}},
	}
}

// Close closes all that the project has opened, the last first. It may be called twice.
func (p *Project) Close() error { return p.closers.close() }

// closers are the functions that close a project's parts.
type closers struct{ list []func() error }

// add registers a function to be called before those that are registered already.
func (c *closers) add(close func() error) { c.list = append(c.list, close) }

// addLast registers a function to be called after all others.
func (c *closers) addLast(close func() error) { c.list = slices.Insert(c.list, 0, close) }

// close calls the functions, the latest first, each once.
func (c *closers) close() error {
	var errs []error
	for _, close := range slices.Backward(c.list) {
		errs = append(errs, close())
	}
	c.list = nil
	return errors.Join(errs...)
}

// open opens the store and loads the plugins, at the same time: one waits for the
// disk while the other computes.
func (p *Project) open(ctx context.Context, opts *Options) error {
	var data *datadir.Dir
	var dataErr error
	keys := newLateStore()
	var wg sync.WaitGroup
	wg.Go(func() {
		if data, dataErr = openData(ctx, opts); dataErr != nil {
			keys.set(nil)
			return
		}
		keys.set(pluginkv.New(data, nil))
	})
	pluginErr := p.openPlugins(ctx, keys)
	wg.Wait()
	if dataErr != nil {
		return dataErr
	}
	if err := errors.Join(p.hosts.join(p, data), p.openLedger(data)); err != nil {
		return errors.Join(err, data.Close(), pluginErr)
	}
	p.closers.addLast(data.Close) // after the plugins, which write to it
	p.data = data
	if p.traces, dataErr = data.OpenTraces(p.logger); dataErr != nil {
		return errors.Join(dataErr, pluginErr)
	}
	p.threads = threads.New(data.Driver, p.hosts.lockThreads(data, data.ThreadOptions(p.traces), p.continueRun))
	p.openQueue(data)
	p.memories.driver, p.memories.queue, p.memories.ledger = p.data, p.queue, p.ledger
	p.messages.threads = p.threads
	p.builder.reducers.threads, p.builder.reducers.queue = p.threads, p.queue
	if pluginErr != nil {
		return pluginErr
	}
	p.tenants.ledger, p.tenants.runtime = p.ledger, p.plugins.runtime
	if err := p.tenants.open(ctx, data.Driver, p.config, !opts.Registered, p.logger); err != nil {
		return err
	}
	p.closers.add(p.tenants.store.Close)
	p.tenants.erasures = data.Erasures(p.traces, p.queue, p.threads, p.ledger.Erasing(), erasures{p}.memory(), &p.plugins.library, p.tenants.store)
	return p.openLibrary(ctx)
}

// openLedger opens the ledger of the tenants' usage.
func (p *Project) openLedger(data *datadir.Dir) error {
	opts := &usage.Options{Logger: p.logger}
	err := p.config.Usage(opts)
	if err == nil {
		p.ledger, err = usage.New(data.Driver, opts)
	}
	if err != nil {
		return err
	}
	p.closers.addLast(func() error { return p.ledger.Close(context.Background()) })
	if p.plugins.runtime != nil { // absent after an error
		p.plugins.runtime.UseLedger(p.ledger)
	}
	return nil
}

// openData opens the store. A live host opens a directory exclusively and shares it; any
// other command may use it through such a host. A database is open to all.
func openData(ctx context.Context, opts *Options) (*datadir.Dir, error) {
	how := &datadir.Options{Getenv: opts.Getenv, Logger: opts.Logger, Verify: opts.Verify, WaitLock: opts.WaitLock}
	if opts.Replaceable {
		return datadir.Open(ctx, opts.Data, how)
	}
	return datadir.OpenShared(ctx, opts.Data, how)
}

// openPlugins starts the runtime and loads the plugins, which keep their keys in
// store.
func (p *Project) openPlugins(ctx context.Context, store plugin.Store) error {
	opts, err := p.plugins.modules.RuntimeOptions(p.logger)
	if err != nil {
		return err
	}
	opts.Store = store
	if err := p.config.RuntimeTenants(opts); err != nil {
		return err
	}
	opts.Queue = enqueuer{p}
	if p.plugins.runtime, err = plugin.NewRuntime(ctx, opts); err != nil {
		return p.config.Wrap(err, configfile.Keys("tenants"))
	}
	p.closers.add(func() error { return p.plugins.runtime.Close(context.WithoutCancel(ctx)) })
	counter, err := tokens.New(nil)
	if err != nil {
		return err
	}
	p.builder.tokens, p.messages.tokens = counter, counter
	if err := p.plugins.load(ctx); err != nil || p.plugins.only != nil {
		return err
	}
	return p.builder.code.load(ctx, p.plugins.runtime)
}

func (p *Project) makeHost() error {
	kept, err := p.builder.historyOptions()
	if err != nil {
		return err
	}
	p.historyOptions = *kept
	history, err := host.NewHistory(p.threads, kept)
	if err != nil {
		return err
	}
	approve, terms, err := p.builder.approvals()
	if err != nil {
		return err
	}
	p.hostOptions = host.Options{
		SingleTenant: true, // clients of the socket may act for any tenant, the default one included

		Model: p.models.byName[""], History: history, Tokens: p.builder.tokens, Limits: p.config.Limits.Limits(), Logger: p.logger,
		Approve: approve,
		Terms:   terms,
		Ledger:  p.tenants.store.Guard(p.ledger),
		Queue:   p.queue,
		Journal: p.hosts.ownJournal(p.threads),
		Meter:   p.hostOptions.Meter,

		Instrument: p.hostOptions.Instrument,

		TenantLimits: p.tenants.store.Limits,
	}
	if p.traces != nil {
		p.hostOptions.Trace = p.traces
	}
	p.host, err = host.New(&p.hostOptions)
	return err
}

// Target returns the network or agent with a name; "" is the configuration's default.
func (p *Project) Target(name string) (host.Target, error) {
	if name == "" {
		name = p.config.DefaultTarget()
	}
	p.targets.mu.Lock()
	defer p.targets.mu.Unlock()
	if t := p.targets.byName[name]; t != nil {
		return t, nil
	}
	return nil, p.config.UnknownTarget(name)
}

// Ledger returns the ledger of the tenants' usage.
func (p *Project) Ledger() *usage.Ledger { return p.ledger }

// Targets returns the names of the networks and agents that can be run: networks first,
// each sorted by name.
func (p *Project) Targets() []string { return p.config.TargetNames() }

// Data returns the open data directory, or its replacement in memory.
func (p *Project) Data() *datadir.Dir { return p.data }

// Threads returns the conversations.
func (p *Project) Threads() *threads.Store { return p.threads }

// Host returns the host that runs the targets.
func (p *Project) Host() *host.Host { return p.host }

// Runtime returns the sandbox of the plugins.
func (p *Project) Runtime() *plugin.Runtime { return p.plugins.runtime }

// Scripted reports whether a stand-in answers instead of a model.
func (p *Project) Scripted() bool { return p.models.scriptedUsed }

// KeepsMessages reports whether an agent has a message store of its own, and so
// agent threads.
func (p *Project) KeepsMessages(agent string) bool { return p.messages.byAgent[agent] != nil }

// OnClose registers close to be called by [Project.Close], before the parts opened
// earlier are closed.
func (p *Project) OnClose(close func() error) { p.closers.add(close) }

// Run runs a request on the project's default network or agent; see [host.Host.Run].
// An empty tenant is the project's.
func (p *Project) Run(ctx context.Context, req *host.Request) (*host.RunResult, error) {
	target, err := p.Target("")
	if err != nil {
		return nil, err
	}
	var own host.Request
	if req != nil {
		own = *req
	}
	own.Tenant = p.Tenant(own.Tenant)
	return p.host.Run(ctx, target, &own)
}
