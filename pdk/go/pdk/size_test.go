package pdk_test

// Scenario: the size of guests and the packages that they link.

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxHello is how large a module with one tool may be. Go's runtime alone is
// 1.82 MB of it.
const maxHello = 2_000_000

// build builds a guest the way "agenthost plugin build" does and returns the
// module.
func build(t *testing.T, dir string) []byte {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go tool in PATH to build a guest")
	}
	file := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command(goTool, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-buildmode=c-shared", "-o", file, dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func TestHelloIsSmall(t *testing.T) {
	module := build(t, "./testdata/hello")
	if len(module) >= maxHello {
		t.Errorf("hello is %d bytes, more than %d; go list -deps says what came in", len(module), maxHello)
	}
	t.Logf("hello is %d bytes", len(module))
	for _, name := range []string{
		"agenthost_v1", "input_read", "output_write", "memory", "_initialize", "agenthost_describe",
		"agenthost_tool", "agenthost_process", "agenthost_route", "agenthost_provide", "agenthost_observe",
	} {
		if !bytes.Contains(module, []byte(name)) {
			t.Errorf("the module neither imports nor exports %s", name)
		}
	}
}

func TestEverythingBuilds(t *testing.T) {
	module := build(t, "./testdata/everything")
	t.Logf("everything is %d bytes", len(module))
	if !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		t.Errorf("not a core module: %x", module[:8])
	}
}

// TestCoreLinksNothingLarge names what the size test would only weigh.
func TestCoreLinksNothingLarge(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go tool in PATH to list imports")
	}
	cmd := exec.Command(goTool, "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	for _, dep := range strings.Fields(string(out)) {
		switch dep {
		case "fmt", "reflect", "encoding/json", "os", "net", "sort", "unicode", "strings", "bytes", "time", "sync":
			t.Errorf("package pdk links %s, which costs every guest", dep)
		}
	}
}
