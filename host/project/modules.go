package project

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
	"github.com/agenthost/agenthost/host/plugin/hostfunc"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/project/internal/buildcmd"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/project/internal/kitsource"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/termtext"
	"github.com/agenthost/agenthost/pdk/js"
)

// Modules reads plugins' modules by the names that people give them, and starts
// runtimes that keep compiled code in this user's cache. It is safe for concurrent
// use.
type Modules struct {
	getenv  func(string) string
	log     func(plugin.LogLine)
	compile func(context.Context, *plugin.CompileJob) error

	commands   bool
	operations []hostfunc.Operation
	profiles   bool
}

// ModulesOptions are the options of a module reader. A nil *ModulesOptions means the
// defaults.
type ModulesOptions struct {
	// Getenv looks up environment variables: AGENTHOST_CACHE, and the secrets of
	// plugins. Default: os.Getenv.
	Getenv func(string) string
	// Log receives the lines that plugins log. Default: they are dropped.
	Log func(plugin.LogLine)
	// Compiler compiles modules outside of this process: see plugin.Options. Default:
	// modules are compiled in this process.
	Compiler func(context.Context, *plugin.CompileJob) error
	// Commands has the build commands of configurations run, as this process's user: a
	// configuration is then trusted as this program is. Without it only modules that are
	// there are read.
	Commands bool
	// Operations are host operations of the program's own, which plugins call by name.
	Operations []hostfunc.Operation
	// ProfileCalls makes runtimes whose calls can have profiles: see plugin.Options.
	ProfileCalls bool
}

// NewModules returns a module reader.
func NewModules(options *ModulesOptions) *Modules {
	m := &Modules{getenv: os.Getenv}
	if options == nil {
		return m
	}
	if options.Getenv != nil {
		m.getenv = options.Getenv
	}
	m.log, m.compile, m.commands, m.operations = options.Log, options.Compiler, options.Commands, options.Operations
	m.profiles = options.ProfileCalls
	return m
}

// RuntimeOptions returns the options of every runtime: it keeps compiled code in this
// user's cache and passes guests' log lines on.
func (m *Modules) RuntimeOptions(logger *slog.Logger) (*plugin.Options, error) {
	dir, err := m.CacheDir("wasm")
	if err != nil {
		return nil, err
	}
	return &plugin.Options{CacheDir: dir, Logger: logger, Log: m.log, Compiler: m.compile, Secrets: m.secrets(),
		Engines: map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(nil)}, Interpreters: js.Engines(),
		Operations: m.operations, ProfileCalls: m.profiles}, nil
}

// secrets returns the secrets that the host may send for plugins: the variables that
// [egress.EnvSecrets] names.
func (m *Modules) secrets() egress.Secrets {
	return egress.EnvSecrets{Lookup: func(name string) (string, bool) {
		v := m.getenv(name)
		return v, v != ""
	}}
}

// NewSandbox returns a runtime for one command, whose plugins keep their keys and
// jobs in memory. Call close when the command ends.
func (m *Modules) NewSandbox(ctx context.Context, logger *slog.Logger) (rt *plugin.Runtime, close func() error, err error) {
	opts, err := m.RuntimeOptions(logger)
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

// CacheDir returns a directory of this user for files that can be made again;
// AGENTHOST_CACHE moves it.
func (m *Modules) CacheDir(name string) (string, error) {
	if dir := m.getenv("AGENTHOST_CACHE"); dir != "" {
		return filepath.Join(dir, name), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", host.Errorf(host.FailedPrecondition, "find a cache directory: %w", err).WithHint("set AGENTHOST_CACHE")
	}
	return filepath.Join(dir, "agenthost", name), nil
}

// ReadModule returns the bytes of a plugin by the name that people use: builtin:NAME, a
// .wasm file, a script in JavaScript, an Extism manifest, or the directory of a source in Go,
// which is built if it has changed, or of one in JavaScript (plugin.js). A script that builds
// another source runs by [Modules.Build] alone; progress, unless nil, is called before a build.
func (m *Modules) ReadModule(ctx context.Context, rt *plugin.Runtime, where string, progress func(string)) ([]byte, error) {
	s, err := m.Read(ctx, rt, where, progress)
	if err != nil {
		return nil, err
	}
	return s.Wasm, nil
}

// moduleFile is ReadModule without manifests.
func (m *Modules) moduleFile(ctx context.Context, rt *plugin.Runtime, where string, progress func(string)) ([]byte, error) {
	if strings.HasPrefix(where, configfile.BuiltinPrefix) {
		return BuiltinModule(where)
	}
	if info, err := os.Stat(where); err == nil && info.IsDir() {
		if source := kitsource.Find(where); source != nil && source.Script == "" {
			return nil, host.Errorf(host.FailedPrecondition, "%s is a source that a script in it builds, which nothing runs unasked", where).
				WithHint("build it, and name the module: agenthost plugin build %s", termtext.ShellWord(where))
		}
		return m.Build(ctx, rt, where, progress)
	}
	file, err := plugin.ReadModule(where, plugin.DefaultModuleBytes)
	if err != nil || !IsScript(where) {
		return file, err
	}
	return PackScript(where, file, js.Pack)
}

// scriptSuffixes end the names of files that are scripts.
var scriptSuffixes = []string{".js", ".mjs"}

// IsScript reports whether a plugin's file is a script, by its name.
func IsScript(name string) bool { return slices.Contains(scriptSuffixes, filepath.Ext(name)) }

// PackScript returns the plugin that a script makes by pack, which is of pdk/js. Code
// invalid_argument for text that is no script.
func PackScript(name string, text []byte, pack func([]byte) ([]byte, error)) ([]byte, error) {
	wasm, err := pack(text)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "pack %s: %w", name, err)
	}
	return wasm, nil
}

// Build makes the module of a plugin's source in a directory, with its manifest in it: of Go,
// which is compiled if it has changed, and of the languages of agenthost plugin new, by the
// build script of the kit that is beside the source. progress, unless nil, is called before
// each slow step. Codes are those of [plugin.Runtime.Build]; failed_precondition where a
// compiler is missing, and for a build script without ModulesOptions.Commands;
// invalid_argument with the compiler's output for a source that it refuses.
func (m *Modules) Build(ctx context.Context, rt *plugin.Runtime, dir string, progress func(string)) ([]byte, error) {
	if source := kitsource.Find(dir); source != nil {
		wasm, err := m.buildKit(ctx, source, dir, progress)
		if err != nil {
			return nil, err
		}
		return rt.AddManifest(ctx, wasm)
	}
	cache, err := m.CacheDir("build")
	if err != nil {
		return nil, err
	}
	return rt.Build(ctx, dir, &plugin.BuildOptions{CacheDir: cache, Progress: progress})
}

// buildKit makes the module of a source that is not of Go.
func (m *Modules) buildKit(ctx context.Context, source *kitsource.Source, dir string, progress func(string)) ([]byte, error) {
	if source.Script != "" {
		text, err := plugin.ReadModule(source.Script, plugin.DefaultModuleBytes)
		if err != nil {
			return nil, err
		}
		return PackScript(source.Script, text, js.Pack)
	}
	module := filepath.Base(ModulePath(dir))
	if !m.commands {
		return nil, host.Errorf(host.FailedPrecondition, "build plugin %s: a script builds it, and this program runs none", dir).
			WithHint("build it, and name the module: (cd %s && %s)", termtext.ShellWord(dir), buildcmd.Line(source.Command(module)))
	}
	if progress != nil {
		progress("building " + dir)
	}
	tmp, err := os.MkdirTemp("", "agenthost-build-")
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "build plugin %s: %w", dir, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	module = filepath.Join(tmp, module)
	if err := source.Build(ctx, module); err != nil {
		return nil, err
	}
	return plugin.ReadModule(module, plugin.DefaultModuleBytes)
}

// ManifestSuffix ends the name of an Extism manifest, wherever a plugin's file can
// be named.
const ManifestSuffix = ".json"

// maxManifestFile bounds such a file, with the module that it may hold.
const maxManifestFile = 2 * plugin.DefaultModuleBytes

// Module is a module, with the Extism manifest that names it, if any.
type Module struct {
	Wasm     []byte
	Manifest *plugin.ExtismManifest // nil: the file is a module
}

// Read reads a plugin like ReadModule, and keeps its Extism manifest.
func (m *Modules) Read(ctx context.Context, rt *plugin.Runtime, where string, progress func(string)) (*Module, error) {
	if !strings.HasSuffix(strings.ToLower(where), ManifestSuffix) {
		wasm, err := m.moduleFile(ctx, rt, where, progress)
		return &Module{Wasm: wasm}, err
	}
	raw, err := datadir.ReadFile(where, maxManifestFile)
	if err != nil {
		return nil, err
	}
	manifest, err := plugin.ReadExtismManifest(raw, filepath.Dir(where), 0)
	if err != nil {
		e := *fault.AsError(err)
		e.Message, e.Err = where+": "+e.Message, err
		return nil, &e
	}
	return &Module{Wasm: manifest.Wasm, Manifest: manifest}, nil
}

// AddTo adds a manifest to options: its limits and configuration where the options have
// none, and its allowed_hosts as the plugin's request. It grants nothing: only the
// operator grants.
func (s *Module) AddTo(o *plugin.LoadOptions) {
	if s.Manifest == nil {
		return
	}
	m := s.Manifest.Options
	l := &o.Limits
	l.Timeout = cmp.Or(l.Timeout, m.Limits.Timeout)
	l.MemoryBytes, l.BlockBytes = cmp.Or(l.MemoryBytes, m.Limits.MemoryBytes), cmp.Or(l.BlockBytes, m.Limits.BlockBytes)
	l.VarBytes = cmp.Or(l.VarBytes, m.Limits.VarBytes)
	e := &o.Extism
	e.HTTPBytes = cmp.Or(e.HTTPBytes, m.Extism.HTTPBytes)
	if e.Asks = m.Granted.HTTP; e.Asks == nil {
		e.Asks = []plugin.HTTPAccess{} // the plugin asks for nothing, not for all that is granted
	}
	config := map[string]string{}
	for name, value := range m.Extism.Config {
		config[name] = value
	}
	for name, value := range e.Config {
		config[name] = value
	}
	e.Config = config
}
