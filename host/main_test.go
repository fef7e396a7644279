package host_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if a test leaves a goroutine behind: every run
// ends everything that it began.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
