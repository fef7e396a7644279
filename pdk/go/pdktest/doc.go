// Package pdktest runs a plugin natively against a host that is a struct in the
// test, so that plugins are tested with plain go test and a debugger.
//
//	func TestHello(t *testing.T) {
//		var host pdktest.Host
//		if got := host.Tool(t, "hello", `{"name":"Ann"}`); got != `"hello, Ann"` {
//			t.Errorf("hello: %s", got)
//		}
//	}
//
// What a [Host] checks is what the real one checks: that a tool's arguments fit its
// parameters, that output is JSON, and that edits keep the rules. What it does not have are the limits,
// the permissions and the sandbox; for those, call the built module with
// "agenthost plugin call".
package pdktest
