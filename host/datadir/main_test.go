package datadir_test

// Scenario: the tests of the package keep their files in memory.

import (
	"testing"

	"github.com/agenthost/agenthost/internal/testdir"
)

func TestMain(m *testing.M) {
	testdir.InMemory()
	m.Run()
}
