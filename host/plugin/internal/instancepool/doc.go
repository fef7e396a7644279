// Package instancepool admits the calls of one plugin, and keeps its idle instances. In go
// calls, each of a tenant, and the instances that they give back; out come decisions which
// call runs next, and an idle instance for it, or the word that one is to be made.
//
// It promises:
//
//   - As many calls of a tenant run at once as its limits say, others wait in the order in
//     which they came, and both are bounded. A call that calls tools leaves its place to
//     another one, and calls within calls wait for places of their own level, so that calls
//     which hold places never wait for each other.
//   - An instance serves the tenant that it served before, or, restored, every tenant that
//     it suits.
//   - The idle instances are bounded, the longest unused ones close first, and a [Sweeper]
//     closes those that were idle for too long.
//   - [Pools.Close] waits for the calls in progress, and no instance outlives it.
//
// It knows no engine, no memory and no grants: tenants and instances are those of its caller.
package instancepool
