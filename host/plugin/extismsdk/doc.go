// Package extismsdk runs Extism plugins with Extism's own Go SDK, as a second
// engine of package plugin:
//
//	rt, err := plugin.NewRuntime(ctx, &plugin.Options{
//		Engines: map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(nil)},
//	})
//	p, err := rt.LoadFile(ctx, "stats", "stats.wasm", &plugin.LoadOptions{Engine: extismsdk.Name})
//
// The sandbox of package plugin runs the same plugins and is the right place for
// nearly all of them. This engine is for a plugin that is trusted as the program
// itself is, and needs what only the SDK has: files (allowed_paths) or several
// modules that are linked. What does not hold here:
//
//   - Instructions are not counted, so there is no budget of them, and calls of
//     other tenants do not take turns with this plugin's.
//   - HTTP requests are the SDK's: the hosts that are granted are reachable, on
//     any port and under any address, and so is where they redirect to. Secrets are
//     never filled in.
//   - What a plugin logs is dropped, unless the program calls extism.SetLogLevel,
//     which is for the whole process; then it goes to Options.Log.
//   - Memory is bounded for each instance (the limit MemoryBytes), not for all
//     together.
//
// Tenants, permissions for host operations, deadlines, and the limits on inputs,
// outputs and host operations hold as ever.
package extismsdk
