package httpapi

import (
	"io"
	"net/http"
	"net/url"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/tenants"
)

// NewTenant is the body of POST /v1/admin/tenants.
type NewTenant struct {
	ID   string       `json:"id" description:"names the tenant in every store, and never changes"`
	Name string       `json:"name,omitempty" description:"for people"`
	Plan tenants.Plan `json:"plan,omitzero" description:"absent bounds nothing"`
}

// TenantChange is the body of PATCH /v1/admin/tenants/{tenant}.
type TenantChange struct {
	Name *string       `json:"name,omitempty" description:"for people"`
	Plan *tenants.Plan `json:"plan,omitempty" description:"takes the place of the present plan"`
}

// Suspension is the body of POST /v1/admin/tenants/{tenant}/suspend.
type Suspension struct {
	Reason string `json:"reason,omitempty" description:"for people; the tenant does not read it"`
}

// TenantPage is the answer of GET /v1/admin/tenants.
type TenantPage struct {
	Tenants []*tenants.Tenant `json:"tenants" description:"in the order of their ids"`
	Next    string            `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// tenantHandlers answer the routes of tenants.
type tenantHandlers struct {
	store    *tenants.Store
	erasures Erasures
	exports  []tenants.Exporter
}

func (h *tenantHandlers) routes() []*route {
	guard := param{name: "If-Match", kind: "string", doc: "the ETag of the tenant that the change is of; 412 if the tenant has changed since"}
	return []*route{
		{method: "GET", path: "/v1/admin/tenants", id: "listTenants", scope: ReadTenants, query: []param{limitParam, cursorParam},
			summary: "List tenants.", answer: TenantPage{}, handle: h.list},
		{method: "POST", path: "/v1/admin/tenants", id: "createTenant", scope: WriteTenants, audit: "tenant.create", headers: []param{keyParam},
			summary: "Create a tenant with a plan.", body: NewTenant{}, status: http.StatusCreated, answer: tenants.Tenant{}, handle: h.create},
		{method: "GET", path: "/v1/admin/tenants/{tenant}", id: "getTenant", scope: ReadTenants,
			summary: "Read a tenant with its plan. The ETag is its revision.", answer: tenants.Tenant{}, handle: h.get},
		{method: "PATCH", path: "/v1/admin/tenants/{tenant}", id: "changeTenant", scope: WriteTenants, audit: "tenant.change", headers: []param{guard},
			summary: "Change a tenant's name and plan: at once on this host, within a second on others.", body: TenantChange{}, answer: tenants.Tenant{}, handle: h.change},
		{method: "POST", path: "/v1/admin/tenants/{tenant}/suspend", id: "suspendTenant", scope: WriteTenants, audit: "tenant.suspend",
			summary: "Refuse a tenant's requests, and cancel its runs.", body: Suspension{}, answer: tenants.Tenant{}, handle: h.suspend},
		{method: "POST", path: "/v1/admin/tenants/{tenant}/resume", id: "resumeTenant", scope: WriteTenants, audit: "tenant.resume",
			summary: "Serve a suspended tenant again.", answer: tenants.Tenant{}, handle: h.resume},
		{method: "GET", path: "/v1/admin/tenants/{tenant}/export", id: "exportTenant", scope: ReadTenants, audit: "tenant.export", stream: true,
			summary: "Export a tenant's record and data, as lines of JSON: {\"part\":\"tenant\",\"data\":{}}. An answer that was cut off is no export.",
			raw:     "application/x-ndjson", handle: h.export},
	}
}

// erasureRoutes returns the routes of the deletion of tenants. store may be nil.
func erasureRoutes(store *tenants.Store, erasures Erasures) []*route {
	h := &tenantHandlers{store: store, erasures: erasures}
	return []*route{
		{method: "DELETE", path: "/v1/admin/tenants/{tenant}", id: "deleteTenant", scope: WriteTenants, audit: "tenant.delete", stream: true,
			summary: "Delete everything that is kept of a tenant, and answer with the proof. It may be sent again: a deletion that was interrupted is completed.",
			answer:  erasure.Report{}, handle: h.delete},
		{method: "GET", path: "/v1/admin/tenants/{tenant}/proof", id: "proveTenant", scope: ReadTenants, stream: true,
			summary: "Show what is kept of a tenant, by reading all stored data.", answer: erasure.Report{}, handle: h.prove},
	}
}

func (h *tenantHandlers) list(c *call) error {
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	page, next, err := h.store.List(c.ctx, c.query.text("cursor"), limit)
	if err != nil {
		return err
	}
	return c.answer(TenantPage{page, next})
}

// answerTenant answers with a tenant, whose revision is the ETag.
func (c *call) answerTenant(t *tenants.Tenant) error {
	c.w.Header().Set("ETag", revisionTag(t.Revision))
	return c.answer(t)
}

func (h *tenantHandlers) create(c *call) error {
	var in NewTenant
	if err := c.body(&in); err != nil {
		return err
	}
	key, err := c.takeKey(&in)
	if err != nil {
		return err
	}
	if err := c.audit.recordOf(in.ID, objectOf("tenant", in.ID)); err != nil {
		return err
	}
	t, err := h.store.Create(c.ctx, in.ID, &tenants.Spec{Name: in.Name, Plan: in.Plan})
	if key.again && host.CodeOf(err) == host.AlreadyExists {
		t, err = h.store.Get(c.ctx, in.ID)
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/admin/tenants/"+url.PathEscape(t.ID))
	return c.answerTenant(t)
}

func (h *tenantHandlers) get(c *call) error {
	id, err := c.path("tenant")
	if err != nil {
		return err
	}
	t, err := h.store.Get(c.ctx, id)
	if err != nil {
		return err
	}
	return c.answerTenant(t)
}

func (h *tenantHandlers) change(c *call) error {
	var in TenantChange
	if err := c.body(&in); err != nil {
		return err
	}
	id, err := c.path("tenant")
	if err != nil {
		return err
	}
	revision, guarded, err := c.revision("tenant")
	if err != nil {
		return err
	}
	if in.Name == nil && in.Plan == nil {
		return host.Errorf(host.InvalidArgument, "the request changes nothing").WithHint("send a name, a plan, or both")
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	t, err := h.store.Change(c.ctx, id, func(t *tenants.Tenant) error {
		if guarded && t.Revision != revision {
			return &statusError{http.StatusPreconditionFailed, host.Errorf(host.Conflict, "tenant %q has changed since", id).WithHint("read it again, and send its ETag")}
		}
		if in.Name != nil {
			t.Name = *in.Name
		}
		if in.Plan != nil {
			t.Plan = *in.Plan
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.answerTenant(t)
}

func (h *tenantHandlers) suspend(c *call) error {
	var in Suspension
	if err := c.body(&in); err != nil {
		return err
	}
	return h.update(c, func(id string) (*tenants.Tenant, error) { return h.store.Suspend(c.ctx, id, in.Reason) })
}

func (h *tenantHandlers) resume(c *call) error {
	return h.update(c, func(id string) (*tenants.Tenant, error) { return h.store.Activate(c.ctx, id) })
}

func (h *tenantHandlers) update(c *call, change func(id string) (*tenants.Tenant, error)) error {
	id, err := c.path("tenant")
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	t, err := change(id)
	if err != nil {
		return err
	}
	return c.answerTenant(t)
}

func (h *tenantHandlers) export(c *call) error {
	id, err := c.path("tenant")
	if err != nil {
		return err
	}
	if _, err := h.store.Get(c.ctx, id); err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	return c.file("tenant.ndjson", "application/x-ndjson", func(w io.Writer) error { return h.store.Export(c.ctx, id, w, h.exports...) })
}

func (h *tenantHandlers) delete(c *call) error {
	id, err := c.path("tenant")
	if err != nil {
		return err
	}
	if err := host.ValidateTenant(id); err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if err := h.erase(c, id); err != nil {
		return err
	}
	return h.answerProof(c, id)
}

// erase deletes a tenant, also one without a record.
func (h *tenantHandlers) erase(c *call, id string) error {
	if h.store != nil {
		if err := h.store.Delete(c.ctx, id, h.erasures); host.CodeOf(err) != host.NotFound {
			return err
		}
	}
	return h.erasures.Delete(c.ctx, id)
}

func (h *tenantHandlers) prove(c *call) error {
	id, err := c.path("tenant")
	if err != nil {
		return err
	}
	return h.answerProof(c, id)
}

func (h *tenantHandlers) answerProof(c *call, id string) error {
	report, err := h.erasures.Prove(c.ctx, id)
	if err != nil {
		return err
	}
	return c.answer(report)
}
