package audit_test

// Scenario: the tests of the package leave no goroutine behind.

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		appendUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
