// Package plugin turns a .wasm file into tools, processors, routers and context
// providers, and keeps its code within limits and permissions.
//
//	rt, err := plugin.NewRuntime(ctx, nil)
//	p, err := rt.LoadFile(ctx, "weather", "weather.wasm", nil)
//	tools, err := p.Tools(nil)            // []*host.Tool, for an agent
//
// A module is judged by its imports and exports (package guestmodule), checked and
// rewritten before it is compiled (package wasmmeter), so that it counts its instructions
// and can be stopped at any moment, and kept on disk (package modulecache). Calls run in
// instances (instance.go) that are leased to one call of one tenant at a time
// (pool.go); a failed call discards its instance. Package callmeter holds each call to
// its limits. The bytes that a guest is given and may answer are those of package abi. The
// host operations of a guest are in hostcall.go (the prices of WASI in wasi.go), the
// permissions for them in package permission, and its WASI environment in package wasienv.
// adapt.go implements package host's interfaces.
//
// A plugin that is to be replaced while it serves is loaded into a [Slot]
// (slot.go): a version is tried first (slot_trial.go) and retired when its last
// call has ended (slot_retire.go). Its parts call the serving version
// (slot_parts.go); guard.go judges the calls, and package breaker the versions by them.
// Package usagereport sums the cost of every call by tenant, plugin and export, and
// package host/metrics writes it for Prometheus.
//
// The contract with guests is written down in pdk/ABI.md.
package plugin
