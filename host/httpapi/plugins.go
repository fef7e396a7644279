package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
)

// Plugins are the uploaded plugins of tenants, and those of tenant "", which are shared with
// all of them. *library.Library is one.
type Plugins interface {
	Upload(ctx context.Context, tenant, id string, module io.Reader, signatures ...[]byte) (*library.Version, error)
	List(ctx context.Context, tenant, after string, limit int) (page []*library.Plugin, next string, err error)
	Shared(ctx context.Context, tenant, after string, limit int) (page []*library.Plugin, next string, err error)
	Get(ctx context.Context, tenant, id string) (*library.Plugin, error)
	Manifest(ctx context.Context, tenant, id, digest string) (json.RawMessage, error)
	Module(ctx context.Context, tenant, id, digest string) ([]byte, error)
	Grant(ctx context.Context, tenant, id string, granted plugin.Permissions, when ...library.If) (*library.Plugin, error)
	Activate(ctx context.Context, tenant, id, digest string, when ...library.If) (*library.Plugin, error)
	Accept(ctx context.Context, tenant, id, digest string, when ...library.If) (*library.Plugin, error)
	Rollback(ctx context.Context, tenant, id string, when ...library.If) (*library.Plugin, error)
	Deactivate(ctx context.Context, tenant, id string, when ...library.If) (*library.Plugin, error)
	RemoveVersion(ctx context.Context, tenant, id, digest string, when ...library.If) (*library.Plugin, error)
	Remove(ctx context.Context, tenant, id string, when ...library.If) error
}

var _ Plugins = (*library.Library)(nil)

// PluginPage is the answer of GET /v1/plugins and GET /v1/admin/plugins.
type PluginPage struct {
	Plugins []*library.Plugin `json:"plugins"`
	Next    string            `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// sharedParam has a tenant see what it has beside its own plugins.
var sharedParam = param{name: "shared", kind: "boolean", doc: "true lists the plugins of the host that serve the tenant in place of its own: each with its version that serves, and without what it may do"}

// signatureParam has the signature of an upload, for hosts that ask for one.
var signatureParam = param{name: "Plugin-Signature", kind: "string", doc: "a signature of the module: the content of FILE.minisig, or of FILE.sigstore.json, in base64. A host may ask for one by a key or an identity that it trusts; the header may come more than once"}

// maxPluginSignatures bounds those of one upload.
const maxPluginSignatures = 8

// wasmType is the media type of modules.
const wasmType = "application/wasm"

// pathOfPlugins is where the plugins of the caller's tenant are.
const pathOfPlugins = "/v1/plugins"

// pluginHandlers answer the routes of plugins: of the caller's tenant, or shared ones.
type pluginHandlers struct {
	plugins Plugins
	shared  bool
}

// owner returns whose plugins the routes are about, as the library names them.
func (h *pluginHandlers) owner(c *call) string {
	if h.shared {
		return ""
	}
	return c.principal.Tenant
}

// sharedRoutes returns the routes of shared plugins: those of a tenant's plugins, for
// administrators.
func sharedRoutes(plugins Plugins) []*route {
	list := (&pluginHandlers{plugins: plugins, shared: true}).routes()
	words := strings.NewReplacer("the tenant's own plugins", "the plugins that are shared with all tenants", " a plugin", " a shared plugin",
		" A tenant whose plan names plugins has those of its plan.", "")
	for _, r := range list {
		r.path = strings.Replace(r.path, "/v1/", "/v1/admin/", 1)
		r.id = strings.Replace(strings.Replace(r.id, "Plugin", "SharedPlugin", 1), "plugin", "sharedPlugin", 1)
		r.group, r.summary = "admin", words.Replace(r.summary)
		if r.audit != "" {
			r.audit = "shared_" + r.audit
		}
	}
	return list
}

func (h *pluginHandlers) routes() []*route {
	const (
		one     = pathOfPlugins + "/{plugin}"
		version = one + "/versions/{version}"
	)
	guard := []param{{name: "If-Match", kind: "string", doc: "the ETag of the plugin that the change is of; 412 if the plugin has changed since"}}
	pages := []param{limitParam, cursorParam}
	if !h.shared {
		pages = append(pages, sharedParam)
	}
	return []*route{
		{method: "GET", path: pathOfPlugins, id: "listPlugins", group: "plugins", scope: ReadPlugins, query: pages,
			summary: "List the tenant's own plugins, by their ids.", answer: PluginPage{}, handle: h.listPlugins},
		{method: "POST", path: one + "/versions", id: "uploadPlugin", group: "plugins", scope: WritePlugins, audit: "plugin.upload", takes: wasmType, headers: []param{signatureParam},
			summary: "Upload a WebAssembly module as a version of a plugin, which is made if it does not exist. It is checked and described, and serves when it is activated. A module that the plugin has is answered with its version.",
			status:  http.StatusCreated, answer: library.Version{}, handle: h.uploadPlugin},
		{method: "GET", path: one, id: "getPlugin", group: "plugins", scope: ReadPlugins,
			summary: "Read a plugin with its versions, which of them serves, and its grants. The ETag is its revision.", answer: library.Plugin{}, handle: h.getPlugin},
		{method: "DELETE", path: one, id: "deletePlugin", group: "plugins", scope: WritePlugins, audit: "plugin.remove", headers: guard,
			summary: "Remove a plugin with all of its versions.", status: http.StatusNoContent, handle: h.deletePlugin},
		{method: "GET", path: version + "/manifest", id: "pluginManifest", group: "plugins", scope: ReadPlugins,
			summary: "Read the manifest of a version: its tools and other parts with their schemas.", raw: "application/json", handle: h.pluginManifest},
		{method: "GET", path: version + "/module", id: "pluginModule", group: "plugins", scope: ReadPlugins, stream: true,
			summary: "Export the module of a version.", raw: wasmType, handle: h.pluginModule},
		{method: "DELETE", path: version, id: "deletePluginVersion", group: "plugins", scope: WritePlugins, audit: "plugin.remove", headers: guard,
			summary: "Remove a version that does not serve.", answer: library.Plugin{}, handle: h.ofVersion(h.plugins.RemoveVersion)},
		{method: "POST", path: version + "/activate", id: "activatePlugin", group: "plugins", scope: WritePlugins, audit: "plugin.activate", headers: guard,
			summary: "Let a version serve, in the place of the one that does. One that asks for more than it is granted is refused.", answer: library.Plugin{}, handle: h.ofVersion(h.plugins.Activate)},
		{method: "POST", path: version + "/accept", id: "acceptPlugin", group: "plugins", scope: WritePlugins, audit: "plugin.accept", headers: guard,
			summary: "Let a version serve that asks for more than it is granted: its uses of the rest fail.", answer: library.Plugin{}, handle: h.ofVersion(h.plugins.Accept)},
		{method: "POST", path: one + "/rollback", id: "rollbackPlugin", group: "plugins", scope: WritePlugins, audit: "plugin.rollback", headers: guard,
			summary: "Let the version serve that served before.", answer: library.Plugin{}, handle: h.ofPlugin(h.plugins.Rollback)},
		{method: "POST", path: one + "/deactivate", id: "deactivatePlugin", group: "plugins", scope: WritePlugins, audit: "plugin.deactivate", headers: guard,
			summary: "Let no version serve.", answer: library.Plugin{}, handle: h.ofPlugin(h.plugins.Deactivate)},
		{method: "PUT", path: one + "/grants", id: "grantPlugin", group: "plugins", scope: GrantPlugins, audit: "plugin.grant", headers: guard,
			summary: "Set the permissions that a plugin has where it asks for them. A tenant whose plan names plugins has those of its plan.", body: plugin.Permissions{}, answer: library.Plugin{}, handle: h.grantPlugin},
	}
}

// named returns the plugin that the path names, for a credential that reaches the whole
// tenant.
func (h *pluginHandlers) named(c *call) (string, error) {
	if err := c.whole(); err != nil {
		return "", err
	}
	return c.path("plugin")
}

// version is named, with the version that the path names.
func (h *pluginHandlers) version(c *call) (id, digest string, err error) {
	if id, err = h.named(c); err == nil {
		digest, err = c.path("version")
	}
	return id, digest, err
}

// guard returns the condition of the header If-Match; none without one.
func (h *pluginHandlers) guard(c *call) ([]library.If, error) {
	revision, ok, err := c.revision("plugin")
	if err != nil || !ok {
		return nil, err
	}
	return []library.If{{Revision: revision}}, nil
}

// changed answers with a plugin after a change under a condition.
func (h *pluginHandlers) changed(c *call, when []library.If, p *library.Plugin, err error) error {
	if len(when) > 0 && host.CodeOf(err) == host.Conflict {
		return &statusError{http.StatusPreconditionFailed, err}
	}
	if err != nil {
		return err
	}
	if p == nil {
		return c.answer(nil)
	}
	c.w.Header().Set("ETag", revisionTag(p.Revision))
	return c.answer(p)
}

// ofPlugin handles a change of the plugin that the path names.
func (h *pluginHandlers) ofPlugin(change func(ctx context.Context, tenant, id string, when ...library.If) (*library.Plugin, error)) func(*call) error {
	return func(c *call) error {
		id, err := h.named(c)
		if err != nil {
			return err
		}
		when, err := h.guard(c)
		if err != nil {
			return err
		}
		if err := c.audit.record(); err != nil {
			return err
		}
		p, err := change(c.ctx, h.owner(c), id, when...)
		return h.changed(c, when, p, err)
	}
}

// ofVersion handles a change of the version that the path names.
func (h *pluginHandlers) ofVersion(change func(ctx context.Context, tenant, id, digest string, when ...library.If) (*library.Plugin, error)) func(*call) error {
	return func(c *call) error {
		digest, err := c.path("version")
		if err != nil {
			return err
		}
		return h.ofPlugin(func(ctx context.Context, tenant, id string, when ...library.If) (*library.Plugin, error) {
			return change(ctx, tenant, id, digest, when...)
		})(c)
	}
}

func (h *pluginHandlers) listPlugins(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	shared, err := c.query.boolean("shared")
	if err != nil {
		return err
	}
	list := h.plugins.List
	if shared {
		list = h.plugins.Shared
	}
	page, next, err := list(c.ctx, h.owner(c), c.query.text("cursor"), limit)
	if err != nil {
		return err
	}
	return c.answer(PluginPage{page, next})
}

func (h *pluginHandlers) getPlugin(c *call) error {
	id, err := h.named(c)
	if err != nil {
		return err
	}
	p, err := h.plugins.Get(c.ctx, h.owner(c), id)
	return h.changed(c, nil, p, err)
}

func (h *pluginHandlers) uploadPlugin(c *call) error {
	id, err := h.named(c)
	if err != nil {
		return err
	}
	if err := c.bodyIs(wasmType, octets); err != nil {
		return err
	}
	signatures, err := pluginSignatures(c.r.Header)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	file := c.upload(c.api.options.Bounds.MaxModuleBytes)
	v, err := h.plugins.Upload(c.ctx, h.owner(c), id, file, signatures...)
	if err != nil {
		return file.fault(err)
	}
	c.w.Header().Set("Location", strings.TrimSuffix(c.route.path, "{plugin}/versions")+url.PathEscape(id))
	return c.answer(v)
}

// pluginSignatures returns the signatures that come with an upload.
func pluginSignatures(h http.Header) (list [][]byte, err error) {
	for _, text := range h.Values(signatureParam.name) {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "the header %s is not base64", signatureParam.name).WithHint("send the content of FILE.minisig or FILE.sigstore.json in base64, in one line")
		}
		list = append(list, raw)
	}
	if len(list) > maxPluginSignatures {
		return nil, host.Errorf(host.InvalidArgument, "the upload has %d signatures, more than %d", len(list), maxPluginSignatures)
	}
	return list, nil
}

func (h *pluginHandlers) deletePlugin(c *call) error {
	return h.ofPlugin(func(ctx context.Context, tenant, id string, when ...library.If) (*library.Plugin, error) {
		return nil, h.plugins.Remove(ctx, tenant, id, when...)
	})(c)
}

func (h *pluginHandlers) pluginManifest(c *call) error {
	id, digest, err := h.version(c)
	if err != nil {
		return err
	}
	raw, err := h.plugins.Manifest(c.ctx, h.owner(c), id, digest)
	if err != nil {
		return err
	}
	return c.answer(raw)
}

func (h *pluginHandlers) pluginModule(c *call) error {
	id, digest, err := h.version(c)
	if err != nil {
		return err
	}
	wasm, err := h.plugins.Module(c.ctx, h.owner(c), id, digest)
	if err != nil {
		return err
	}
	return c.serveFile(&file{mediaType: wasmType, name: "plugin.wasm", tag: digest, size: int64(len(wasm)), open: inMemory(wasm)})
}

func (h *pluginHandlers) grantPlugin(c *call) error {
	var granted plugin.Permissions
	if err := c.body(&granted); err != nil {
		return err
	}
	if !h.shared {
		id, err := h.named(c)
		if err != nil {
			return err
		}
		if err := h.checkGrants(c, id, &granted); err != nil {
			return err
		}
	}
	return h.ofPlugin(func(ctx context.Context, tenant, id string, when ...library.If) (*library.Plugin, error) {
		return h.plugins.Grant(ctx, tenant, id, granted, when...)
	})(c)
}

// checkGrants refuses what only an operator grants, unless the plugin has it: secrets, which
// may be the operator's own, operations of the program, and servers at addresses that are not
// public.
func (h *pluginHandlers) checkGrants(c *call, id string, granted *plugin.Permissions) error {
	p, err := h.plugins.Get(c.ctx, h.owner(c), id)
	if err != nil {
		return err
	}
	for _, s := range granted.Secrets {
		if !slices.ContainsFunc(p.Granted.Secrets, func(had plugin.SecretAccess) bool { return had.String() == s.String() }) {
			return errOperatorsGrant("secret " + strconv.Quote(s.Name))
		}
	}
	for _, name := range granted.Operations {
		if !p.Granted.AllowsOperation(name) {
			return errOperatorsGrant("operation " + strconv.Quote(name))
		}
	}
	for _, to := range granted.HTTP {
		had := func(had plugin.HTTPAccess) bool {
			return had.Host == to.Host && !slices.ContainsFunc(to.Addresses, func(a netip.Prefix) bool { return !slices.Contains(had.Addresses, a) })
		}
		if len(to.Addresses) > 0 && !slices.ContainsFunc(p.Granted.HTTP, had) {
			return errOperatorsGrant("server " + strconv.Quote(to.Host) + " at addresses that are not public")
		}
	}
	return nil
}

func errOperatorsGrant(what string) error {
	return host.Errorf(host.PermissionDenied, "only an operator grants a plugin the %.200s", what).WithHint("ask the operator of this service to put it into the plan")
}
