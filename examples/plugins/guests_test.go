package plugins_test

// Scenario: the built plugins in the repository are those that their sources build.

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/longtest"
)

// exitNoToolchain is the exit code of a kit's build.sh that finds no compiler.
const exitNoToolchain = 69

// built are the languages whose plugins are in the repository. NAME stands for that of a plugin.
var built = []struct {
	language string
	build    string // the command in the directory of the language that builds a plugin, without its output
	compiler string // the command that prints the compiler's version
	pinned   string // the version that builds the same bytes everywhere; "" if no version does
}{
	{"c", "../../../pdk/c/build.sh NAME.c", "clang-19 --version | head -1", "Debian clang version 19.1.7 (3~deb12u1)"},
	{"rust", "../../../pdk/rust/build.sh NAME", "true", ""}, // its bytes depend on where it is built
	{"assemblyscript", "../../../pdk/assemblyscript/build.sh NAME.ts", "${ASC:-asc} --version", "Version 0.28.20"},
	{"zig", "../../../pdk/zig/build.sh NAME.zig", "${ZIG:-zig} version", "0.16.0"},
}

func TestBuiltPluginsAreWhatTheirSourcesBuild(t *testing.T) {
	longtest.Need(t, "compilers of other languages take seconds")
	t.Setenv("CARGO_TARGET_DIR", t.TempDir()) // the kit is compiled once for all of Rust's
	for _, b := range built {
		for _, name := range plugins {
			t.Run(b.language+"/"+name, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), name+".wasm")
				build := strings.ReplaceAll(b.build, "NAME", name)
				run(t, b.language, build+" "+out)
				if version := strings.TrimSpace(run(t, b.language, b.compiler)); b.pinned != "" && version == b.pinned {
					if !bytes.Equal(file(t, out), file(t, b.language+"/"+name+".wasm")) {
						t.Errorf("%s/%s.wasm is not what its source builds; run in examples/plugins/%s: %s %s.wasm", b.language, name, b.language, build, name)
					}
					return
				}
				p, opts := load(t, file(t, out), granted), &plugin.CallOptions{Own: host.NewProviderState(nil)}
				for _, s := range transcript(t, name) {
					s.check(t, p, opts)
				}
			})
		}
	}
}

// run runs a command in the directory of a language, and returns its output.
func run(t *testing.T, language, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = language, os.Environ()
	for variable, program := range map[string]string{"ASC": "../extism/assemblyscript/node_modules/.bin/asc", "ZIG": "../../pdk/zig/toolchain/node_modules/.bin/zig"} {
		path, err := filepath.Abs(program)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			cmd.Env = append(cmd.Env, variable+"="+path)
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
