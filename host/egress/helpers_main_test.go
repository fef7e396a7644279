package egress_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if a closed client leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
