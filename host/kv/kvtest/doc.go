// Package kvtest checks that a [kv.Driver] keeps its promises. A driver's own test
// calls [Run], and [Crash] if its data outlives a process:
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
// Each rule is a subtest whose name is the promise, so a failure names the broken
// promise. A defect found in one driver becomes a rule here. [Benchmark] measures the
// host's most frequent operations.
package kvtest
