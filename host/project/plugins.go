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

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/builtin"
	"github.com/agenthost/agenthost/host/plugin"
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

func BuiltinModule(name string) ([]byte, error) {
	if wasm := builtinModules()[strings.TrimPrefix(name, configfile.BuiltinPrefix)]; wasm != nil {
		return wasm, nil
	}
	e := host.Errorf(host.NotFound, "there is no plugin %s", name)
	if near := termtext.Nearest(name, configfile.BuiltinNames()); near != "" {
		return nil, e.WithHint("did you mean %s?", near)
	}
	return nil, e.WithHint("there are: %s", strings.Join(configfile.BuiltinNames(), ", "))
}

// loadPlugins loads all plugins at the same time: compiling is most of the work
// when the cache is cold.
func (a *Project) loadPlugins(ctx context.Context) error {
	names := append(slices.Sorted(maps.Keys(a.config.Plugins)), a.config.BuiltinsUsed()...)
	if a.only != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !a.only[name] })
	}
	loaded := make([]parts, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { loaded[i], errs[i] = a.loadPlugin(ctx, name) })
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] != nil {
			return errs[i]
		}
		a.plugins[name] = loaded[i]
	}
	return nil
}

func (a *Project) loadPlugin(ctx context.Context, name string) (parts, error) {
	grants, err := a.config.Granted(name)
	if err != nil {
		return nil, err
	}
	opts := plugin.LoadOptions{Engine: a.config.Plugins[name].Engine, Limits: a.config.Plugins[name].Limits.Limits(), Granted: grants, Tenants: a.config.Plugins[name].Tenants}
	if opts.Extism, err = a.extismOptions(name); err != nil {
		return nil, err
	}
	from, err := a.pluginSource(ctx, name, a.progress)
	if err != nil {
		return nil, a.config.Wrap(ofPlugin(name, err), configfile.Keys("plugins", name, "path"))
	}
	from.AddTo(&opts)
	var p parts
	if a.live {
		p, err = a.runtime.NewSlot(ctx, name, from.Wasm, &plugin.SlotOptions{LoadOptions: opts, Check: a.checkParts(name)})
	} else {
		p, err = a.runtime.Load(ctx, name, from.Wasm, &opts)
	}
	if err != nil {
		return nil, a.config.Wrap(err, configfile.Keys("plugins", name, "path"))
	}
	return p, nil
}

// ofPlugin adds the plugin's name to an error about its source, unless the error names
// it.
func ofPlugin(name string, err error) error {
	e := *host.AsError(err)
	if strings.Contains(e.Message, strconv.Quote(name)) {
		return err
	}
	e.Message, e.Err = fmt.Sprintf("plugin %q: %s", name, e.Message), err
	return &e
}

// PluginModule returns the module of a plugin of the configuration.
func (a *Project) PluginModule(ctx context.Context, name string) ([]byte, error) {
	s, err := a.pluginSource(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return s.Wasm, nil
}

// pluginSource returns the module of a plugin with its Extism manifest, if any.
func (a *Project) pluginSource(ctx context.Context, name string, progress func(string)) (*Module, error) {
	where := a.config.Plugins[name].Path
	if strings.HasPrefix(name, configfile.BuiltinPrefix) {
		where = name
	}
	switch {
	case where == "":
		return nil, a.config.ErrorAt(configfile.Keys("plugins", name), "plugin %q has no path", name).
			WithHint("name a .wasm file, the directory of a Go source, or one of: %s", strings.Join(configfile.BuiltinNames(), ", "))
	case a.config.Fsys != nil && !strings.HasPrefix(where, configfile.BuiltinPrefix):
		wasm, err := embedded(a.config.Fsys, a.config.FilePath(where))
		return &Module{Wasm: wasm}, err
	case !strings.HasPrefix(where, configfile.BuiltinPrefix):
		where = a.config.FilePath(where)
	}
	return a.modules.Read(ctx, a.runtime, where, progress)
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

// whereIs returns the file or directory of a configured plugin's source, or
// builtin:NAME.
func (a *Project) whereIs(id string) string {
	path := a.config.Plugins[id].Path
	if path == "" || strings.HasPrefix(path, configfile.BuiltinPrefix) {
		return cmp.Or(path, id)
	}
	return a.config.FilePath(path)
}
