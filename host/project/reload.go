package project

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/internal/termtext"
	"github.com/agenthost/agenthost/internal/watch"
)

// Reloader replaces the plugins of a host while it serves: on request, or because a
// file was saved. It is safe for concurrent use.
type Reloader struct {
	project *Project
	say     func(format string, args ...any) // writes to the terminal

	changing sync.Mutex             // held while plugins change, until the old versions' calls have ended
	trees    map[string]*watch.Tree // nil entries are not watched
	config   *watch.Tree
	mcpLock  *watch.Tree    // the accepted definitions of MCP servers
	shared   *deployments   // nil without a database; set by Follow
	gone     map[string]int // consecutive polls that did not find a plugin's source, by id

	builds runningBuilds

	mu             sync.Mutex
	sources        map[string]string         // the files of plugins' modules, by id
	versionSources map[string]map[int]string // the files of their versions, by number
}

// NewReloader returns a reloader for a project that was opened with Replaceable. It
// reports the reloading of saved files with say, whose arguments include errors.
func NewReloader(p *Project, say func(format string, args ...any)) *Reloader {
	r := &Reloader{project: p, say: say, sources: map[string]string{}, versionSources: map[string]map[int]string{}, trees: map[string]*watch.Tree{}, gone: map[string]int{}}
	for _, s := range p.plugins.slots() {
		r.sources[s.ID()] = p.plugins.path(s.ID())
		r.recordSource(s.ID(), 1, r.sources[s.ID()])
	}
	return r
}

// PluginStatus is the state of a plugin and the path of its module.
type PluginStatus struct {
	plugin.SlotState
	Path string `json:"path"`
}

// Plugins returns the plugins by id. It does not wait for a change in progress.
func (r *Reloader) Plugins() []PluginStatus {
	where := r.sourcePaths()
	out := []PluginStatus{}
	for _, s := range r.project.plugins.slots() {
		out = append(out, PluginStatus{s.State(), where[s.ID()]})
	}
	return out
}

// sourcePaths returns the path of each plugin's module.
func (r *Reloader) sourcePaths() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sources)
}

func (r *Reloader) slot(id string) (*plugin.Slot, error) {
	if s := r.project.plugins.slot(id); s != nil {
		return s, nil
	}
	var have []string
	for _, s := range r.project.plugins.slots() {
		have = append(have, s.ID())
	}
	e := host.Errorf(host.NotFound, "the host has no plugin %q", id)
	if near := termtext.Nearest(id, have); near != "" {
		return nil, e.WithHint("did you mean %q?", near)
	}
	return nil, e.WithHint("there are: %s", strings.Join(have, ", "))
}

// Change is the result of a plugin's replacement.
type Change struct {
	ID     string               `json:"id"`
	Serves *plugin.VersionState `json:"serves,omitempty"`
	Same   bool                 `json:"same,omitempty"` // the same module serves already
}

// Load deploys a module from a path of the caller's choice. Of a plugin that the host
// has already, only the module is replaced: an Extism manifest's other settings apply to
// a new plugin alone.
func (r *Reloader) Load(ctx context.Context, id, path string, granted *plugin.Permissions) (*Change, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	if id == "" || path == "" {
		return nil, host.Errorf(host.InvalidArgument, "a load needs an id and a path")
	}
	from, err := r.project.plugins.readFile(ctx, id, path, nil)
	if err != nil {
		return nil, err
	}
	s := r.project.plugins.slot(id)
	if s == nil {
		opts := &plugin.SlotOptions{}
		if granted != nil {
			opts.Granted = *granted
		}
		from.AddTo(&opts.LoadOptions)
		if s, err = r.project.plugins.runtime.NewSlot(ctx, id, from.Wasm, opts); err != nil {
			return nil, err
		}
		r.project.plugins.parts.set(id, s)
		r.recordSource(id, 1, path)
	} else if err := r.put(ctx, s, from.Wasm, path, granted); err != nil {
		return nil, err
	}
	r.setSource(id, path)
	r.rebuildTargets()
	return r.served(s), r.share(ctx, s, from.Wasm, granted)
}

// put replaces a plugin's module. If the new module does not load, the old module keeps
// its old grants.
func (r *Reloader) put(ctx context.Context, s *plugin.Slot, wasm []byte, path string, granted *plugin.Permissions) error {
	before := s.Granted()
	if granted != nil {
		if err := s.Grant(ctx, *granted); err != nil && host.CodeOf(err) != host.PermissionDenied {
			return err
		}
	}
	v, err := s.Replace(ctx, wasm)
	r.recordSource(s.ID(), v.Number, path)
	if err != nil && granted != nil && v.Phase != plugin.Held {
		if err := s.Grant(context.WithoutCancel(ctx), before); err != nil && host.CodeOf(err) != host.PermissionDenied {
			return err
		}
	}
	return err
}

// recordSource records the path of a version's module, for a later rollback.
func (r *Reloader) recordSource(id string, version int, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versionSources[id] == nil {
		r.versionSources[id] = map[int]string{}
	}
	r.versionSources[id][version] = path
	slot := r.project.plugins.slot(id)
	if slot == nil {
		return
	}
	known := slot.State().Versions
	maps.DeleteFunc(r.versionSources[id], func(n int, _ string) bool {
		return n != version && !slices.ContainsFunc(known, func(v plugin.VersionState) bool { return v.Number == n })
	})
}

// setSource sets the path that a plugin is read from. r.changing is held.
func (r *Reloader) setSource(id, path string) {
	r.mu.Lock()
	r.sources[id] = path
	r.mu.Unlock()
	if r.trees[id] != nil {
		r.trees[id] = watch.NewTree(r.project.plugins.watched(id, path))
	}
}

// Reload reads a plugin's module again, or that of every plugin.
func (r *Reloader) Reload(ctx context.Context, id string) ([]*Change, error) {
	slots := r.project.plugins.slots()
	if id != "" {
		s, err := r.slot(id)
		if err != nil {
			return nil, err
		}
		slots = []*plugin.Slot{s}
	}
	out := []*Change{}
	for _, s := range slots {
		c, err := r.reload(ctx, s)
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// read reads the module at a plugin's path.
func (r *Reloader) read(ctx context.Context, id, path string) ([]byte, error) {
	if !share.IsReference(path) {
		from, err := r.project.plugins.readFile(ctx, id, path, r.sayStep)
		if err != nil {
			return nil, err
		}
		return from.Wasm, nil
	}
	m, err := r.project.plugins.shared(ctx, id, path)
	if err != nil {
		return nil, err
	}
	return m.Wasm, nil
}

// reload builds a plugin's module, if it has a command, reads it again, and replaces the
// plugin if the module differs. Other changes wait for the reading only. Code conflict if
// the plugin has changed meanwhile.
func (r *Reloader) reload(ctx context.Context, s *plugin.Slot) (*Change, error) {
	id, path := s.ID(), r.sourcePaths()[s.ID()]
	if r.project.plugins.buildDir(id, path) == "" {
		r.changing.Lock()
		defer r.changing.Unlock()
		return r.replace(ctx, s)
	}
	end, err := r.builds.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.build(ctx, s, path)
}

// build is reload of a plugin that has a command, by the caller whose build of it runs.
func (r *Reloader) build(ctx context.Context, s *plugin.Slot, path string) (*Change, error) {
	id, before := s.ID(), servingDigest(s)
	built, err := r.project.plugins.buildSource(ctx, id, true, r.sayStep)
	r.changing.Lock()
	defer r.changing.Unlock()
	if tree := r.trees[id]; tree != nil && built != nil {
		tree.Saw(built)
	}
	switch {
	case err != nil:
		return nil, err
	case servingDigest(s) != before || r.sourcePaths()[id] != path:
		return nil, host.Errorf(host.Conflict, "plugin %q was loaded, rolled back or unloaded while it was built", id).
			WithHint("reload it to use what was built: agenthost plugin reload %s", termtext.ShellWord(id))
	}
	return r.replace(ctx, s)
}

// servingDigest returns the digest of a plugin's module that serves, "" if none does.
func servingDigest(s *plugin.Slot) string {
	if p := s.Current(); p != nil {
		return p.Digest()
	}
	return ""
}

// replace reads a plugin's module and replaces the plugin if the module differs. r.changing is
// held.
func (r *Reloader) replace(ctx context.Context, s *plugin.Slot) (*Change, error) {
	path := r.sourcePaths()[s.ID()]
	wasm, err := r.read(ctx, s.ID(), path)
	if err != nil {
		return nil, ofPlugin(s.ID(), err)
	}
	if in, err := plugin.Inspect(wasm); err == nil && servingDigest(s) == in.Digest {
		c := r.served(s)
		c.Same = true
		return c, nil
	}
	v, err := s.Replace(ctx, wasm)
	r.recordSource(s.ID(), v.Number, path)
	if err != nil {
		return nil, err
	}
	r.rebuildTargets()
	return r.served(s), r.share(ctx, s, wasm, nil)
}

func (r *Reloader) served(s *plugin.Slot) *Change {
	state := s.State()
	return &Change{ID: s.ID(), Serves: state.Serving()}
}

// rebuildTargets makes the agents again, since a version may offer more tools than the
// one before it. If that fails, the old agents stay: a call of a removed tool then fails.
func (r *Reloader) rebuildTargets() {
	if err := r.project.makeTargets(); err != nil {
		r.say("the agents stay as they were: %s", err)
	}
}

// Rollback makes the version of a plugin serve that served before. Code not_found if the
// host has no such plugin, failed_precondition if there is no version to return to.
func (r *Reloader) Rollback(ctx context.Context, id string) (*Change, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	s, err := r.slot(id)
	if err != nil {
		return nil, err
	}
	v, err := s.Rollback(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	path := r.versionSources[id][v.Number]
	r.mu.Unlock()
	r.setSource(id, cmp.Or(path, r.sourcePaths()[id]))
	r.rebuildTargets()
	return r.served(s), r.share(ctx, s, nil, nil)
}

// Unload ends a plugin: its calls are refused, and Unload waits for those in progress.
// Code not_found if the host has no such plugin.
func (r *Reloader) Unload(ctx context.Context, id string) (*Change, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	s, err := r.slot(id)
	if err != nil {
		return nil, err
	}
	err = s.Unload(ctx)
	return &Change{ID: id}, errors.Join(err, r.share(ctx, s, nil, nil))
}

// Usage returns a plugin's requested permissions, grants and usage for a tenant.
func (r *Reloader) Usage(id, tenant string) (*plugin.Usage, error) {
	s, err := r.slot(id)
	if err != nil {
		return nil, err
	}
	p := s.Current()
	if p == nil {
		return nil, host.Errorf(host.FailedPrecondition, "plugin %q is unloaded", id).WithHint("load it: agenthost plugin load %s FILE", id)
	}
	u := p.Usage(r.project.Tenant(tenant))
	return &u, nil
}

// Watch starts watching the files of plugins and the configuration.
func (r *Reloader) Watch() {
	r.changing.Lock()
	defer r.changing.Unlock()
	for id, path := range r.sourcePaths() {
		if !strings.HasPrefix(path, configfile.BuiltinPrefix) && !share.IsReference(path) {
			r.trees[id] = watch.NewTree(r.project.plugins.watched(id, path))
		}
	}
	r.config = watch.NewTree(r.project.config.Name)
	r.mcpLock = watch.NewTree(filepath.FromSlash(r.project.config.FilePath(mcpclient.LockName)))
}

// Refresh deploys the plugins and the configuration saved since the last call. Faults
// are reported with say, and the version before stays.
func (r *Reloader) Refresh(ctx context.Context) {
	for _, id := range r.look(ctx) {
		r.reloadSaved(ctx, id, r.reload)
	}
}

// look takes a saved configuration and saved definitions of MCP servers, and returns the
// plugins whose sources were saved, sorted.
func (r *Reloader) look(ctx context.Context) (saved []string) {
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.config != nil && r.config.Changed() {
		r.reconfigure(ctx)
	}
	if r.mcpLock != nil && r.mcpLock.Changed() {
		if err := r.project.builder.mcp.takeLock(); err != nil {
			r.say("%s", err)
		} else {
			r.say("%s: the accepted tools are taken", mcpclient.LockName)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.trees)) {
		switch {
		case r.builds.runs(id): // it looks at the source itself
		case r.trees[id].Changed():
			saved = append(saved, id)
		default:
			r.lookForSource(id)
		}
	}
	return saved
}

// reloadSaved reloads a plugin whose source was saved, with reload.
func (r *Reloader) reloadSaved(ctx context.Context, id string, reload func(context.Context, *plugin.Slot) (*Change, error)) {
	s, err := r.slot(id)
	var c *Change
	if err == nil {
		c, err = reload(ctx, s)
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		r.sayFailed(id, err)
	case !c.Same && c.Serves != nil:
		r.say("%s: version %d serves", id, c.Serves.Number)
	}
}

// goneAfter is how many polls in a row must miss a plugin's source before its loss is
// reported: editors and tools remove a file for a moment when they write it.
const goneAfter = 4

// lookForSource reports once that a plugin's source was deleted. r.changing is held.
func (r *Reloader) lookForSource(id string) {
	path := r.sourcePaths()[id]
	if path != "" {
		path = r.project.plugins.watched(id, path)
	}
	if _, err := os.Stat(path); path == "" || !errors.Is(err, fs.ErrNotExist) {
		delete(r.gone, id)
		return
	}
	if r.gone[id]++; r.gone[id] == goneAfter {
		r.sayFailed(id, host.Errorf(host.NotFound, "plugin %q: %s is gone", id, path))
	}
}

func (r *Reloader) sayStep(what string) { r.say("%s ...", what) }

func (r *Reloader) sayFailed(id string, err error) {
	r.say("%s", err)
	s := r.project.plugins.slot(id)
	if s == nil {
		return
	}
	state := s.State()
	if v := state.Serving(); v != nil {
		r.say("%s: version %d stays", id, v.Number)
	}
	if state.Held {
		r.say("grant what it asks for: agenthost plugin grant %s %s GRANT..., and it serves", termtext.ShellWord(r.project.config.Name), termtext.ShellWord(id))
	}
}

// reconfigure applies the grants, tenants, prices and MCP servers of a saved configuration. Its other
// changes need a restart.
func (r *Reloader) reconfigure(ctx context.Context) {
	next, err := configfile.Read(nil, r.project.config.Name)
	if err == nil {
		err = r.regrant(ctx, next)
	}
	if err == nil {
		if err := r.shareConfiguration(ctx, next); err != nil {
			r.say("%s", err)
		}
	}
	if err != nil {
		r.say("%s", err)
		r.say("the configuration stays as it was")
		return
	}
	for _, id := range removedPlugins(r.project.config, next) {
		if s := r.project.plugins.slot(id); s != nil && s.Current() != nil {
			r.say("%s: the configuration does not have it, and it serves with its grants until the restart; to end it now: agenthost plugin unload %s", id, termtext.ShellWord(id))
		}
	}
	if !reflect.DeepEqual(withoutGrants(r.project.config), withoutGrants(next)) {
		r.say("%s: grants, tenants, prices and MCP servers are taken; start again for the rest", next.Name)
		return
	}
	r.say("%s: grants, tenants, prices and MCP servers are taken", next.Name)
}

// removedPlugins returns the plugins of a configuration that the next one does not have, sorted.
// They keep their grants: agents name them until the restart, on this host and on the others of its
// database, which are restarted one after the other.
func removedPlugins(c, next *configfile.Config) []string {
	ids := slices.Sorted(maps.Keys(c.Plugins))
	return slices.DeleteFunc(ids, func(id string) bool {
		_, stays := next.Plugins[id]
		return stays
	})
}

// regrant has the changes of a configuration count that need no restart.
func (r *Reloader) regrant(ctx context.Context, next *configfile.Config) error {
	change, err := r.readReconfiguration(next)
	if err != nil {
		return err
	}
	return change.take(ctx, r.say)
}

// withoutGrants returns a configuration without the parts that can change while it is
// in use.
func withoutGrants(c *configfile.Config) configfile.Config {
	out := *c
	out.Text, out.Tenants, out.Prices, out.MCP = nil, nil, configfile.Prices{}, nil
	out.Plugins = map[string]configfile.Plugin{}
	for id, p := range c.Plugins {
		p.Grant = configfile.Grants{}
		out.Plugins[id] = p
	}
	return out
}

// The time between two polls of a project's files. Polls take at most a part in pollShare of
// the time, so that a tree of many files is polled less often. A poll that has waited, for the
// last calls of an old version or for an MCP server, delays the next one by maxPollInterval.
const (
	pollInterval    = 100 * time.Millisecond
	pollShare       = 20
	maxPollInterval = 2 * time.Second
)

// Poll looks for saved files in the background until stop is called, as Refresh does. A
// build delays the changes of its plugin only.
func (r *Reloader) Poll(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		watch.Poll(ctx, pollInterval, func() time.Duration {
			began := time.Now()
			saved := r.look(ctx)
			took := time.Since(began)
			for _, id := range saved {
				path := r.sourcePaths()[id]
				if r.project.plugins.buildDir(id, path) == "" {
					r.reloadSaved(ctx, id, r.reload)
					continue
				}
				end, free := r.builds.tryBegin(id)
				if !free { // another build has begun since, which reads the saved files
					continue
				}
				wg.Go(func() {
					defer end()
					r.reloadSaved(ctx, id, func(ctx context.Context, s *plugin.Slot) (*Change, error) {
						return r.build(ctx, s, path)
					})
				})
			}
			return min(max(pollInterval, pollShare*took), maxPollInterval)
		})
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
