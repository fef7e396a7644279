package projectcmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/pdk/js"
)

// exitNoToolchain is the exit code of a kit's build.sh that finds no compiler.
const exitNoToolchain = 69

// Every plugin of plugin new is built by the command that it names, and holds the rules of
// plugin test. Go's are tested by the script plugin_new.
func TestNewPluginsOfEveryLanguageKeepTheContract(t *testing.T) {
	for _, lang := range pluginLanguages()[1:] {
		for _, kind := range pluginKinds() {
			t.Run(lang.name+"/"+kind.name, func(t *testing.T) {
				if slices.Contains([]string{"rust", "assemblyscript", "zig"}, lang.name) || kind.name != "tool" {
					longtest.Need(t, "compilers take seconds")
				}
				dir := filepath.Join(t.TempDir(), "weather")
				files, err := lang.files(dir, "weather", kind)
				if err != nil {
					t.Fatal(err)
				}
				for name, text := range files {
					if err := writeNew(filepath.Join(dir, name), text); err != nil {
						t.Fatal(err)
					}
				}
				t.Parallel() // a process that another test starts while a script is written keeps it from being run
				if len(lang.build) > 0 {
					buildNew(t, dir, strings.ReplaceAll(strings.Join(lang.build, " "), "NAME", "weather"))
				}
				wasm, err := project.NewModules(nil).ReadModule(t.Context(), nil, filepath.Join(dir, lang.module("weather")), nil)
				if err != nil {
					t.Fatal(err)
				}
				plugintest.TestGuest(t, wasm, &plugintest.Options{Limits: plugin.Limits{Timeout: time.Minute}, Repeats: 20, Runtime: &plugin.Options{Interpreters: [][]byte{js.Engine()}}})
			})
		}
	}
}

func buildNew(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	for variable, program := range installedCompilers() {
		cmd.Env = append(cmd.Env, variable+"="+program)
	}
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitNoToolchain {
		t.Skipf("run .ci/toolchains.sh: %s", text)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
}

// installedCompilers returns the compilers that .ci/toolchains.sh has installed in this
// repository, by the variables that name them to the kits' build scripts.
func installedCompilers() map[string]string {
	out := map[string]string{}
	for variable, program := range map[string]string{"ASC": "examples/extism/assemblyscript/node_modules/.bin/asc", "ZIG": "pdk/zig/toolchain/node_modules/.bin/zig"} {
		installed, err := filepath.Abs(filepath.Join("../../../../..", program))
		if _, missing := os.Stat(installed); err == nil && missing == nil {
			out[variable] = installed
		}
	}
	return out
}
