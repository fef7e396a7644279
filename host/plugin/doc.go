// Package plugin turns a .wasm file into tools, processors, routers and context
// providers, and keeps its code within limits and permissions.
//
//	rt, err := plugin.NewRuntime(ctx, nil)
//	p, err := rt.LoadFile(ctx, "weather", "weather.wasm", nil)
//	tools, err := p.Tools(nil)            // []*host.Tool, for an agent
//
// A module is checked and rewritten before it is compiled (package wasmmeter), so that
// it counts its instructions and can be stopped at any moment. Calls run in
// instances (instance.go) that are leased to one call of one tenant at a time
// (pool.go); a call that fails takes its instance with it. What a guest can ask
// of the host is in hostcall.go (how others have their turn meanwhile, in pace.go;
// what WASI costs, in wasi.go), and what of that it is granted in permission.go.
// What a guest sees of the world is in world.go, and what stops it in
// instance_limits.go. adapt.go makes the interfaces of package host out of it.
//
// A plugin that is to be replaced while it serves is loaded into a [Slot]
// (slot.go): a version is tried first (slot_trial.go) and retired when its last
// call has ended (slot_retire.go). Its parts go to whatever version serves
// (slot_parts.go); breaker.go judges the versions by their calls. What every call costs is summed in bill.go, by tenant,
// plugin and export, and metrics.go writes it for Prometheus.
//
// The contract with guests is written down in pdk/ABI.md.
package plugin
