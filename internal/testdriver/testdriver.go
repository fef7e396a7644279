// Package testdriver gives tests of packages over [kv.Driver] the driver that
// AGENTHOST_TEST_DRIVER names, so that their suites run on every driver:
//
//	AGENTHOST_TEST_DRIVER=badger go test ./host/threads
//	AGENTHOST_TEST_DRIVER=postgres go test ./host/threads
//
// Without it the driver is in memory.
package testdriver

import (
	"os"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
	"github.com/agenthost/agenthost/internal/testdir"
)

// Variable is the environment variable that names the driver: memory, badger or
// postgres.
const Variable = "AGENTHOST_TEST_DRIVER"

// New returns an empty store, which is closed when the test ends. The store of driver
// badger is a directory in memory, if that suits (see [testdir.InMemory]); that of driver
// postgres is a schema on the server that [pgkvtest.Variable] names.
func New(t testing.TB) kv.Driver {
	t.Helper()
	switch name := os.Getenv(Variable); name {
	case "", "memory":
		return kv.NewMemory()
	case "badger":
		testdir.InMemory()
		d, err := badgerkv.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatalf("open a store: %v", err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Errorf("close the store: %v", err)
			}
		})
		return d
	case "postgres":
		return pgkvtest.Open(t, nil)
	default:
		t.Fatalf("%s=%q is none of memory, badger, postgres", Variable, name)
		return nil
	}
}

// Rounds returns how often a test takes one path: inMemory on the driver that needs no
// waiting, and otherwise over, which suffices to see that the path is the same there.
func Rounds(inMemory, over int) int {
	switch os.Getenv(Variable) {
	case "", "memory":
		return inMemory
	}
	return over
}
