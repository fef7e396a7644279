package conformance

// Scenario: the guests in the repository are those that their sources build.

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestGuestsAreWhatTheirSourcesBuild(t *testing.T) {
	for _, c := range []struct {
		kit   string
		needs func(t *testing.T)
		build string
	}{
		{"c", needsTool("clang-19"), "./build.sh testdata/conformance.c"},
	} {
		t.Run(c.kit, func(t *testing.T) {
			c.needs(t)
			out := filepath.Join(t.TempDir(), "guest.wasm")
			cmd := exec.CommandContext(t.Context(), "sh", "-c", c.build+" "+out)
			cmd.Dir = filepath.Join("..", c.kit)
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", c.build, err, text)
			}
			built, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(built, file(t, c.kit, "conformance.wasm")) {
				t.Errorf("testdata/conformance.wasm is not what its source builds; run in pdk/%s: %s testdata/conformance.wasm", c.kit, c.build)
			}
		})
	}
}

// needsTool skips a test on a machine without a command.
func needsTool(name string) func(t *testing.T) {
	return func(t *testing.T) {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: run .ci/toolchains.sh", name)
		}
	}
}
