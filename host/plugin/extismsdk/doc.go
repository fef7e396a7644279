// Package extismsdk runs Extism plugins with Extism's own Go SDK, as a second
// engine of package plugin:
//
//	rt, err := plugin.NewRuntime(ctx, &plugin.Options{
//		Engines: map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(nil)},
//	})
//	p, err := rt.LoadFile(ctx, "stats", "stats.wasm", &plugin.LoadOptions{Engine: extismsdk.Name})
//
// The sandbox of package plugin runs the same plugins and is the right place for nearly
// all of them. This engine is for a plugin that is trusted like the program itself, and
// needs features that only the SDK has: files (allowed_paths) or several linked modules.
// The differences from the sandbox:
//
//   - Instructions are not counted, so there is no budget of them, and calls of
//     other tenants do not take turns with this plugin's.
//   - HTTP requests are the SDK's: the granted hosts are reachable, on any port and
//     under any address, and so are the hosts they redirect to. Secrets are never
//     filled in.
//   - A plugin's logs are dropped, unless the program calls extism.SetLogLevel, which
//     is for the whole process; then they go to Options.Log.
//   - Memory is bounded for each instance (the limit MemoryBytes), not for all
//     together.
//
// Tenants, permissions for host operations, deadlines, and the limits on inputs, outputs
// and host operations apply unchanged.
package extismsdk
