// Package longtest says how much work tests do. By default they do enough to notice a
// broken promise, in a time that suits an edit; with the environment variable
// AGENTHOST_TEST_LONG=1, as in CI, they do all of it.
package longtest

import (
	"os"
	"testing"
)

// Variable is the environment variable that asks for all of the work.
const Variable = "AGENTHOST_TEST_LONG"

// Enabled reports whether tests do all of their work.
func Enabled() bool { return os.Getenv(Variable) != "" }

// Rounds returns long if tests do all of their work, and otherwise short.
func Rounds(short, long int) int {
	if Enabled() {
		return long
	}
	return short
}

// Need skips a test that cannot do less than all of its work. The reason says what takes
// the time.
func Need(t testing.TB, reason string) {
	t.Helper()
	if !Enabled() {
		t.Skipf("%s: set %s=1", reason, Variable)
	}
}

// Alone returns raced under the race detector, and otherwise plain: of how much work one
// goroutine does in a test, where the detector has nothing to compare it with.
func Alone(raced, plain int) int {
	if Race {
		return raced
	}
	return plain
}
