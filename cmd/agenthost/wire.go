package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/host/trace"
)

// app is everything that a configuration asks for, wired together. It is the
// one place that knows every package.
type app struct {
	env     *environment
	config  *config
	logger  *slog.Logger
	runtime *plugin.Runtime
	data    *store
	threads *threads.Store
	queue   *queue.Queue // what runs leave for after their turns
	tokens  *tokens.Counter
	host    *host.Host
	// What sessions need beside it: hosts of their own are made of the options.
	hostOptions    host.Options
	historyOptions host.HistoryOptions
	views          map[string]*stream.View // by target; nil shows everything
	elsewhere      bool                    // threads are in a database
	traces         *trace.Log              // nil without a data directory

	memories  map[string]usedMemory         // by name
	ownMemory *memory.Store                 // nil if nobody uses it
	messages  map[string]host.MessageStores // of agents that keep their own, by agent

	retention *retention // nil unless this process removes what is not kept

	only     map[string]bool // the plugins to load; nil is all of the configuration
	live     bool            // plugins can be replaced while they serve
	scripted bool            // a stand-in answers, not a model
	plugins  map[string]parts
	models   map[string]host.Model // "" is the default one
	agents   map[string]*host.Agent
	closers  []func() error

	serving atomic.Bool // the agents are made: a plugin's next version is held to what they use

	mu      sync.Mutex
	targets map[string]host.Target // made anew when a plugin offers more than before
}

// parts is what a plugin can be made into: a *plugin.Plugin, or a *plugin.Slot
// if it can be replaced.
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

// appOptions are what a command line adds to a configuration.
type appOptions struct {
	data string // the data directory; "" keeps threads in memory
	// verify reads all files of the data directory before it is used.
	verify bool
	dsn    string // the address of a database that keeps threads; "" leaves that to the configuration
	model  string // a model for every agent; "" leaves that to the configuration
	quiet  bool   // do not tell what takes time
	live   bool   // plugins can be replaced while they serve
}

// newApp wires a configuration. It cleans up after itself if it fails.
func newApp(ctx context.Context, env *environment, c *config, opts appOptions) (_ *app, err error) {
	a := &app{
		env: env, config: c, logger: env.logger(), live: opts.live,
		plugins: map[string]parts{}, models: map[string]host.Model{},
		elsewhere: opts.dsn != "" || c.History.AddressEnv != "",
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	for _, step := range []func() error{
		func() error { return a.open(ctx, opts) },
		func() error { return a.makeModels(ctx, opts.model) },
		a.openMemories,
		func() error { return a.openMessages(ctx) },
		a.makeTargets,
		a.makeViews,
		func() error { return a.makeHost(ctx, opts.dsn) },
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

// Close closes what was opened, last first. It may be called twice.
func (a *app) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// open opens the store and loads the plugins, at the same time: one waits for the
// disk while the other computes.
func (a *app) open(ctx context.Context, opts appOptions) error {
	var data *store
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
	pluginErr := a.openPlugins(ctx, keys, opts.quiet)
	wg.Wait()
	if dataErr != nil {
		return dataErr
	}
	a.closers = slices.Insert(a.closers, 0, data.Close) // after the plugins, which write to it
	a.data = data
	if opts.data != "" {
		if a.traces, dataErr = a.env.openTraces(opts.data, data, a.logger); dataErr != nil {
			return errors.Join(dataErr, pluginErr)
		}
	}
	a.threads = threads.New(data.Driver, withTraces(a.traces))
	a.openQueue(data)
	return pluginErr
}

// openData opens the store. A live host is to be the one that others use; any
// other command may use it through such a host.
func (a *app) openData(ctx context.Context, opts appOptions) (*store, error) {
	open := a.env.openStore
	if opts.verify {
		open = a.env.openVerified
	}
	s, err := open(opts.data, a.logger)
	if opts.live {
		return s, err
	}
	return orShared(ctx, s, err, opts.data)
}

// openPlugins starts the runtime and loads the plugins, which keep their keys in
// store.
func (a *app) openPlugins(ctx context.Context, store plugin.Store, quiet bool) error {
	opts, err := a.env.runtimeOptions(a.logger)
	if err != nil {
		return err
	}
	opts.Store = store
	if err := a.config.tenants(opts); err != nil {
		return err
	}
	opts.Queue = enqueuer{a}
	if a.runtime, err = plugin.NewRuntime(ctx, opts); err != nil {
		return a.config.wrap(err, keys("tenants"))
	}
	a.closers = append(a.closers, func() error { return a.runtime.Close(context.WithoutCancel(ctx)) })
	if a.tokens, err = tokens.New(nil); err != nil {
		return err
	}
	return a.loadPlugins(ctx, quiet)
}

// storeName is the directory in a data directory that holds threads and what
// plugins keep: the store wants one for itself.
const storeName = "db"

type advice struct {
	is   error
	code host.Code
	hint string
}

// dataErrors is the one table from what opening a store can meet to what to do
// about it.
func dataErrors() []advice {
	return []advice{
		{kv.ErrLocked, host.FailedPrecondition, "one process owns a data directory: stop the other one, or name another --data"},
		{kv.ErrReadOnly, host.FailedPrecondition, "make it writable for this user, or name another --data"},
		{kv.ErrInvalid, host.FailedPrecondition, "name a directory with --data"},
		{kv.ErrKey, host.FailedPrecondition, "set " + keyFileVariable + " or " + keyVariable + " to the key that it was made with, or neither if it has none; nothing was changed"},
		{kv.ErrFormat, host.FailedPrecondition, "name another --data; nothing was changed in this one"},
		{kv.ErrNoSpace, host.ResourceExhausted, "free some space, or name a --data on another device"},
		{kv.ErrCorrupt, host.DataLoss, "restore a backup into a new directory with: agenthost data restore BACKUP --data NEW; nothing was changed in this one"},
	}
}

// dataError says what to do in the words of the command line; the store's own
// advice, after a semicolon, is for programs.
func dataError(dir string, err error) error {
	what, _, _ := strings.Cut(err.Error(), "; ")
	e := &host.Error{Code: host.FailedPrecondition, Message: "data directory " + dir + ": " + what, Err: err,
		Hint: "check that it exists or can be made, and that you may write there"}
	for _, known := range dataErrors() {
		if errors.Is(err, known.is) {
			e.Code, e.Hint = known.code, known.hint
			break
		}
	}
	if errors.Is(err, kv.ErrKey) && strings.Contains(what, "the file "+badgerkv.KeyFile) {
		e.Hint = "put back a copy of " + badgerkv.KeyFile + "; without it nothing in the directory can be read"
	}
	return e
}

// runtimeOptions are those of every runtime: it keeps compiled code in this
// user's cache and shows what guests write.
func (env *environment) runtimeOptions(logger *slog.Logger) (*plugin.Options, error) {
	dir, err := env.cacheDir("wasm")
	if err != nil {
		return nil, err
	}
	return &plugin.Options{CacheDir: dir, Logger: logger, Log: env.guestLog(), Compiler: env.compiler.option(), Secrets: env.secrets(),
		Engines: map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(nil)}}, nil
}

// secrets are those that plugins may have sent for them: the variables that
// [egress.EnvSecrets] names.
func (env *environment) secrets() egress.Secrets {
	return egress.EnvSecrets{Lookup: func(name string) (string, bool) {
		v := env.getenv(name)
		return v, v != ""
	}}
}

// newSandbox returns a runtime for one command, whose plugins keep their keys and
// jobs in memory. Call close when the command ends.
func (env *environment) newSandbox(ctx context.Context, logger *slog.Logger) (rt *plugin.Runtime, close func() error, err error) {
	opts, err := env.runtimeOptions(logger)
	if err != nil {
		return nil, nil, err
	}
	memory := kv.NewMemory()
	jobs := queue.New(memory, &queue.Options{Logger: logger})
	opts.Store, opts.Queue = pluginkv.New(memory, nil), jobs
	if rt, err = plugin.NewRuntime(ctx, opts); err != nil {
		return nil, nil, err
	}
	jobs.Handle(plugin.JobName, rt.HandleJob)
	close = func() error { return errors.Join(jobs.Close(), rt.Close(context.WithoutCancel(ctx))) }
	if err := jobs.Start(ctx); err != nil {
		return nil, nil, errors.Join(err, close())
	}
	return rt, close, nil
}

// cacheDir returns a directory of this user for what can be made again;
// AGENTHOST_CACHE moves it.
func (env *environment) cacheDir(name string) (string, error) {
	if dir := env.getenv("AGENTHOST_CACHE"); dir != "" {
		return filepath.Join(dir, name), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", host.Errorf(host.FailedPrecondition, "find a cache directory: %w", err).WithHint("set AGENTHOST_CACHE")
	}
	return filepath.Join(dir, "agenthost", name), nil
}

// logger writes warnings to stderr, without the time: whoever reads them is
// there.
func (env *environment) logger() *slog.Logger { return env.loggerFrom(slog.LevelWarn) }

// quietLogger is logger for who does not want warnings: a command that shows
// itself what they are about.
func (env *environment) quietLogger() *slog.Logger { return env.loggerFrom(slog.LevelError) }

func (env *environment) loggerFrom(level slog.Level) *slog.Logger {
	return slog.New(logHandler{console: env.console(), Handler: slog.NewTextHandler(env.console(), &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})})
}

// guestLog writes guests' log lines to stderr, each with its plugin's name.
func (env *environment) guestLog() func(plugin.LogLine) {
	return func(l plugin.LogLine) {
		var b strings.Builder
		for line := range strings.SplitSeq(l.Text, "\n") {
			b.WriteString("[" + l.Plugin + "] " + line + "\n")
		}
		_, _ = io.WriteString(env.console(), b.String()) // there is nobody else to tell
	}
}

func (a *app) makeHost(ctx context.Context, dsn string) error {
	history, err := a.makeHistory(ctx, dsn)
	if err != nil {
		return err
	}
	approve, terms, err := a.approvals()
	if err != nil {
		return err
	}
	var journal host.Journal // absent: the history, which is one
	if a.elsewhere {
		journal = a.threads
	}
	quotas, err := a.config.quotas()
	if err != nil {
		return err
	}
	a.hostOptions = host.Options{
		SingleTenant: true, // callers of the socket may act for any tenant, the default one included

		Model: a.models[""], Journal: journal, History: history, Tokens: a.tokens, Limits: a.config.Limits.limits(), Logger: a.logger,
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

// target returns what to run; "" is the configuration's default.
func (a *app) target(name string) (host.Target, error) {
	if name == "" {
		name = a.config.target()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.targets[name]; t != nil {
		return t, nil
	}
	return nil, a.config.unknownTarget(name)
}

// unknownTarget is the error of a --target that does not exist: the command line
// is wrong, not the configuration.
func (c *config) unknownTarget(name string) error {
	e := host.Errorf(host.NotFound, "--target: %s has no network or agent %q", c.name, name)
	if near := nearest(name, c.targets()); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("there are: %s", strings.Join(c.targets(), ", "))
}
