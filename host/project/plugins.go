package project

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/builtin"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/internal/termtext"
	"github.com/agenthost/agenthost/plugins/summarizer"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

func builtinModules() map[string][]byte {
	return map[string][]byte{
		"toolcallfilter": toolcallfilter.Wasm,
		"tokenlimiter":   tokenlimiter.Wasm,
		"summarizer":     summarizer.Wasm,
	}
}

// CheckBuiltin checks the configuration of a built-in plugin's processor as the plugin
// itself would, before any run.
func CheckBuiltin(id string, config json.RawMessage, counter host.TokenCounter) error {
	name, ok := strings.CutPrefix(id, configfile.BuiltinPrefix)
	if !ok || builtinModules()[name] == nil {
		return nil
	}
	return builtin.Check(name, config, counter)
}

// BuiltinModule returns the module of a built-in plugin, with or without
// [BuiltinPrefix] before its name. Code not_found if there is none, with a suggestion.
func BuiltinModule(name string) ([]byte, error) {
	if wasm := builtinModules()[strings.TrimPrefix(name, configfile.BuiltinPrefix)]; wasm != nil {
		return wasm, nil
	}
	e := host.Errorf(host.NotFound, "there is no plugin %s", name)
	if name == configfile.CodeUse {
		return nil, e.WithHint("it is a tool of an agent: write tools: [%s], and its limits under code", name)
	}
	if near := termtext.Nearest(name, configfile.BuiltinNames()); near != "" {
		return nil, e.WithHint("did you mean %s?", near)
	}
	return nil, e.WithHint("there are: %s", strings.Join(configfile.BuiltinNames(), ", "))
}

// pluginSet is the plugins of a configuration, loaded.
type pluginSet struct {
	config   *configfile.Config
	modules  *Modules
	trusts   *trusts
	progress func(string) // called before each step that takes time; may be nil
	runtime  *plugin.Runtime
	live     bool            // plugins can be replaced while they serve
	only     map[string]bool // the plugins to load; nil is all of the configuration

	library lateLibrary
	parts   partsByID
	loaded  sync.Map    // of plugins that can be replaced, the modules by id, until takeLoaded
	serving atomic.Bool // the agents are made: a plugin's next version must have the parts they use
}

// partsByID are the parts of plugins by id. Clients of MCP are offered tools while plugins are
// loaded: it is safe for concurrent use.
type partsByID struct {
	mu   sync.RWMutex
	byID map[string]parts
}

// get returns the parts of a plugin; nil if there is no such plugin.
func (p *partsByID) get(id string) parts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.byID[id]
}

// all returns the parts of all plugins.
func (p *partsByID) all() map[string]parts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return maps.Clone(p.byID)
}

func (p *partsByID) set(id string, of parts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil {
		p.byID = map[string]parts{}
	}
	p.byID[id] = of
}

// load loads all plugins at the same time: compiling is most of the work
// when the cache is cold.
func (s *pluginSet) load(ctx context.Context) error {
	names := append(slices.Sorted(maps.Keys(s.config.Plugins)), s.config.BuiltinsUsed()...)
	if s.only != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !s.only[name] })
	}
	loaded := make([]parts, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { loaded[i], errs[i] = s.loadOne(ctx, name) })
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] != nil {
			return errs[i]
		}
		s.parts.set(name, loaded[i])
	}
	return nil
}

func (s *pluginSet) loadOne(ctx context.Context, name string) (parts, error) {
	grants, err := s.config.Granted(name)
	if err != nil {
		return nil, err
	}
	opts := plugin.LoadOptions{Engine: s.config.Plugins[name].Engine, Limits: s.config.Plugins[name].Limits.Limits(), Granted: grants, Tenants: s.config.Plugins[name].Tenants}
	if opts.Extism, err = s.extismOptions(name); err != nil {
		return nil, err
	}
	from, err := s.source(ctx, name, s.progress)
	if err != nil {
		return nil, s.config.Wrap(ofPlugin(name, err), configfile.Keys("plugins", name, "path"))
	}
	from.AddTo(&opts)
	var p parts
	if s.live {
		s.loaded.Store(name, from.Wasm)
		p, err = s.runtime.NewSlot(ctx, name, from.Wasm, &plugin.SlotOptions{LoadOptions: opts, Check: s.checkParts(name)})
	} else {
		p, err = s.runtime.Load(ctx, name, from.Wasm, &opts)
	}
	if err != nil {
		return nil, s.config.Wrap(err, configfile.Keys("plugins", name, "path"))
	}
	return p, nil
}

// takeLoaded returns the modules of the configuration's plugins by id, once.
func (s *pluginSet) takeLoaded() map[string][]byte {
	all := map[string][]byte{}
	s.loaded.Range(func(id, wasm any) bool { all[id.(string)] = wasm.([]byte); return true })
	s.loaded.Clear()
	return all
}

// ofPlugin adds the plugin's name to an error about its source, unless the error names
// it.
func ofPlugin(name string, err error) error {
	e := *fault.AsError(err)
	if strings.Contains(e.Message, strconv.Quote(name)) {
		return err
	}
	e.Message, e.Err = fmt.Sprintf("plugin %q: %s", name, e.Message), err
	return &e
}

// PluginModule returns the module of a plugin of the configuration.
func (p *Project) PluginModule(ctx context.Context, name string) ([]byte, error) {
	s, err := p.plugins.source(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return s.Wasm, nil
}

// source returns the module of a plugin with its Extism manifest, if any.
func (s *pluginSet) source(ctx context.Context, name string, progress func(string)) (*Module, error) {
	where := s.config.Plugins[name].Path
	if strings.HasPrefix(name, configfile.BuiltinPrefix) {
		where = name
	}
	switch {
	case where == "":
		return nil, s.config.ErrorAt(configfile.Keys("plugins", name), "plugin %q has no path", name).
			WithHint("name a .wasm file, the directory of a source in Go or JavaScript, or one of: %s", strings.Join(configfile.BuiltinNames(), ", "))
	case share.IsReference(where):
		return s.shared(ctx, name, where)
	case s.config.Fsys != nil && !strings.HasPrefix(where, configfile.BuiltinPrefix):
		wasm, err := embedded(s.config.Fsys, s.config.FilePath(where))
		return &Module{Wasm: wasm}, err
	case !strings.HasPrefix(where, configfile.BuiltinPrefix):
		where = s.config.FilePath(where)
		if _, err := s.buildSource(ctx, name, false, progress); err != nil {
			return nil, err
		}
		return s.readFile(ctx, name, where, progress)
	}
	return s.modules.Read(ctx, s.runtime, where, progress)
}

// readFile reads the module of a plugin from a file or a directory, if it is trusted.
func (s *pluginSet) readFile(ctx context.Context, id, where string, progress func(string)) (*Module, error) {
	from, err := s.modules.Read(ctx, s.runtime, where, progress)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(where, configfile.BuiltinPrefix) {
		return from, nil
	}
	return from, s.trusts.checkFile(ctx, s.config, id, where, from.Wasm)
}

// embedded reads a plugin that was built into the binary: the module beside the
// source, named like its directory.
func embedded(fsys fs.FS, where string) ([]byte, error) {
	if !strings.HasSuffix(where, ".wasm") {
		where = ModulePath(where)
	}
	wasm, err := fs.ReadFile(fsys, where)
	if err != nil {
		return nil, host.Errorf(host.Internal, "read embedded plugin: %w", err)
	}
	return wasm, nil
}

// ModulePath returns the file of a Go source's module: in its directory, under that
// directory's name.
func ModulePath(dir string) string {
	name := path.Base(filepath.ToSlash(dir))
	if abs, err := filepath.Abs(dir); err == nil && (name == "." || name == "..") {
		name = filepath.Base(abs)
	}
	return path.Join(filepath.ToSlash(dir), name+".wasm")
}

// path returns the file or directory of a configured plugin's source, builtin:NAME, or
// the reference of a shared one.
func (s *pluginSet) path(id string) string {
	path := s.config.Plugins[id].Path
	if path == "" || strings.HasPrefix(path, configfile.BuiltinPrefix) || share.IsReference(path) {
		return cmp.Or(path, id)
	}
	return s.config.FilePath(path)
}
