package project

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/host/trace"
)

// Project is a configuration wired into a running host. It is the one place that
// imports every package.
type Project struct {
	config  *configfile.Config
	getenv  func(string) string
	modules *Modules
	// progress is called before each step that takes time; it may be nil.
	progress func(string)
	erasing  func(tenants int) // see Options.Erasing; may be nil
	logger   *slog.Logger
	runtime  *plugin.Runtime
	data     *datadir.Dir
	threads  *threads.Store
	queue    *queue.Queue // the jobs that runs enqueue for after their turns
	tokens   *tokens.Counter
	host     *host.Host
	// The options of sessions' own hosts, and the views of their clients.
	hostOptions    host.Options
	historyOptions host.HistoryOptions
	views          map[string]*stream.View // by target; nil shows everything
	elsewhere      bool                    // threads are in a database
	traces         *trace.Log              // nil without a data directory

	memories  map[string]usedMemory         // by name
	ownMemory *memory.Store                 // nil if no memory uses it
	messages  map[string]host.MessageStores // of agents that keep their own, by agent

	erasures  *erasure.Tenants // one, so that a sweep and a caller delete one after the other
	retention *retention       // nil unless this process removes expired data

	only     map[string]bool // the plugins to load; nil is all of the configuration
	live     bool            // plugins can be replaced while they serve
	scripted bool            // a stand-in answers, not a model
	plugins  map[string]parts
	models   map[string]host.Model // "" is the default one
	agents   map[string]*host.Agent
	closers  []func() error

	serving atomic.Bool // the agents are made: a plugin's next version must have the parts they use

	mu      sync.Mutex
	targets map[string]host.Target // made again when a plugin offers more than before
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
	// Progress, unless nil, is called before each slow step with its name.
	Progress func(string)
	// Erasing, unless nil, is called with the number of tenants whose interrupted
	// deletions are being completed.
	Erasing func(tenants int)

	Data string // the data directory; "" keeps threads in memory
	// Verify reads all files of the data directory before it is used.
	Verify      bool
	History     string // the address of a database that keeps threads; "" leaves that to the configuration
	Model       string // a model for every agent; "" leaves that to the configuration
	Replaceable bool   // plugins can be replaced while they serve
}

// Load reads the configuration in a directory, or the file of that name, and wires it.
// A nil *Options means the defaults. Load cleans up after itself if it fails.
func Load(ctx context.Context, dir string, options *Options) (*Project, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	file, err := ReadFile(opts.FS, dir)
	if err != nil {
		return nil, err
	}
	return Open(ctx, file, opts)
}

// Open wires a configuration. It cleans up after itself if it fails.
func Open(ctx context.Context, file *File, opts Options) (_ *Project, err error) {
	c := file.c
	a := wire(c, opts)
	a.elsewhere = opts.History != "" || c.History.AddressEnv != ""
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	for _, step := range []func() error{
		func() error { return a.open(ctx, opts) },
		func() error { return a.makeModels(ctx, opts.Model) },
		a.openMemories,
		func() error { return a.openMessages(ctx) },
		a.makeTargets,
		a.makeViews,
		func() error { return a.makeHost(ctx, opts.History) },
		a.checkTargets,
		func() error { return a.startQueue(ctx) },
		func() error { return a.resumeErasures(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	a.serving.Store(true)
	return a, nil
}

// wire returns a project before anything is opened.
func wire(c *configfile.Config, opts Options) *Project {
	a := &Project{config: c, getenv: opts.Getenv, modules: opts.Modules, progress: opts.Progress, erasing: opts.Erasing, logger: opts.Logger, live: opts.Replaceable,
		plugins: map[string]parts{}, models: map[string]host.Model{}}
	if a.getenv == nil {
		a.getenv = os.Getenv
	}
	if a.modules == nil {
		a.modules = NewModules(&ModulesOptions{Getenv: a.getenv})
	}
	if a.logger == nil {
		a.logger = slog.New(slog.DiscardHandler)
	}
	return a
}

// Close closes all that the project has opened, the last first. It may be called twice.
func (a *Project) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// open opens the store and loads the plugins, at the same time: one waits for the
// disk while the other computes.
func (a *Project) open(ctx context.Context, opts Options) error {
	var data *datadir.Dir
	var dataErr error
	keys := newLateStore()
	var wg sync.WaitGroup
	wg.Go(func() {
		if data, dataErr = a.openData(ctx, opts); dataErr != nil {
			keys.set(nil)
			return
		}
		keys.set(pluginkv.New(data, nil))
	})
	pluginErr := a.openPlugins(ctx, keys)
	wg.Wait()
	if dataErr != nil {
		return dataErr
	}
	a.closers = slices.Insert(a.closers, 0, data.Close) // after the plugins, which write to it
	a.data = data
	if opts.Data != "" {
		if a.traces, dataErr = data.OpenTraces(opts.Data, a.logger); dataErr != nil {
			return errors.Join(dataErr, pluginErr)
		}
	}
	a.threads = threads.New(data.Driver, datadir.ThreadOptions(a.traces))
	a.openQueue(data)
	a.erasures = data.Erasures(a.traces, a.queue)
	return pluginErr
}

// openData opens the store. A live host opens it exclusively and shares it; any other
// command may use it through such a host.
func (a *Project) openData(ctx context.Context, opts Options) (*datadir.Dir, error) {
	how := &datadir.Options{Getenv: a.getenv, Logger: a.logger, Verify: opts.Verify}
	if opts.Replaceable {
		return datadir.Open(opts.Data, how)
	}
	return datadir.OpenShared(ctx, opts.Data, how)
}

// openPlugins starts the runtime and loads the plugins, which keep their keys in
// store.
func (a *Project) openPlugins(ctx context.Context, store plugin.Store) error {
	opts, err := a.modules.RuntimeOptions(a.logger)
	if err != nil {
		return err
	}
	opts.Store = store
	if err := a.config.RuntimeTenants(opts); err != nil {
		return err
	}
	opts.Queue = enqueuer{a}
	if a.runtime, err = plugin.NewRuntime(ctx, opts); err != nil {
		return a.config.Wrap(err, configfile.Keys("tenants"))
	}
	a.closers = append(a.closers, func() error { return a.runtime.Close(context.WithoutCancel(ctx)) })
	if a.tokens, err = tokens.New(nil); err != nil {
		return err
	}
	return a.loadPlugins(ctx)
}

func (a *Project) makeHost(ctx context.Context, dsn string) error {
	history, err := a.makeHistory(ctx, dsn)
	if err != nil {
		return err
	}
	approve, terms, err := a.approvals()
	if err != nil {
		return err
	}
	var journal host.Journal // nil: the history, which is a journal
	if a.elsewhere {
		journal = a.threads
	}
	quotas, err := a.config.Quotas()
	if err != nil {
		return err
	}
	a.hostOptions = host.Options{
		SingleTenant: true, // clients of the socket may act for any tenant, the default one included

		Model: a.models[""], Journal: journal, History: history, Tokens: a.tokens, Limits: a.config.Limits.Limits(), Logger: a.logger,
		Approve: approve,
		Terms:   terms,
		Quota:   quotas,
		Queue:   a.queue,
	}
	if a.traces != nil {
		a.hostOptions.Trace = a.traces
	}
	a.host, err = host.New(&a.hostOptions)
	return err
}

// Target returns the network or agent with a name; "" is the configuration's default.
func (a *Project) Target(name string) (host.Target, error) {
	if name == "" {
		name = a.config.DefaultTarget()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.targets[name]; t != nil {
		return t, nil
	}
	return nil, a.config.UnknownTarget(name)
}

// Targets returns the names of the networks and agents that can be run: networks first,
// each sorted by name.
func (a *Project) Targets() []string { return a.config.TargetNames() }

// Data returns the open data directory, or its replacement in memory.
func (a *Project) Data() *datadir.Dir { return a.data }

// Threads returns the conversations. If [Project.ExternalHistory] is true they are
// only runs' journals.
func (a *Project) Threads() *threads.Store { return a.threads }

// ExternalHistory reports whether conversations are kept in a database instead of the
// data directory.
func (a *Project) ExternalHistory() bool { return a.elsewhere }

// Host returns the host that runs the targets.
func (a *Project) Host() *host.Host { return a.host }

// Runtime returns the sandbox of the plugins.
func (a *Project) Runtime() *plugin.Runtime { return a.runtime }

// Scripted reports whether a stand-in answers instead of a model.
func (a *Project) Scripted() bool { return a.scripted }

// KeepsMessages reports whether an agent has a message store of its own, and so
// agent threads.
func (a *Project) KeepsMessages(agent string) bool { return a.messages[agent] != nil }

// OnClose registers close to be called by [Project.Close], before the parts opened
// earlier are closed.
func (a *Project) OnClose(close func() error) { a.closers = append(a.closers, close) }

// Run runs a request on the project's default network or agent; see [host.Host.Run].
// An empty tenant is the project's.
func (p *Project) Run(ctx context.Context, req *host.Request) (*host.RunResult, error) {
	target, err := p.Target("")
	if err != nil {
		return nil, err
	}
	own := *req
	own.Tenant = p.Tenant(req.Tenant)
	return p.host.Run(ctx, target, &own)
}
