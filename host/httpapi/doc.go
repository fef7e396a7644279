// Package httpapi serves a host over HTTP: its runs, threads, sessions, memories, plugins
// and usage, each tenant with its own credentials.
//
//	p, err := project.Load(ctx, "shop", nil)
//	var opts httpapi.Options // or some parts: {Runs: p.Runs(), Targets: p, Threads: p.Threads()}
//	err = project.AddParts(ctx, &opts, p)
//	credentials := project.AddCredentials(&opts, p, nil)
//	api, err := httpapi.New(credentials.Authenticate, &opts)
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
// # Administrators
//
// The routes below /v1/admin are for administrators, whose credentials are no tenant's: see
// [Admin]. With Options.Audit each change that a caller asks for is in the audit log before
// it is made, and is not made without the entry. Reads, starts of runs (which have records
// of usage) and requests without a valid credential are not in it; of changes that are
// denied to a caller it has a few in a minute. A key is given scopes that routes ask for, and
// an administrator's those of the caller's own.
//
// # Runs
//
// POST /v1/runs starts a run, and Accept chooses the answer: the ended run as JSON,
// or its events as server-sent events or lines of JSON. A run does not end with its
// connection unless the request says on_leave: cancel; GET /v1/runs/{run}/events
// with Last-Event-ID continues where the client stopped, without a gap. With
// Prefer: respond-async the answer is 202 at once. A run that is "waiting" there, for the other
// runs of its thread, is not stored yet, also a durable one.
//
// # Sessions
//
// POST /v1/sessions/{target}/turn and the routes beside it are those of
// [sessions.Service.Handler], with its bodies, answers and errors: a [sessions.Remote] with
// the URL of /v1/sessions/TARGET is a client.
//
// # Plugins
//
// A tenant uploads the modules of its plugins, lets versions serve and grants them what they
// ask for: see package library. Secrets and addresses that are not public are granted by an
// operator alone. Agents that have [library.NewProvider] offer the tools. The plugins below
// /v1/admin/plugins are the host's, shared with all tenants, whose lists show them only for
// the parameter shared, and without their grants.
//
// # OpenAI's API
//
// /v1/chat/completions, /v1/models and, with Options.Responses, /v1/responses answer clients of
// OpenAI's API, with its bodies, answers and errors: a target is a model. Members of a body that
// are not known are ignored there. See docs/openai.md.
//
// # Files
//
// Uploads and imports are read as they come, and bounded by [Bounds].
// Modules and the contents of artifacts are sent in the parts that the header Range names,
// for saving: a browser runs none of a tenant's files under the origin of the API.
//
// # Requests
//
// Bodies are JSON objects of at most Bounds.MaxBodyBytes in which no member is given twice
// and none is unknown; the same holds of query parameters. GET /v1/threads/{thread}
// answers an ETag that changes guard themselves with, by If-Match; so do the routes of a
// plugin and of a tenant. Routes that make something take an Idempotency-Key: see
// Options.Idempotency.
//
// # Errors
//
// An error is a [Problem], with the codes of package fault and the id of the
// request, which X-Request-Id has in each answer. Errors of code internal have no
// text; the log has it. A request that a limit refuses is 429 with Retry-After,
// before any body.
package httpapi
