package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/modulekv"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// Plugin is a plugin of the library.
type Plugin struct {
	Tenant   string    `json:"tenant,omitempty"` // "" is the host: the plugin is shared
	ID       string    `json:"id"`
	Serving  string    `json:"serving,omitempty"`  // the digest of the version that serves
	Previous []string  `json:"previous,omitempty"` // the digests of those that served before, the last one at the end
	Versions []Version `json:"versions"`           // the oldest first
	Changed  time.Time `json:"changed"`

	// Granted are the permissions that the plugin has where it asks for them: those of the
	// tenant's plan if the plan names plugins, otherwise those of [Library.Grant].
	Granted plugin.Permissions `json:"granted,omitzero"`

	// Revision grows with each change of the plugin, for requests on condition of it.
	Revision uint64 `json:"revision"`
}

// Version returns the version with a digest; nil without one.
func (p *Plugin) Version(digest string) *Version {
	i := slices.IndexFunc(p.Versions, func(v Version) bool { return v.Digest == digest })
	if i < 0 {
		return nil
	}
	return &p.Versions[i]
}

// Version is an uploaded module, as it describes itself.
type Version struct {
	Digest      string             `json:"digest"` // "sha256:" and hex
	Bytes       int                `json:"bytes"`
	Uploaded    time.Time          `json:"uploaded"`
	Name        string             `json:"name,omitempty"`    // for people
	Version     string             `json:"version,omitempty"` // for people
	Description string             `json:"description,omitempty"`
	Tools       []string           `json:"tools,omitempty"`
	Processors  []string           `json:"processors,omitempty"`
	Routers     []string           `json:"routers,omitempty"`
	Providers   []string           `json:"providers,omitempty"`
	Asks        plugin.Permissions `json:"asks,omitzero"`     // the permissions that it asks for
	Missing     []string           `json:"missing,omitempty"` // those of them that it is not granted, in words
}

func newVersion(wasm []byte, m *plugin.Manifest) Version {
	v := Version{Digest: modulekv.Digest(wasm), Bytes: len(wasm), Uploaded: now(),
		Name: m.Name, Version: m.Version, Description: m.Description, Asks: m.Permissions.Clone()}
	for _, t := range m.Tools {
		v.Tools = append(v.Tools, t.Name)
	}
	for _, p := range m.Processors {
		v.Processors = append(v.Processors, p.Name)
	}
	for _, p := range m.Routers {
		v.Routers = append(v.Routers, p.Name)
	}
	for _, p := range m.Providers {
		v.Providers = append(v.Providers, p.Name)
	}
	return v
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// partition is that of everything here. No tenant can have its name.
const partition = "agenthost/plugins"

// Where things are in the partition. A tenant of "" is the host.
//
//	plugin/<tenant>/<id>            record
//	id/<id>/<tenant>                empty: which tenants use an id
//	manifest/<tenant>/<digest>      the manifest of a version
//	module/<tenant>/<digest>/<n>    part n of a module: see package modulekv
//	loose/<tenant>/<digest>         looseModule: its parts may have to be removed
//	changes                         changerow.Row
var (
	pluginRows   = kv.NewKey("plugin")
	idRows       = kv.NewKey("id")
	manifestRows = kv.NewKey("manifest")
	moduleRows   = kv.NewKey("module")
	looseRows    = kv.NewKey("loose")
	changesRow   = kv.NewKey("changes")
)

const layout = 1

// record is the stored form of a plugin. Its Granted is that of Grant.
type record struct {
	V int `json:"v"`
	Plugin
}

// looseModule marks a module that is being uploaded or removed. The revision of its entry is
// the right to write or remove parts of the module: each such write is on condition of it.
type looseModule struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`
}

// name identifies a plugin. Neither part has a control character.
type name struct{ tenant, id string }

// String is the form in the row of changes.
func (n name) String() string { return n.tenant + "\x00" + n.id }

func parseName(text string) name {
	tenant, id, _ := strings.Cut(text, "\x00")
	return name{tenant, id}
}

func (n name) row() kv.Key       { return pluginRows.With(n.tenant, n.id) }
func (n name) idRow() kv.Key     { return idRows.With(n.id, n.tenant) }
func (n name) sharedRow() kv.Key { return idRows.With(n.id, "") }

// newName checks the names of a request.
func newName(tenant, id string) (name, error) {
	n := name{tenant, id}
	if err := checkTenant(tenant); err != nil {
		return n, err
	}
	return n, chat.ValidateID("plugin", id, MaxIDBytes)
}

func checkTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	return host.ValidateTenant(tenant)
}

func decode(e kv.Entry) (*record, error) {
	r := &record{}
	if err := kv.DecodeRecord(e.Value, r); err != nil {
		return nil, err
	}
	if r.V > layout {
		return nil, kv.ErrFormat
	}
	r.Revision = e.Revision
	return r, nil
}

// shown returns a plugin for callers, with its grants and what its versions lack.
func (l *Library) shown(r *record) *Plugin {
	out := r.Plugin
	out.Granted = l.granted(r)
	out.Previous, out.Versions = slices.Clone(r.Previous), slices.Clone(r.Versions)
	for i := range out.Versions {
		out.Versions[i].Missing = out.Versions[i].Asks.Missing(out.Granted)
	}
	return &out
}

// granted returns the permissions that a plugin has.
func (l *Library) granted(r *record) plugin.Permissions {
	if planned, has := l.plan(name{r.Tenant, r.ID}); planned != nil && has {
		return planned.Clone()
	}
	return r.Granted.Clone()
}

// plan returns the grants of a tenant's plan for a plugin, nil if the plan names none, and
// whether the tenant has the plugin.
func (l *Library) plan(n name) (*plugin.Permissions, bool) {
	if n.tenant == "" || l.opts.Plans == nil {
		return nil, true
	}
	return l.opts.Plans.PluginGrants(n.tenant, n.id)
}

// checkPlan refuses a plugin that the tenant's plan does not have.
func (l *Library) checkPlan(n name) error {
	if _, has := l.plan(n); !has {
		return fault.Errorf(fault.PermissionDenied, "the plan does not have plugin %q", n.id).WithHint("use another id, or ask the operator of this service")
	}
	return nil
}

// Get returns a plugin of a tenant. Code not_found, also for a shared plugin: its tenant is
// "".
func (l *Library) Get(ctx context.Context, tenant, id string) (*Plugin, error) {
	n, err := newName(tenant, id)
	if err != nil {
		return nil, err
	}
	r, _, err := l.rows.read(ctx, n)
	if err != nil {
		return nil, kverror.Wrap(err, "read plugin %q", id)
	}
	if r == nil {
		return nil, errNoPlugin(id)
	}
	return l.shown(r), nil
}

func errNoPlugin(id string) error {
	return fault.Errorf(fault.NotFound, "there is no plugin %q", id).WithHint("upload it first")
}

func errNoVersion(id, digest string) error {
	return fault.Errorf(fault.NotFound, "plugin %q has no version with digest %.80q", id, digest).WithHint("upload it, or name one of those that the plugin has")
}

// Versions returns the versions of a plugin, the oldest first. Codes are those of Get.
func (l *Library) Versions(ctx context.Context, tenant, id string) ([]Version, error) {
	p, err := l.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return p.Versions, nil
}

// Manifest returns the manifest of a version as its module wrote it. Code not_found.
func (l *Library) Manifest(ctx context.Context, tenant, id, digest string) (json.RawMessage, error) {
	p, err := l.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if p.Version(digest) == nil {
		return nil, errNoVersion(id, digest)
	}
	raw, err := l.rows.manifest(ctx, tenant, digest)
	if errors.Is(err, kv.ErrNotFound) { // it was removed meanwhile
		return nil, errNoVersion(id, digest)
	}
	return raw, kverror.Wrap(err, "read the manifest of plugin %q", id)
}

// Module returns the module of a version. Code not_found.
func (l *Library) Module(ctx context.Context, tenant, id, digest string) ([]byte, error) {
	p, err := l.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if p.Version(digest) == nil {
		return nil, errNoVersion(id, digest)
	}
	wasm, err := l.rows.modules(tenant).Get(ctx, digest)
	if fault.CodeOf(err) == fault.DataLoss {
		if p, again := l.Get(ctx, tenant, id); again != nil || p.Version(digest) == nil { // it was removed meanwhile
			return nil, errNoVersion(id, digest)
		}
	}
	return wasm, kverror.Wrap(err, "read the module of plugin %q", id)
}

// List returns the plugins of a tenant whose ids are after the given one, in the order of
// ids, at most limit of them (100), and the id to continue after, or "". Shared plugins are
// those of tenant "". Code invalid_argument for a limit above [MaxListLimit].
func (l *Library) List(ctx context.Context, tenant, after string, limit int) (page []*Plugin, next string, err error) {
	if limit, err = listLimit(limit); err != nil {
		return nil, "", err
	}
	if err := checkTenant(tenant); err != nil {
		return nil, "", err
	}
	r := kv.Range{Prefix: pluginRows.With(tenant), Limit: limit}
	if after != "" {
		n, err := newName(tenant, after)
		if err != nil {
			return nil, "", err
		}
		r.After = n.row()
	}
	page = []*Plugin{}
	for e, err := range kv.All(ctx, l.rows.driver, partition, r) {
		if err != nil {
			return nil, "", kverror.Wrap(err, "list the plugins")
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		rec, err := decode(e)
		if err != nil {
			return nil, "", kverror.Wrap(err, "list the plugins")
		}
		page = append(page, l.shown(rec))
	}
	return page, "", nil
}

// listLimit returns the limit of a page; 0 is the default.
func listLimit(limit int) (int, error) {
	if limit < 0 || limit > MaxListLimit {
		return 0, fault.Errorf(fault.InvalidArgument, "a page of %d plugins: it has from 1 to %d", limit, MaxListLimit)
	}
	return cmp.Or(limit, DefaultListLimit), nil
}
