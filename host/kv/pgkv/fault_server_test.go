package pgkv_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// ci runs .ci/postgres, which starts servers for tests.
func ci(t *testing.T, verb, dir string) string {
	t.Helper()
	script := "../../../.ci/postgres" // tests run in the directory of their package
	cmd := exec.Command(script, verb, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", script, verb, err)
	}
	return strings.TrimSpace(string(out))
}

// The server ends in the middle of commits, as in a crash, and repairs itself. Nothing
// that was acknowledged is lost, nothing is written twice, and no commit is in doubt.
func TestServerCrashesLoseAndDoubleNothing(t *testing.T) {
	pgkvtest.Server(t)                       // skips where no server may be started
	dir, err := os.MkdirTemp("/tmp", "pgkv") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ci(t, "stop", dir) })
	address := ci(t, "start", dir)
	stores := []*pgkv.Store{mustOpen(t, address, enduring()), mustOpen(t, address, enduring())}
	crashes := 0
	runChains(t, stores, stores[0], 8*time.Second, func() {
		time.Sleep(500 * time.Millisecond)
		ci(t, "crash", dir)
		crashes++
	})
	t.Logf("%d crashes", crashes)
}
