package plugin

// Scenario: the whole test program leaves no goroutine behind.

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
