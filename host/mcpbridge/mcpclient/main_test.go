package mcpclient_test

// Scenario: the tests of the package leave no goroutine and no process behind; the program of
// the tests is also the MCP server that they start, and the host that they kill.

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/internal/longtest"
)

// roleVariable has the program of the tests play a role.
const roleVariable = "MCPCLIENT_TEST_ROLE"

// roles are the programs that tests start, by name.
var roles = map[string]func(ctx context.Context) error{}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		if err := role(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("rapid.checks", fmt.Sprint(longtest.Rounds(4, 100))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
