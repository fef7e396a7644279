package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/builtin"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/summarizer"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// builtinPrefix begins the name of a plugin that every binary has, wherever a
// file can be named.
const builtinPrefix = "builtin:"

func builtins() map[string][]byte {
	return map[string][]byte{
		"toolcallfilter": toolcallfilter.Wasm,
		"tokenlimiter":   tokenlimiter.Wasm,
		"summarizer":     summarizer.Wasm,
	}
}

// checkBuiltin holds the configuration of a built-in plugin's processor to what
// the plugin itself would say of it, before anything runs.
func checkBuiltin(id string, config json.RawMessage, counter host.TokenCounter) error {
	name, ok := strings.CutPrefix(id, builtinPrefix)
	if !ok || builtins()[name] == nil {
		return nil
	}
	return builtin.Check(name, config, counter)
}

// builtinNames are the built-in plugins as they are named.
func builtinNames() []string {
	names := sortedKeys(builtins())
	for i := range names {
		names[i] = builtinPrefix + names[i]
	}
	return names
}

func builtinModule(name string) ([]byte, error) {
	if wasm := builtins()[strings.TrimPrefix(name, builtinPrefix)]; wasm != nil {
		return wasm, nil
	}
	e := host.Errorf(host.NotFound, "there is no plugin %s", name)
	if near := nearest(name, builtinNames()); near != "" {
		return nil, e.WithHint("did you mean %s?", near)
	}
	return nil, e.WithHint("there are: %s", strings.Join(builtinNames(), ", "))
}

// module returns the bytes of a plugin by how people name it: builtin:NAME, a
// .wasm file, an Extism manifest, or the directory of a Go source, which is built
// if it has changed; progress, if any, is told that.
func (env *environment) module(ctx context.Context, rt *plugin.Runtime, where string, progress func(string)) ([]byte, error) {
	s, err := env.source(ctx, rt, where, progress)
	if err != nil {
		return nil, err
	}
	return s.wasm, nil
}

// moduleFile is module without manifests.
func (env *environment) moduleFile(ctx context.Context, rt *plugin.Runtime, where string, progress func(string)) ([]byte, error) {
	if strings.HasPrefix(where, builtinPrefix) {
		return builtinModule(where)
	}
	if info, err := os.Stat(where); err == nil && info.IsDir() {
		return env.build(ctx, rt, where, progress)
	}
	return plugin.ReadModule(where, plugin.DefaultModuleBytes)
}

func (env *environment) build(ctx context.Context, rt *plugin.Runtime, dir string, progress func(string)) ([]byte, error) {
	cache, err := env.cacheDir("build")
	if err != nil {
		return nil, err
	}
	return rt.Build(ctx, dir, &plugin.BuildOptions{CacheDir: cache, Progress: progress})
}

// progress tells on stderr what takes time.
func (env *environment) progress(what string) { fmt.Fprintf(env.stderr, "%s ...\n", what) }

// loadPlugins loads all plugins at the same time: compiling is most of the work
// when the cache is cold.
func (a *app) loadPlugins(ctx context.Context, quiet bool) error {
	names := append(sortedKeys(a.config.Plugins), a.config.builtinsUsed()...)
	if a.only != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !a.only[name] })
	}
	loaded := make([]parts, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { loaded[i], errs[i] = a.loadPlugin(ctx, name, quiet) })
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

func (a *app) loadPlugin(ctx context.Context, name string, quiet bool) (parts, error) {
	grants, err := a.config.grants(name)
	if err != nil {
		return nil, err
	}
	opts := plugin.LoadOptions{Engine: a.config.Plugins[name].Engine, Limits: a.config.Plugins[name].Limits.limits(), Granted: grants, Tenants: a.config.Plugins[name].Tenants}
	if opts.Extism, err = a.extismOptions(name); err != nil {
		return nil, err
	}
	from, err := a.pluginSource(ctx, name, quiet)
	if err != nil {
		return nil, a.config.wrap(ofPlugin(name, err), keys("plugins", name, "path"))
	}
	from.addTo(&opts)
	var p parts
	if a.live {
		p, err = a.runtime.NewSlot(ctx, name, from.wasm, &plugin.SlotOptions{LoadOptions: opts, Check: a.checkParts(name)})
	} else {
		p, err = a.runtime.Load(ctx, name, from.wasm, &opts)
	}
	if err != nil {
		return nil, a.config.wrap(err, keys("plugins", name, "path"))
	}
	return p, nil
}

// ofPlugin names the plugin in an error about what it comes from, unless that does.
func ofPlugin(name string, err error) error {
	e := *host.AsError(err)
	if strings.Contains(e.Message, strconv.Quote(name)) {
		return err
	}
	e.Message, e.Err = fmt.Sprintf("plugin %q: %s", name, e.Message), err
	return &e
}

// pluginModule returns the module of a plugin of the configuration.
func (a *app) pluginModule(ctx context.Context, name string, quiet bool) ([]byte, error) {
	s, err := a.pluginSource(ctx, name, quiet)
	if err != nil {
		return nil, err
	}
	return s.wasm, nil
}

// pluginSource returns it with what its Extism manifest says.
func (a *app) pluginSource(ctx context.Context, name string, quiet bool) (*pluginSource, error) {
	where := a.config.Plugins[name].Path
	if strings.HasPrefix(name, builtinPrefix) {
		where = name
	}
	progress := a.env.progress
	if quiet {
		progress = nil
	}
	switch {
	case where == "":
		return nil, a.config.errorAt(keys("plugins", name), "plugin %q has no path", name).
			WithHint("name a .wasm file, the directory of a Go source, or one of: %s", strings.Join(builtinNames(), ", "))
	case a.config.fsys != nil && !strings.HasPrefix(where, builtinPrefix):
		wasm, err := embedded(a.config.fsys, a.config.path(where))
		return &pluginSource{wasm: wasm}, err
	case !strings.HasPrefix(where, builtinPrefix):
		where = a.config.path(where)
	}
	return a.env.source(ctx, a.runtime, where, progress)
}

// embedded reads a plugin that was built into the binary: the module beside the
// source, named like its directory.
func embedded(fsys fs.FS, where string) ([]byte, error) {
	if !strings.HasSuffix(where, ".wasm") {
		where = besideSource(where)
	}
	wasm, err := fs.ReadFile(fsys, where)
	if err != nil {
		return nil, host.Errorf(host.Internal, "read embedded plugin: %w", err)
	}
	return wasm, nil
}

// besideSource is where the module of a Go source is kept: in its directory,
// under that directory's name.
func besideSource(dir string) string {
	name := path.Base(filepath.ToSlash(dir))
	if abs, err := filepath.Abs(dir); err == nil && (name == "." || name == "..") {
		name = filepath.Base(abs)
	}
	return path.Join(filepath.ToSlash(dir), name+".wasm")
}

// path returns a path of the configuration, which is relative to its file.
func (c *config) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return path.Join(c.dir, p)
}

// builtinsUsed returns the built-in plugins that agents and networks use and that
// have no entry under plugins, where they can be given limits.
func (c *config) builtinsUsed() []string {
	have, used := builtinNames(), map[string]bool{}
	for _, u := range c.partsUsed() {
		id, _ := splitUse(u.use)
		if _, configured := c.Plugins[id]; !configured && slices.Contains(have, id) {
			used[id] = true
		}
	}
	return sortedKeys(used)
}

// splitUse takes PLUGIN/PART apart.
func splitUse(use string) (id, part string) {
	id, part, _ = strings.Cut(use, "/")
	return id, part
}
