package kits_test

// Scenario: a reader follows the README of a kit word by word, from an empty directory to a
// plugin that answers in a running host.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
)

// exitNoToolchain is the exit code of a reader who misses what a README has him install.
const exitNoToolchain = 69

// aptGet stands for apt-get: it holds the page to packages that are there, which .ci/toolchains.sh
// has installed, and installs nothing itself. Of a package like lld that of one version will do.
const aptGet = `#!/bin/sh
[ "$1" = install ] || exit 1
shift
for p; do
  dpkg-query -W -f '${db:Status-Status}\n' "$p" "$p-*" 2>/dev/null | grep -qx installed || { echo "$p is not installed" >&2; exit 69; }
done
`

func TestREADMEsAreFollowedWordByWord(t *testing.T) {
	longtest.Need(t, "compilers of other languages take seconds")
	bin := tools(t)
	greetings := []string{"Hello, Ada!", "Hello, everyone else!"}
	for kit, answers := range map[string][]string{
		"js": {"roll (sides 6) says: ", "keep_higher (sides 6) says: "}, "c": greetings, "rust": greetings, "assemblyscript": greetings, "zig": greetings,
	} {
		t.Run(kit, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join(kit, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			script, commands := followed(t, string(page))
			cmd := exec.CommandContext(t.Context(), "sh", "-eux")
			cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(script)
			cmd.Env = append(os.Environ(), "PATH="+bin+":/usr/local/bin:/usr/bin:/bin", "AGENTHOST_CACHE="+testcode.Project(t), "XDG_STATE_HOME="+t.TempDir(), "OPENAI_API_KEY=")
			text, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); errors.As(err, &exit) && (exit.ExitCode() == exitNoToolchain || strings.Contains(string(text), "there is no compiler")) {
				t.Skipf("run .ci/toolchains.sh: %s", text)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			runs := strings.Split(string(text), "+ agenthost run ")[1:]
			if len(runs) != len(answers) {
				t.Fatalf("the %d commands of the page have %d runs, want %d:\n%s", commands, len(runs), len(answers), text)
			}
			for i, want := range answers {
				if !strings.Contains(runs[i], want) {
					t.Errorf("run %d of the page does not end with the answer %q:\n%s", i+1, want, text)
				}
			}
		})
	}
}

// tools returns a directory with the command agenthost, and with what stands for apt-get.
func tools(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/agenthost").CombinedOutput(); err != nil {
		t.Fatalf("build agenthost: %v\n%s", err, text)
	}
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte(aptGet), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

// fence matches a block of a page, with its language, and fileName the end of the line above one
// that is a file.
var (
	fence    = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	fileName = regexp.MustCompile("`([\\w./-]+\\.\\w+)`:\n\n$")
)

// followed returns the shell script of a reader who follows a page up to the heading "What a
// plugin has", or "a script". A block with a language is a file, which the line above it names; one
// without is commands. One shell runs them all, so that a directory that is entered is left by
// no block.
func followed(t *testing.T, page string) (script string, commands int) {
	t.Helper()
	page, _, _ = strings.Cut(page, "\n## What a ")
	var out strings.Builder
	for i, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		language, text := page[at[2]:at[3]], page[at[4]:at[5]]
		if language == "" {
			out.WriteString(text)
			commands += strings.Count(text, "\n")
			continue
		}
		name := fileName.FindStringSubmatch(page[:at[0]])
		if name == nil {
			t.Fatalf("the line above a block in %s names no file:\n%s", language, text)
		}
		fmt.Fprintf(&out, "cat > %s <<'END %d'\n%sEND %d\n", name[1], i, text, i)
	}
	return out.String(), commands
}
