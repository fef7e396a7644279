package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/cmd/agenthost/control"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/watch"
)

// socketName is the control socket in a data directory.
const socketName = "control.sock"

// live is a host whose plugins can be replaced while it serves: by a command
// over its control socket, or because a file was saved. It is safe for
// concurrent use.
type live struct {
	app *app
	say func(format string, args ...any) // to who sits at the terminal

	turn   sync.Mutex             // held by whoever changes plugins, which can take as long as their calls do
	trees  map[string]*watch.Tree // nil entries are not watched
	config *watch.Tree
	gone   map[string]int // looks in a row that did not find a plugin's source, by id

	mu    sync.Mutex
	where map[string]string         // what plugins come from, by id
	from  map[string]map[int]string // what their versions came from, by number
}

// newLive makes an app steerable.
func newLive(a *app, say func(string, ...any)) *live {
	l := &live{app: a, say: say, where: map[string]string{}, from: map[string]map[int]string{}, trees: map[string]*watch.Tree{}, gone: map[string]int{}}
	for _, s := range a.runtime.Slots() {
		l.where[s.ID()] = a.whereIs(s.ID())
		l.came(s.ID(), 1, l.where[s.ID()])
	}
	return l
}

// whereIs returns the file or directory that a configured plugin comes from, or
// builtin:NAME.
func (a *app) whereIs(id string) string {
	path := a.config.Plugins[id].Path
	if path == "" || strings.HasPrefix(path, builtinPrefix) {
		return cmp.Or(path, id)
	}
	return a.config.path(path)
}

// serve opens the control socket.
func (l *live) serve(path string, clients *served) (*control.Server, error) {
	return control.Listen(path, map[string]control.Handler{
		"session.turn":     handler(clients.turn),
		"session.snapshot": handler(clients.snapshot),
		"session.last":     handler(clients.last),
		"session.list":     handler(clients.list),
		"session.status":   handler(clients.status),
		"session.wait":     handler(clients.wait),
		"session.abort":    handler(clients.abort),
		"plugin.list":      handler(l.list),
		"plugin.load":      handler(l.load),
		"plugin.reload":    handler(l.reloadAsked),
		"plugin.rollback":  handler(l.rollback),
		"plugin.unload":    handler(l.unload),
		"plugin.usage":     handler(l.usage),
		"plugin.bill":      handler(l.bill),
		backupOp:           handler(l.backup),
		verifyOp:           handler(l.verify),
		"data.erase":       handler(l.erase),
		"data.prove":       handler(l.prove),
		"data.purge":       handler(l.purge),
	})
}

// handler decodes what a request names.
func handler[A, R any](fn func(context.Context, A) (R, error)) control.Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, host.Errorf(host.InvalidArgument, "read the request: %w", err)
			}
		}
		return fn(ctx, args)
	}
}

// pluginStatus is what list tells of a plugin.
type pluginStatus struct {
	plugin.SlotState
	Path string `json:"path"`
}

// pluginArgs name a plugin, and for a load, where it comes from.
type pluginArgs struct {
	ID     string   `json:"id,omitempty"`
	Path   string   `json:"path,omitempty"`
	Grants []string `json:"grants,omitempty"`
	Tenant string   `json:"tenant,omitempty"`
}

func (l *live) list(context.Context, pluginArgs) ([]pluginStatus, error) {
	where := l.places()
	out := []pluginStatus{}
	for _, s := range l.app.runtime.Slots() {
		out = append(out, pluginStatus{s.State(), where[s.ID()]})
	}
	return out, nil
}

// places returns what each plugin comes from.
func (l *live) places() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.where)
}

func (l *live) slot(id string) (*plugin.Slot, error) {
	if s := l.app.runtime.Slot(id); s != nil {
		return s, nil
	}
	var have []string
	for _, s := range l.app.runtime.Slots() {
		have = append(have, s.ID())
	}
	e := host.Errorf(host.NotFound, "the host has no plugin %q", id)
	if near := nearest(id, have); near != "" {
		return nil, e.WithHint("did you mean %q?", near)
	}
	return nil, e.WithHint("there are: %s", strings.Join(have, ", "))
}

// change is what became of a plugin.
type change struct {
	ID     string               `json:"id"`
	Serves *plugin.VersionState `json:"serves,omitempty"`
	Same   bool                 `json:"same,omitempty"` // the module is the one that serves already
}

// load puts a module from a path of the caller's choice into service. Of a plugin that
// the host has already only the module is replaced: what an Extism manifest says
// beside it holds for a new one.
func (l *live) load(ctx context.Context, args pluginArgs) (*change, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	if args.ID == "" || args.Path == "" {
		return nil, host.Errorf(host.InvalidArgument, "a load needs an id and a path")
	}
	granted, err := parseGrants(args.Grants)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%w", err)
	}
	from, err := l.app.env.source(ctx, l.app.runtime, args.Path, nil)
	if err != nil {
		return nil, err
	}
	s := l.app.runtime.Slot(args.ID)
	if s == nil {
		opts := &plugin.SlotOptions{LoadOptions: plugin.LoadOptions{Granted: granted}}
		from.addTo(&opts.LoadOptions)
		if s, err = l.app.runtime.NewSlot(ctx, args.ID, from.wasm, opts); err != nil {
			return nil, err
		}
		l.app.plugins[args.ID] = s
		l.came(args.ID, 1, args.Path)
	} else if err := l.put(ctx, s, from.wasm, args.Path, granted, len(args.Grants) > 0); err != nil {
		return nil, err
	}
	l.isAt(args.ID, args.Path)
	l.remake()
	return l.served(s), nil
}

// put replaces a plugin's module. What is granted with one that does not load is
// not granted to the one that stays.
func (l *live) put(ctx context.Context, s *plugin.Slot, wasm []byte, path string, granted plugin.Permissions, grants bool) error {
	before := s.Granted()
	if grants {
		if err := s.Grant(ctx, granted); err != nil && host.CodeOf(err) != host.PermissionDenied {
			return err
		}
	}
	v, err := s.Replace(ctx, wasm)
	l.came(s.ID(), v.Number, path)
	if err != nil && grants && v.Phase != plugin.Held {
		if err := s.Grant(context.WithoutCancel(ctx), before); err != nil && host.CodeOf(err) != host.PermissionDenied {
			return err
		}
	}
	return err
}

// came remembers what a version came from, in case that it is rolled back to.
func (l *live) came(id string, version int, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[id] == nil {
		l.from[id] = map[int]string{}
	}
	l.from[id][version] = path
	slot := l.app.runtime.Slot(id)
	if slot == nil {
		return
	}
	known := slot.State().Versions
	maps.DeleteFunc(l.from[id], func(n int, _ string) bool {
		return n != version && !slices.ContainsFunc(known, func(v plugin.VersionState) bool { return v.Number == n })
	})
}

// isAt has a plugin read from a path from now on. live.turn is held.
func (l *live) isAt(id, path string) {
	l.mu.Lock()
	l.where[id] = path
	l.mu.Unlock()
	if l.trees[id] != nil {
		l.trees[id] = watch.NewTree(path)
	}
}

// reloadAsked reads a plugin's module again, or that of every plugin.
func (l *live) reloadAsked(ctx context.Context, args pluginArgs) ([]*change, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	slots := l.app.runtime.Slots()
	if args.ID != "" {
		s, err := l.slot(args.ID)
		if err != nil {
			return nil, err
		}
		slots = []*plugin.Slot{s}
	}
	out := []*change{}
	for _, s := range slots {
		c, err := l.reload(ctx, s)
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// reload reads a plugin's module again and replaces it if it is another.
func (l *live) reload(ctx context.Context, s *plugin.Slot) (*change, error) {
	wasm, err := l.app.env.module(ctx, l.app.runtime, l.places()[s.ID()], func(what string) { l.say("%s ...", what) })
	if err != nil {
		return nil, ofPlugin(s.ID(), err)
	}
	if in, err := plugin.Inspect(wasm); err == nil && s.Current() != nil && s.Current().Digest() == in.Digest {
		c := l.served(s)
		c.Same = true
		return c, nil
	}
	v, err := s.Replace(ctx, wasm)
	l.came(s.ID(), v.Number, l.places()[s.ID()])
	if err != nil {
		return nil, err
	}
	l.remake()
	return l.served(s), nil
}

func (l *live) served(s *plugin.Slot) *change {
	state := s.State()
	return &change{ID: s.ID(), Serves: state.Serving()}
}

// remake makes the agents anew, since a version may offer more tools than the
// one before it. If that fails, they stay as they are: a tool that is gone says
// so when it is called.
func (l *live) remake() {
	if err := l.app.makeTargets(); err != nil {
		l.say("the agents stay as they were: %s", sentence(err))
	}
}

func (l *live) rollback(ctx context.Context, args pluginArgs) (*change, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	s, err := l.slot(args.ID)
	if err != nil {
		return nil, err
	}
	v, err := s.Rollback(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	path := l.from[args.ID][v.Number]
	l.mu.Unlock()
	l.isAt(args.ID, cmp.Or(path, l.places()[args.ID]))
	l.remake()
	return l.served(s), nil
}

func (l *live) unload(ctx context.Context, args pluginArgs) (*change, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	s, err := l.slot(args.ID)
	if err != nil {
		return nil, err
	}
	return &change{ID: args.ID}, s.Unload(ctx)
}

// usage tells what a plugin asks for, is granted and has used for a tenant.
func (l *live) usage(_ context.Context, args pluginArgs) (*plugin.Usage, error) {
	s, err := l.slot(args.ID)
	if err != nil {
		return nil, err
	}
	p := s.Current()
	if p == nil {
		return nil, host.Errorf(host.FailedPrecondition, "plugin %q is unloaded", args.ID).WithHint("load it: agenthost plugin load %s FILE", args.ID)
	}
	u := p.Usage(l.app.tenantOr(args.Tenant))
	return &u, nil
}

// watch begins to look at the files that plugins come from.
func (l *live) watch() {
	l.turn.Lock()
	defer l.turn.Unlock()
	for id, path := range l.places() {
		if !strings.HasPrefix(path, builtinPrefix) {
			l.trees[id] = watch.NewTree(path)
		}
	}
	l.config = watch.NewTree(l.app.config.name)
}

// refresh takes what has been saved since the last look into service. What is
// wrong with it is said, and the version before stays.
func (l *live) refresh(ctx context.Context) {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.config != nil && l.config.Changed() {
		l.reconfigure(ctx)
	}
	for _, id := range sortedKeys(l.trees) {
		if !l.trees[id].Changed() {
			l.lookForSource(id)
			continue
		}
		s, err := l.slot(id)
		var c *change
		if err == nil {
			c, err = l.reload(ctx, s)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.sayFailed(id, err)
		case !c.Same && c.Serves != nil:
			l.say("%s: version %d serves", id, c.Serves.Number)
		}
	}
}

// goneAfter is how many looks in a row a plugin's source must be gone before that is
// said: editors and tools take a file away for a moment when they write it.
const goneAfter = 4

// lookForSource says once that what a plugin comes from was deleted. l.turn is held.
func (l *live) lookForSource(id string) {
	path := l.places()[id]
	if _, err := os.Stat(path); path == "" || !errors.Is(err, fs.ErrNotExist) {
		delete(l.gone, id)
		return
	}
	if l.gone[id]++; l.gone[id] == goneAfter {
		l.sayFailed(id, host.Errorf(host.NotFound, "plugin %q: %s is gone", id, path))
	}
}

func (l *live) sayFailed(id string, err error) {
	l.say("%s", sentence(err))
	s := l.app.runtime.Slot(id)
	if s == nil {
		return
	}
	state := s.State()
	if v := state.Serving(); v != nil {
		l.say("%s: version %d stays", id, v.Number)
	}
	if state.Held {
		l.say("grant what it asks for: agenthost plugin grant %s %s GRANT..., and it serves", quoted(l.app.config.name), quoted(id))
	}
}

// reconfigure takes grants and tenants of a configuration that was saved. The
// rest of it needs a start.
func (l *live) reconfigure(ctx context.Context) {
	next, err := readConfig(nil, l.app.config.name)
	if err == nil {
		err = l.regrant(ctx, next)
	}
	if err != nil {
		l.say("%s", sentence(err))
		l.say("the configuration stays as it was")
		return
	}
	if !reflect.DeepEqual(withoutGrants(l.app.config), withoutGrants(next)) {
		l.say("%s: grants and tenants are taken; start again for the rest", next.name)
		return
	}
	l.say("%s: grants and tenants are taken", next.name)
}

func (l *live) regrant(ctx context.Context, next *config) error {
	var opts plugin.Options
	if err := next.tenants(&opts); err != nil {
		return err
	}
	granted := map[string]plugin.Permissions{}
	for id := range next.Plugins {
		p, err := next.grants(id)
		if err != nil {
			return err
		}
		granted[id] = p
	}
	for id, t := range opts.Tenants {
		if err := l.app.runtime.SetTenant(id, t); err != nil {
			return next.wrap(err, keys("tenants", id))
		}
	}
	for id := range l.app.config.Tenants {
		if _, still := opts.Tenants[id]; !still {
			if err := l.app.runtime.ResetTenant(id); err != nil {
				return err
			}
		}
	}
	for _, s := range l.app.runtime.Slots() {
		p, configured := granted[s.ID()]
		if !configured {
			continue
		}
		switch err := s.Grant(ctx, p); {
		case host.CodeOf(err) == host.PermissionDenied: // a version stays held back, and what is granted is
			l.say("%s", sentence(err))
		case err != nil:
			return next.wrap(err, keys("plugins", s.ID(), "grant"))
		}
	}
	l.app.config.Tenants = next.Tenants
	if l.app.retention != nil {
		l.app.retention.take(next)
	}
	return nil
}

// withoutGrants is a configuration without what can change while it is in use.
func withoutGrants(c *config) config {
	out := *c
	out.text, out.Tenants = nil, nil
	out.Plugins = map[string]pluginConfig{}
	for id, p := range c.Plugins {
		p.Grant = grantConfig{}
		out.Plugins[id] = p
	}
	return out
}

// backup writes the data to a file for whoever may open the socket, who is this
// user.
func (l *live) backup(ctx context.Context, args backupArgs) (*badgerkv.BackupInfo, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(args.Path) {
		return nil, host.Errorf(host.InvalidArgument, "back up: the path %q is not absolute", args.Path)
	}
	return l.app.data.backup(ctx, args.Path, nil)
}

func (l *live) verify(ctx context.Context, _ struct{}) (*verified, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return l.app.data.verify(ctx, func(int) {})
}

func (l *live) erase(ctx context.Context, args tenantArgs) (*erasure.Report, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return eraseAndProve(ctx, l.app.erasures(), args.Tenant)
}

func (l *live) prove(ctx context.Context, args tenantArgs) (*erasure.Report, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return l.app.erasures().Prove(ctx, args.Tenant)
}

func (l *live) purge(ctx context.Context, _ struct{}) (struct{}, error) {
	if err := l.keepsData(); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, l.app.data.db.Purge(ctx)
}

func (l *live) keepsData() error {
	if l.app.data.db == nil {
		return host.Errorf(host.FailedPrecondition, "the host keeps its threads in memory").WithHint("start it with --data DIR")
	}
	return nil
}

// socketPath returns where the control socket of a data directory is.
func socketPath(data string) string { return filepath.Join(data, socketName) }

// devSocket returns where the socket of a host without a data directory is: in a
// temporary directory of its own.
func devSocket() (path string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "agenthost")
	if err != nil {
		return "", nil, host.Errorf(host.FailedPrecondition, "make a temporary directory: %w", err).WithHint("name one with --data or --socket")
	}
	return filepath.Join(dir, socketName), func() error { return os.RemoveAll(dir) }, nil
}

// versionWords names a version for people.
func versionWords(v *plugin.VersionState) string {
	if v == nil {
		return "none"
	}
	words := fmt.Sprint(v.Number)
	if v.Version != "" {
		words += " (" + oneLine(v.Version) + ")"
	}
	return words
}

// shortDigest is enough of a digest to tell one module from another.
func shortDigest(d string) string {
	const letters = 12
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(letters, len(d))]
}
