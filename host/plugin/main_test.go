package plugin

// Scenario: the whole test program shares one compile cache and leaves no goroutine
// behind.

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// TestCacheDir returns the directory where the tests of this package share
// compiled code, "" if there can be none: compiling the same few guests in Go
// again for each test would take longer than all that they test.
var TestCacheDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "agenthost-test-")
	if err != nil {
		return ""
	}
	return dir
})

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(TestCacheDir()) // of no use to anybody, and small
		os.Exit(code)
	}))
}
