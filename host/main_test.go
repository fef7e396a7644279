package host_test

// Scenario: the tests of the package leave no goroutine behind.

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if a test leaves a goroutine behind: every run
// ends everything that it began.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
