package httpapi

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/tenants"
)

// The scopes of an administrator's credential, beside [ReadUsage], and [ReadPlugins],
// [WritePlugins] and [GrantPlugins] for shared plugins.
const (
	ReadTenants  = "tenants:read"
	WriteTenants = "tenants:write"
	ReadKeys     = "keys:read"
	WriteKeys    = "keys:write"
	ReadAudit    = "audit:read"
	ReadBackup   = "backup:read"
)

// AdminScopes returns all scopes of administrators, in their order.
func AdminScopes() []string {
	return []string{ReadTenants, WriteTenants, ReadKeys, WriteKeys, ReadUsage, ReadAudit, ReadBackup, ReadPlugins, WritePlugins, GrantPlugins}
}

// Admin are the parts of the routes of administrators, whose credentials are apart from
// those of tenants: keys of [keys.Store.Admins] reach the routes below /v1/admin and no
// other, and a key of a tenant reaches none of them. The routes of a part that is nil do
// not exist. Options.Keys, Audit, Ledger and Plugins have routes for administrators, too.
type Admin struct {
	Tenants  *tenants.Store
	Erasures Erasures           // deletes tenants, and proves it
	Exports  []tenants.Exporter // of a tenant's data, beside its record

	// Backup writes all data of one moment, while the host serves.
	Backup func(ctx context.Context, w io.Writer) error
}

// Erasures deletes all data of tenants. *erasure.Tenants is one.
type Erasures interface {
	Delete(ctx context.Context, tenant string) error
	Prove(ctx context.Context, tenant string) (*erasure.Report, error)
}

var _ Erasures = (*erasure.Tenants)(nil)

// adminRoutes returns the routes of administrators.
func (a *API) adminRoutes() (list []*route) {
	o := &a.options
	if o.Admin.Tenants != nil {
		list = append(list, (&tenantHandlers{o.Admin.Tenants, o.Admin.Erasures, o.Admin.Exports}).routes()...)
	}
	if o.Admin.Erasures != nil {
		list = append(list, erasureRoutes(o.Admin.Tenants, o.Admin.Erasures)...)
	}
	if o.Keys != nil {
		list = append(list, (&keyHandlers{o.Keys}).routes()...)
	}
	if o.Ledger != nil {
		list = append(list, (&usageHandlers{o.Ledger}).adminRoutes()...)
	}
	if o.Plugins != nil {
		list = append(list, sharedRoutes(o.Plugins)...)
	}
	if o.Audit != nil {
		list = append(list, (&auditHandlers{o.Audit}).routes()...)
	}
	if o.Admin.Backup != nil {
		list = append(list, &route{method: "GET", path: "/v1/admin/backup", id: "backup", group: "admin", scope: ReadBackup, audit: "data.backup", stream: true,
			summary: "Back up all data of one moment: the file of agenthost data backup. An answer that was cut off is no backup.",
			raw:     "application/octet-stream", handle: backupHandler(o.Admin.Backup)})
	}
	for _, r := range list {
		r.admin = true
		if r.group == "" {
			r.group = "admin"
		}
	}
	return list
}

// mayCall refuses callers of the other kind: tenants on the routes of administrators, and
// administrators, who are no tenant's, on all others.
func (c *call) mayCall() error {
	p := c.principal
	switch {
	case c.route.admin && !p.Admin:
		return host.Errorf(host.PermissionDenied, "the route is for administrators").WithHint("use an administrator's key")
	case !c.route.admin && !c.route.any && p.Tenant == "":
		return host.Errorf(host.PermissionDenied, "the credential is an administrator's, which reaches no tenant's data").WithHint("use a key of the tenant")
	case c.route.scope != "" && !slices.Contains(p.Scopes, c.route.scope):
		return host.Errorf(host.PermissionDenied, "the credential lacks the scope %s", c.route.scope).WithHint("ask an administrator for a key with that scope")
	}
	return nil
}

// file answers with a file that write makes. A failure after its first bytes ends the
// connection, so that no client takes a part for the whole.
func (c *call) file(name, media string, write func(io.Writer) error) error {
	out := &download{c: c, name: name, media: media}
	err := write(out)
	if err == nil {
		out.begin()
		return nil
	}
	if !out.begun {
		return err
	}
	c.audit.end(err)
	c.api.logMasked(c, err)
	panic(http.ErrAbortHandler)
}

// download is the body of a file whose header is sent with its first bytes.
type download struct {
	c           *call
	name, media string
	begun       bool
}

func (d *download) begin() {
	if d.begun {
		return
	}
	d.begun = true
	h := d.c.w.Header()
	h.Set("Content-Type", d.media)
	h.Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
}

// Write sends bytes, which the client has the time of a request to take.
func (d *download) Write(b []byte) (int, error) {
	d.begin()
	d.c.sending()
	return d.c.w.Write(b)
}

func backupHandler(backup func(context.Context, io.Writer) error) func(*call) error {
	return func(c *call) error {
		if err := c.audit.record(); err != nil {
			return err
		}
		return c.file("agenthost.backup", "application/octet-stream", func(w io.Writer) error { return backup(c.ctx, w) })
	}
}
