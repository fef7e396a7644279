// Package pdk builds agenthost plugins in Go: it turns functions into the
// tools, processors, routers, context providers and observers that a host
// offers to its agents.
//
// A plugin is a main package built for GOOS=wasip1 with -buildmode=c-shared. It
// registers what it can do in an init function; main stays empty and is never
// run:
//
//	func init() {
//		pdk.Describe(pdk.Manifest{Name: "hello", Version: "1.0.0"})
//		pdk.Tool("hello", "Greets a person by name.",
//			`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
//			func(c *pdk.Call) error {
//				c.Text("hello, " + c.String("name"))
//				return nil
//			})
//	}
//
//	func main() {}
//
// The contract that the package speaks is pdk/ABI.md in the same repository.
// Plugins are tested natively with plain go test: package pdktest stands in for
// the host.
//
// # What a handler may keep
//
// The kit reads its input into one buffer that the next call overwrites, and
// hands out strings that lie in it: copying a history on every call costs a
// guest more than all the rest. Message contents, arguments, state and outline
// columns are therefore valid until the handler returns; strings.Clone what
// must live longer. Names, scopes and configuration are ordinary strings that
// may be kept.
//
// # Size and speed
//
// A Go guest pays for what it links. A module with one tool is 1.96 MB, of which
// 1.82 MB are Go's runtime; fmt adds 0.74 MB and encoding/json 1.4 MB, and takes
// several times as long for a history (BenchmarkProcess, BenchmarkEncodingJSON).
// So the package uses neither: [Raw] reads JSON and [Writer] writes it. A plugin
// that prefers typed arguments imports pdkjson, which brings encoding/json.
//
// # One plugin, one call at a time
//
// A module is one plugin and a host never runs two calls in one instance, so
// registrations and host operations are package functions over package state.
// None of it may be used from several goroutines at once.
package pdk
