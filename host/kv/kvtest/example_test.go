package kvtest_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
)

// A driver's test is the kit and a way to open the driver. This one is of the
// memory driver; one that keeps its data sets Durable and opens the same data
// each time.
func ExampleRun() {
	TestDriver := func(t *testing.T) {
		kvtest.Run(t, func(t *testing.T) kvtest.Store {
			return kvtest.Store{
				Open: func() (kv.Driver, error) { return kv.NewMemory(), nil },
			}
		})
	}
	_ = TestDriver
}
