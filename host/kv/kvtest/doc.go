// Package kvtest checks that a [kv.Driver] keeps its promises. A driver's own
// test calls [Run], and [Crash] if what it stores outlives a process:
//
//	func TestDriver(t *testing.T) {
//		kvtest.Run(t, func(t *testing.T) kvtest.Store {
//			dir := t.TempDir()
//			return kvtest.Store{
//				Open:    func() (kv.Driver, error) { return mydriver.Open(dir) },
//				Durable: true,
//			}
//		})
//	}
//
//	func TestCrash(t *testing.T) {
//		kvtest.Crash(t, func(dir string) (kv.Driver, error) { return mydriver.Open(dir) })
//	}
//
// Each rule is a subtest whose name is the promise, so a failure says which one
// was broken. A defect found in one driver becomes a rule here. [Benchmark]
// measures what the host does most.
package kvtest
