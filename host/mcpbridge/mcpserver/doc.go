// Package mcpserver serves a host's networks, agents, tools, prompts and artifacts to
// clients of the Model Context Protocol: editors, chat front-ends and other agents.
//
//	server, err := mcpserver.New(registry, catalog, nil)
//	defer server.Close()
//	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
//		server.Serve(w, r, mcpserver.Caller{Tenant: tenantOf(r), MayRun: true, MayRead: true})
//	})
//
// One address serves all tenants: the tools of a client are those that the [Catalog]
// offers the tenant of its credential. The server asks the catalog again when its revision
// has changed, and sends list_changed to the sessions of that tenant alone.
//
// # Sessions
//
// [Server.Serve] speaks streamable HTTP. Clients of the protocol versions up to 2025-11-25
// have sessions, which belong to one tenant and one set of rights: the id of a session of
// another tenant is as unknown as one that was never given out. Clients of 2026-07-28 have
// none. [Server.ServeStream] speaks to one client over a pipe.
//
// # Calls
//
// Each call is a run of the registry, so limits, budgets, approvals, cancellation, tracing
// and draining are those of runs: a call of a network or agent is a run of it, and a call of
// a tool is a run of an agent that has the tool and no model. Events of the run are sent as
// progress, if the client asks for that. A run that asks a person sends its questions as
// elicitations, and continues with the answers. A client that leaves, or cancels the call,
// cancels the run.
//
// # Errors
//
// A run that fails is a result with isError, whose text is what fault.ForClient lets clients
// read. Requests that are no calls of a tool have errors of JSON-RPC.
package mcpserver
