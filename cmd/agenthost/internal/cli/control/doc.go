// Package control lets processes of one user use a running host over a Unix socket. The
// host serves HTTP there: the routes of package httpapi, for an administrator who names
// a tenant with the header [TenantHeader],
//
//	curl --unix-socket data/control.sock -H "Agenthost-Tenant: acme" http://localhost/v1/threads
//
// and beside them rows of a table of local routes, which work on the process and its files:
//
//	POST /local/plugin.reload   {"id":"orders"}
//
// A local route answers like those of httpapi: JSON, or problem details with the codes
// of package fault. One that streams answers with lines of JSON, and an error that ends
// it early is its last line, {"error":{...}}. GET /local lists the routes.
//
// The caller is the user of the process at the other end, as the kernel has it: the
// user of the host and root are administrators, and everyone else is refused. Where
// the kernel does not say, the mode of the socket's file refuses them.
package control
