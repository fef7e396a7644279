package library_test

// Scenario: the tests of the package leave no goroutine behind, and the one that draws
// requests at random draws few unless there is time.

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/internal/longtest"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", fmt.Sprint(longtest.Rounds(longtest.Alone(2, 6), longtest.Alone(10, 100)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
