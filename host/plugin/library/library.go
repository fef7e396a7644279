package library

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/changerow"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// The bounds of a library.
const (
	// MaxIDBytes is the longest id of a plugin.
	MaxIDBytes = 200
	// MaxVersionsOfPlugin is the highest Options.Versions.
	MaxVersionsOfPlugin = 16
	// MaxManifestBytes is the largest manifest of an uploaded module.
	MaxManifestBytes = 256 << 10

	// DefaultListLimit is the limit of a page of plugins that names none, and MaxListLimit
	// the highest one.
	DefaultListLimit = 100
	MaxListLimit     = 1000

	defaultVersions    = 8
	defaultPlugins     = 64
	defaultTenantBytes = 256 << 20

	maxSummaryBytes = 20 << 10    // of a version in its record, of which there are up to MaxVersionsOfPlugin
	maxAttempts     = 64          // of a change, after other hosts were faster
	maxWorking      = 4           // modules that are compiled at one time
	maxUploads      = 32          // in progress on this host, whose modules are in memory
	tenantUploads   = 4           // of them of one tenant, or of the host
	uploadRetry     = time.Second // after which an upload beyond them may be tried again
)

// The times of a library.
const (
	readTimeout   = 10 * time.Second
	uploadTimeout = 5 * time.Minute  // for storing a module
	looseAge      = 15 * time.Minute // after which nothing writes or removes a loose module any more
	deployTimeout = 2 * time.Minute
	undoTimeout   = 30 * time.Second
	unloadTimeout = time.Second // for calls in progress, which end later otherwise
	firstRetry    = time.Second
	lastRetry     = time.Minute
)

// Plans is the one place of tenants' grants. *tenants.Store is one.
type Plans interface {
	// PluginGrants returns what a tenant's plan grants a plugin, and whether the tenant
	// may have the plugin. nil grants are those of a plan that names no plugins. It reads
	// no store, and is called by many goroutines at once.
	PluginGrants(tenant, id string) (granted *plugin.Permissions, has bool)
}

// Options are the optional parts of a library. A zero field is its default.
type Options struct {
	// Plans has the grants of tenants' plugins. nil is plans that name no plugins.
	Plans Plans

	// Trusts, if set, refuses the upload of a tenant, or of the host (tenant ""), that its
	// signatures are not enough for. It is called before anything of the module is read, and
	// not for versions that are kept already.
	Trusts func(ctx context.Context, tenant string, module []byte, signatures [][]byte) error

	// Limits are those of every plugin of the library, over those of the runtime.
	// ModuleBytes bounds an upload.
	Limits plugin.Limits

	Versions    int   // of a plugin (8; at most MaxVersionsOfPlugin)
	Plugins     int   // of a tenant, and of the host (64)
	TenantBytes int64 // of a tenant's modules, and of the host's (256 MiB)

	// Changed, if set, is called on this host after a plugin serves another version or
	// none: for agents that are made of its parts. It must not wait for long, nor call
	// methods that change plugins. Calls for different plugins may come at once.
	Changed func(tenant, id string)

	Logger *slog.Logger // receives versions of other hosts that could not be loaded; nil discards
}

// Library keeps uploaded plugins and runs those that serve. It is safe for concurrent use,
// and any number of hosts may have one on the same driver.
type Library struct {
	rows *rows
	host *deployer
	opts Options
	seq  atomic.Uint64 // of the last change that was read

	uploads uploads
}

// Open returns a library on a driver, with a runtime that the caller closes after it. It
// loads the versions that serve first; one that cannot be loaded is logged and tried again
// later. Codes are invalid_argument for options that make no sense, and those of the driver.
func Open(ctx context.Context, driver kv.Driver, rt *plugin.Runtime, opts *Options) (*Library, error) {
	l := &Library{rows: &rows{driver: kv.Checked(driver)}, uploads: uploads{of: map[string]int{}}}
	if opts != nil {
		l.opts = *opts
	}
	o := &l.opts
	if o.Versions < 0 || o.Versions > MaxVersionsOfPlugin || o.Plugins < 0 || o.TenantBytes < 0 {
		return nil, fault.Errorf(fault.InvalidArgument, "a library of %d versions, %d plugins and %d bytes", o.Versions, o.Plugins, o.TenantBytes).
			WithHint("leave Versions, Plugins or TenantBytes out for the default; there are at most %d versions", MaxVersionsOfPlugin)
	}
	o.Versions, o.Plugins, o.TenantBytes = cmp.Or(o.Versions, defaultVersions), cmp.Or(o.Plugins, defaultPlugins), cmp.Or(o.TenantBytes, defaultTenantBytes)
	o.Limits.ModuleBytes = cmp.Or(o.Limits.ModuleBytes, plugin.DefaultModuleBytes)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	l.host = newDeployer(l.rows, rt, o)
	if err := l.load(ctx); err != nil {
		_ = l.Close() // it is nil
		return nil, kverror.Wrap(err, "read the plugins")
	}
	l.host.background.Go(func() { changerow.Follow(l.host.ctx, l.rows.driver, partition, l.followChanges) })
	return l, nil
}

// load deploys all plugins and removes modules that an earlier process left.
func (l *Library) load(ctx context.Context) error {
	row, err := l.rows.changes(ctx)
	if err != nil {
		return err
	}
	l.seq.Store(row.Seq)
	names := make(chan name)
	var loading sync.WaitGroup
	for range maxWorking {
		loading.Go(func() {
			for n := range names {
				l.host.deployStored(ctx, n)
			}
		})
	}
	err = l.rows.eachName(ctx, func(n name) { names <- n }) // a worker takes each, also after ctx
	close(names)
	loading.Wait()
	if err != nil {
		return err
	}
	return l.rows.removeLoose(ctx, looseRows)
}

// Close ends the library's goroutines. Its plugins serve until the runtime is closed. A
// second call does nothing.
func (l *Library) Close() error {
	l.host.close()
	return nil
}

// followChanges deploys the changes of other hosts, and those that could not be deployed
// before.
func (l *Library) followChanges(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	changed, err := l.changedNames(ctx)
	if err != nil {
		if l.host.ctx.Err() == nil {
			l.opts.Logger.WarnContext(ctx, "changes of plugins are not read", "error", err)
		}
		return
	}
	for _, n := range changed {
		l.host.deployLater(n)
	}
}

// changedNames returns the plugins that changed since the last call, and those whose
// deployments are tried again.
func (l *Library) changedNames(ctx context.Context) ([]name, error) {
	row, err := l.rows.changes(ctx)
	if err != nil {
		return nil, err
	}
	names := l.host.due()
	ids, complete := row.Since(l.seq.Load())
	for _, id := range ids {
		names = append(names, parseName(id))
	}
	if !complete {
		if err := l.rows.eachName(ctx, func(n name) { names = append(names, n) }); err != nil {
			return nil, err
		}
		names = append(names, l.host.deployedNames()...)
	}
	l.seq.Store(row.Seq)
	slices.SortFunc(names, func(a, b name) int { return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.id, b.id)) })
	return slices.Compact(names), nil
}

// Lookup returns the plugin that a tenant has under an id: its own, or the shared one, as
// this host knows them. It reads no store. Code not_found if neither exists, none of their
// versions serves, or the tenant's plan does not have the plugin.
func (l *Library) Lookup(tenant, id string) (*plugin.Slot, error) {
	n, err := newName(tenant, id)
	if err != nil {
		return nil, err
	}
	if _, has := l.plan(n); has {
		for _, n := range []name{n, {"", id}} {
			if s := l.host.slot(n); s != nil && s.Current() != nil {
				return s, nil
			}
		}
	}
	return nil, fault.Errorf(fault.NotFound, "there is no plugin %q", id).WithHint("upload and activate it, or use another")
}

// Serving returns the ids of the plugins that [Library.Lookup] finds for a tenant, its own
// and shared ones, in their order. It reads no store.
func (l *Library) Serving(tenant string) []string {
	ids := l.host.ids(tenant)
	if tenant != "" {
		ids = append(ids, l.host.ids("")...)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { _, err := l.Lookup(tenant, id); return err != nil })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Shared returns the shared plugins that [Library.Lookup] finds for a tenant, as the tenant
// may see them: each with its version that serves, and without grants and what it asks for,
// which may name what is the operator's. Ids, limit and errors are those of [Library.List].
func (l *Library) Shared(ctx context.Context, tenant, after string, limit int) (page []*Plugin, next string, err error) {
	if limit, err = listLimit(limit); err != nil {
		return nil, "", err
	}
	if err := checkTenant(tenant); err != nil {
		return nil, "", err
	}
	page = []*Plugin{}
	for _, id := range l.Serving(tenant) {
		if slot, err := l.Lookup(tenant, id); id <= after || err != nil || slot.Owner() != "" {
			continue
		}
		r, _, err := l.rows.read(ctx, name{"", id})
		if err != nil {
			return nil, "", kverror.Wrap(err, "list the shared plugins")
		}
		if r == nil || r.Version(r.Serving) == nil { // it ended just now
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		v := *r.Version(r.Serving)
		v.Asks = plugin.Permissions{}
		page = append(page, &Plugin{ID: id, Serving: r.Serving, Versions: []Version{v}, Changed: r.Changed, Revision: r.Revision})
	}
	return page, "", nil
}

// Owns reports whether a slot of the runtime is that of a plugin of the library.
func (l *Library) Owns(s *plugin.Slot) bool { return l.host.slot(name{s.Owner(), s.ID()}) == s }

// errTooMany is the error of a change that other hosts kept from being written.
func errTooMany() error {
	return fault.Errorf(fault.Unavailable, "other hosts have changed the plugins first, %d times", maxAttempts).WithHint("try again")
}

// isRaced reports whether a commit failed because of a change by another writer.
func isRaced(err error) bool { return errors.Is(err, kv.ErrPrecondition) }
