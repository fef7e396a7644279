package childcompiler

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
)

// TestChildrenInheritNothing has a shell stand in for the child and say what it
// finds.
func TestChildrenInheritNothing(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell, to look at what a process inherits")
	}
	t.Setenv("AGENTHOST_TEST_SECRET", "not for children")
	script := filepath.Join(t.TempDir(), "child")
	text := "#!" + sh + "\n/usr/bin/env >&2; ls /proc/self/fd | tr '\\n' ' ' >&2; exit 1\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	leak, err := syscall.Dup(2) // as one that this process was started with: Go does not know it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	var words bytes.Buffer
	c := &Compiler{script, "child", childPatience}
	if err := c.command(t.Context(), &plugin.CompileJob{Dir: t.TempDir()}, nil, &words).Run(); err == nil {
		t.Fatal("the shell did not end with 1")
	}
	for _, line := range strings.Split(strings.TrimSpace(words.String()), "\n") {
		name, _, variable := strings.Cut(line, "=")
		switch {
		case variable && name != "PWD" && name != "SHLVL" && name != "_" && name != "OLDPWD": // a shell sets these
			t.Errorf("it inherits the variable %s", name)
		case !variable && slices.Contains(strings.Fields(line), strconv.Itoa(leak)):
			t.Errorf("of its files %s, %d is ours", line, leak)
		}
	}
}
