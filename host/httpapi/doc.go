// Package httpapi serves a host over HTTP: its runs, threads and usage, each tenant
// with its own credentials.
//
//	p, err := project.Load(ctx, "shop", nil)
//	credentials := keys.New(p.Data().Driver, nil)
//	api, err := httpapi.New(credentials.Authenticate, &httpapi.Options{Runs: p.Runs(), Targets: p, Threads: p.Threads(), Ledger: p.Ledger()})
//	server := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
//
// All routes are rows of one table, from which the mux, the checks of requests and
// the OpenAPI document (GET /v1/openapi.json) are made, so they say the same.
//
// # Tenants
//
// The tenant of a request is that of its credential, and never in its path or body.
// Ids are looked up inside the tenant: those of another one are 404. A [keys.Principal]
// with a Thread reaches nothing but that thread and its runs.
//
// # Runs
//
// POST /v1/runs starts a run, and Accept chooses the answer: the ended run as JSON,
// or its events as server-sent events or lines of JSON. A run does not end with its
// connection unless the request says on_leave: cancel; GET /v1/runs/{run}/events
// with Last-Event-ID continues where the client stopped, without a gap. With
// Prefer: respond-async the answer is 202 at once.
//
// # Requests
//
// Bodies are JSON objects of at most MaxBodyBytes in which no member is given twice
// and none is unknown; the same holds of query parameters. GET /v1/threads/{thread}
// answers an ETag that changes guard themselves with, by If-Match.
//
// # Errors
//
// An error is a [Problem], with the codes of package fault and the id of the
// request, which X-Request-Id has in each answer. Errors of code internal have no
// text; the log has it. A request that a limit refuses is 429 with Retry-After,
// before any body.
package httpapi
