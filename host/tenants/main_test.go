package tenants_test

// Scenario: the tests of the package leave no goroutine behind.

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
