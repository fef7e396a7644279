// Package library keeps the versions of plugins that tenants and operators upload, and runs
// those that serve.
//
//	customers, err := tenants.Open(ctx, driver, nil)
//	lib, err := library.Open(ctx, driver, rt, &library.Options{Plans: customers})
//	defer lib.Close()
//	v, err := lib.Upload(ctx, "acme", "search", file)     // checked and described, not yet serving
//	_, err = lib.Activate(ctx, "acme", "search", v.Digest) // serves, on every host
//	slot, err := lib.Lookup("acme", "search")              // its tools, processors and routers
//
// A plugin is identified by a tenant and an id. The tenant "" is the host: its plugins are
// shared with all tenants. Two tenants may use the same id, each for a plugin of its own,
// but not the id of a shared plugin. No method tells a tenant of another's plugins.
//
// # Versions
//
// A version is a module, named by its digest. [Library.Upload] checks, compiles and
// describes a module in the sandbox with nothing granted, and stores one that passes;
// another leaves nothing. [Library.Activate] makes a version serve, [Library.Rollback] the
// one that served before, [Library.Deactivate] none. A version is tried on the host of the
// request before it serves anywhere: one that fails leaves the version before in service.
//
// # Grants
//
// Grants of a tenant's plugins have one place: the plan of the tenant, which Options.Plans
// returns. Where a plan names plugins, it decides alone which of them the tenant has and
// with what: [Library.Grant] then refuses whatever the plan does not have, and stores
// nothing. For shared plugins, and for tenants whose plans name no plugins, Grant sets the
// grants of the plugin's load. A version that asks for more than it is granted, and more
// than the version before it asked for, is refused by Activate with code permission_denied,
// and taken without the rest by [Library.Accept].
//
// # Hosts
//
// Any number of hosts have a Library on one store. A change applies on the host of the
// request when the method returns, and on the others within a second and the time that a
// module takes to compile. A version that cannot be loaded on another host is tried again,
// and the log says why. A rollback that the sandbox makes of a failing version (see
// plugin.Guard) stays on its host.
//
// # Stored data
//
// Records and modules are in a partition that is no tenant's, each write of a record is one
// transaction, and a module is stored before the record that names it and removed after it:
// a process that is killed at any point leaves the old state or the new one. Parts of
// modules that no record names are removed by a later upload or start.
//
// # Agents
//
// [NewProvider] returns a context provider: an agent that has it offers the tools of the
// plugins that serve the tenant of the run, as they are when the agent begins.
//
// # Erasure and export
//
// [Library.Erase] and [Library.Find] make the Library a part of package host/erasure,
// and [Library.Export] is the exporter of a tenant's plugins.
package library
