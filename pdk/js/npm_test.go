package js_test

// Scenario: an author with Node.js alone installs the kit as a package, and packs a script.

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/js"
)

// installed returns a directory in which npm has installed the package, from a tarball like one
// of a registry.
func installed(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("needs npm: run .ci/toolchains.sh")
	}
	kit, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	npm(t, dir, "pack", "--silent", kit)
	npm(t, dir, "install", "--silent", "--offline", "--no-audit", "--no-fund", "./agenthost-0.1.0.tgz")
	return dir
}

func npm(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

func TestThePackageOfNpmPacksWhatTheCommandPacks(t *testing.T) {
	dir := installed(t)
	for name, c := range map[string]struct {
		text    string
		refused string
	}{
		"a script":           {greet, ""},
		"one of 200 kB":      {greet + "// " + strings.Repeat("ä", 100_000), ""},
		"an empty one":       {" \n", "is empty"},
		"one that is binary": {"\xff\xfe", "is not UTF-8"},
		"one that is long":   {strings.Repeat(" ", js.MaxScript) + "x", "more than 4194304"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "greet.js")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			said, err := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "agenthost-pack"), file).CombinedOutput()
			if c.refused != "" {
				if err == nil || !strings.Contains(string(said), c.refused) {
					t.Errorf("agenthost-pack = %v, %q, want a refusal with %q", err, said, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			got, err := os.ReadFile(strings.TrimSuffix(file, ".js") + ".wasm")
			if err != nil {
				t.Fatal(err)
			}
			if want := packed(t, js.Pack, c.text); !bytes.Equal(got, want) {
				t.Errorf("it packs %d bytes that differ from the %d of Pack", len(got), len(want))
			}
		})
	}
	for _, file := range []string{"agenthost.d.ts", "engine/NOTICE"} {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", "agenthost", file)); err != nil {
			t.Errorf("the package lacks %s: %v", file, err)
		}
	}
}

func TestThePackageOfNpmSaysWhyItWritesNoPlugin(t *testing.T) {
	dir, work := installed(t), t.TempDir()
	script := filepath.Join(work, "greet.js")
	if err := os.WriteFile(script, []byte(greet), 0o600); err != nil {
		t.Fatal(err)
	}
	for claim, out := range map[string]string{
		"the directory does not exist": filepath.Join(work, "nowhere", "greet.wasm"),
		"it is a directory":            work,
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "agenthost-pack"), script, "-o", out)
		said, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 3 || !strings.HasPrefix(string(said), "agenthost-pack: ") || bytes.Count(said, []byte("\n")) != 1 {
			t.Errorf("%s: agenthost-pack ends with %v and says %q, want code 3 and one line", claim, err, said)
		}
	}
	if left, _ := filepath.Glob(work + "*.tmp"); len(left) > 0 {
		t.Errorf("it leaves %q", left)
	}
}
