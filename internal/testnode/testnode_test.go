package testnode_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testnode"
)

// builds appends a line to a file beside the directory for each time that it runs.
const builds = `const fs = require("fs");
fs.appendFileSync("../runs", "run ");
fs.mkdirSync("out", { recursive: true });
fs.writeFileSync("out/text", fs.readFileSync("text"));`

func TestWhatProgramsMakeIsKeptForEachContent(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs node: run .ci/toolchains.sh")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	all := t.TempDir()
	for _, c := range []struct {
		name, text, long string
		runs             int // of the programs, so far
	}{
		{"first", "a", "", 1},
		{"the same", "a", "", 1},
		{"other text", "b", "", 2},
		{"the same with all rounds", "b", "1", 3},
	} {
		t.Setenv(longtest.Variable, c.long)
		dir := filepath.Join(all, c.name)
		if err := os.MkdirAll(filepath.Join(dir, "node_modules"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"build.js": builds, "text": c.text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		testnode.Build(t, dir, "out", []string{"build.js"})
		if got, err := os.ReadFile(filepath.Join(dir, "out", "text")); err != nil || string(got) != c.text {
			t.Errorf("%s: out has %q, %v", c.name, got, err)
		}
		if got, err := os.ReadFile(filepath.Join(all, "runs")); err != nil || strings.Count(string(got), "run") != c.runs {
			t.Errorf("%s: the program has run %q, want %d times (%v)", c.name, got, c.runs, err)
		}
	}
}
