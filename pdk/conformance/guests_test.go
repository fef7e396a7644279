package conformance

// Scenario: the guests in the repository are those that their sources build.

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
)

// exitNoToolchain is the exit code of a build script that finds no compiler.
const exitNoToolchain = 69

func TestGuestsAreWhatTheirSourcesBuild(t *testing.T) {
	for _, c := range []struct {
		kit, build string
		compiler   string // the command that prints its version
		pinned     string // the version that builds the same bytes; "" if no version does
	}{
		{"c", "./build.sh testdata/conformance.c", "clang-19 --version | head -1", "Debian clang version 19.1.7 (3~deb12u1)"},
		{"rust", "./build.sh conformance", "true", ""}, // its bytes depend on where it is built
		{"assemblyscript", "./build.sh testdata/conformance.ts", "${ASC:-asc} --version", "Version 0.28.20"},
		{"zig", "./build.sh testdata/conformance.zig", "${ZIG:-zig} version", "0.16.0"},
	} {
		t.Run(c.kit, func(t *testing.T) {
			longtest.Need(t, "compilers of other languages take seconds")
			out := filepath.Join(t.TempDir(), "guest.wasm")
			run(t, c.kit, c.build+" "+out)
			built, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			switch version := strings.TrimSpace(run(t, c.kit, c.compiler)); {
			case version != c.pinned || c.pinned == "":
				putVectors(t, c.kit, load(t, built))
			case !bytes.Equal(built, file(t, c.kit, "conformance.wasm")):
				t.Errorf("testdata/conformance.wasm is not what its source builds; run in pdk/%s: %s testdata/conformance.wasm", c.kit, c.build)
			}
		})
	}
}

// An error of a plugin that traps names the functions that it is in.
func TestGuestsKeepTheNamesOfTheirFunctions(t *testing.T) {
	for kit, name := range map[string]string{"c": "ah_valid", "rust": "..json..Json$GT$17h", "assemblyscript": "agenthost/json/Json#", "zig": "json.Json.parse"} {
		if !bytes.Contains(file(t, kit, "conformance.wasm"), []byte(name)) {
			t.Errorf("the guest of %s has no function named %q", kit, name)
		}
	}
}

// The examples in the comments of the Rust kit are its tests.
func TestTheRustKitPassesItsOwnTests(t *testing.T) {
	longtest.Need(t, "the Rust compiler takes seconds")
	if _, err := exec.LookPath("/usr/bin/cargo"); err != nil {
		t.Skip("needs Debian's cargo: run .ci/toolchains.sh")
	}
	run(t, "rust", "CARGO_TARGET_DIR="+t.TempDir()+" RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc /usr/bin/cargo test --quiet --offline")
}

func TestTheZigKitPassesItsOwnTests(t *testing.T) {
	longtest.Need(t, "the Zig compiler takes seconds")
	run(t, "zig", "command -v ${ZIG:-zig} >/dev/null || exit 69; ${ZIG:-zig} test agenthost/agenthost.zig")
}

// run runs a command in the directory of a kit, and returns what it says.
func run(t *testing.T, kit, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = filepath.Join("..", kit)
	cmd.Env = os.Environ()
	for variable, program := range map[string]string{"ASC": "../../examples/extism/assemblyscript/node_modules/.bin/asc", "ZIG": "../zig/toolchain/node_modules/.bin/zig"} {
		installed, err := filepath.Abs(program)
		if _, missing := os.Stat(installed); err == nil && missing == nil {
			cmd.Env = append(cmd.Env, variable+"="+installed)
		}
	}
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == exitNoToolchain {
		t.Skipf("run .ci/toolchains.sh: %s", text)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
	return string(text)
}
