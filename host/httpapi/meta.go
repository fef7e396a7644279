package httpapi

import (
	"net/http"
	"slices"
)

// Me is the answer of GET /v1/me.
type Me struct {
	Tenant string   `json:"tenant,omitempty" description:"absent for an administrator"`
	Admin  bool     `json:"admin,omitempty" description:"the credential is an administrator's"`
	Key    string   `json:"key,omitempty" description:"the id of the credential"`
	Scopes []string `json:"scopes"`
	Thread string   `json:"thread,omitempty" description:"the only thread that the credential reaches"`
}

// TargetList is the answer of GET /v1/targets.
type TargetList struct {
	Targets []string `json:"targets" description:"the names of networks and agents that the caller may run"`
}

// Health is the answer of GET /health and GET /ready.
type Health struct {
	Status string `json:"status"`
}

// hostHandlers answer the routes of the process and the caller.
type hostHandlers struct{ api *API }

func (h *hostHandlers) routes() []*route {
	list := []*route{
		{method: "GET", path: "/health", id: "health", group: "host", summary: "Whether the process serves.", answer: Health{}, handle: func(c *call) error { return c.answer(Health{"ok"}) }},
		{method: "GET", path: "/ready", id: "ready", group: "host", summary: "Whether the host takes requests: status 503 while it is drained.", answer: Health{}, handle: h.ready},
		{method: "GET", path: "/v1/openapi.json", id: "openapi", group: "host", summary: "This document.", raw: "application/json", handle: h.openapi},
		{method: "GET", path: "/v1/me", id: "me", group: "host", any: true, summary: "Read who the credential is.", answer: Me{}, handle: h.me},
	}
	if h.api.options.Targets != nil {
		list = append(list, &route{method: "GET", path: "/v1/targets", id: "listTargets", group: "runs", scope: ReadRuns,
			summary: "List the networks and agents that the caller may run.", answer: TargetList{}, handle: h.listTargets})
	}
	if h.api.options.Metrics != nil {
		list = append(list, &route{method: "GET", path: "/metrics", id: "metrics", group: "host", summary: "The metrics of the host, as Prometheus reads them.", raw: "text/plain",
			handle: func(c *call) error {
				h.api.options.Metrics.ServeHTTP(c.w, c.r)
				return errAnswered
			}})
	}
	return list
}

func (h *hostHandlers) ready(c *call) error {
	if ready := h.api.options.Ready; ready != nil {
		if err := ready(c.ctx); err != nil {
			return &statusError{http.StatusServiceUnavailable, err}
		}
	}
	return c.answer(Health{"ready"})
}

func (h *hostHandlers) openapi(c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(h.api.OpenAPI())
	return errAnswered
}

func (h *hostHandlers) me(c *call) error {
	p := c.principal
	scopes := p.Scopes
	if scopes == nil {
		scopes = []string{}
	}
	return c.answer(Me{Tenant: p.Tenant, Admin: p.Admin, Key: p.Key, Scopes: scopes, Thread: p.Thread})
}

func (h *hostHandlers) listTargets(c *call) error {
	names := []string{}
	for _, name := range h.api.options.Targets.Targets() {
		if allowed := h.api.options.Allowed; allowed == nil || allowed(c.ctx, c.principal, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return c.answer(TargetList{names})
}

// stainlessHeaders are those that OpenAI's clients for browsers send.
const stainlessHeaders = "X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-Os, X-Stainless-Package-Version, " +
	"X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout"

// corsAge is how many seconds a browser keeps the answer to a preflight request.
const corsAge = "600"

// cors adds the headers for the pages of other origins, and answers their preflight
// requests. It reports whether the request is answered.
func (a *API) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || len(a.origins) == 0 {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	if !a.origins[origin] && !a.origins["*"] {
		return false // the browser refuses the answer
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "ETag, Location, Mcp-Session-Id, Retry-After, X-Request-Id, X-Run-Id, X-Thread-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, Prefer, X-Request-Id, X-Thread-Id, "+stainlessHeaders)
	header.Set("Access-Control-Max-Age", corsAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
