package plugin_test

// Scenario: the tests' Go guests are built from source, once for the test program.

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
)

// built caches the guests that this test binary has built.
var built sync.Map // of string to func() ([]byte, error)

// buildGuest builds a Go guest of this module, given its directory below the
// module's root.
func buildGuest(t testing.TB, dir string) []byte {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build a guest")
	}
	build, _ := built.LoadOrStore(dir, sync.OnceValues(func() ([]byte, error) { return goBuild(dir) }))
	wasm, err := build.(func() ([]byte, error))()
	if err != nil {
		t.Fatalf("build guest %s: %v", dir, err)
	}
	return wasm
}

func goBuild(dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "guest.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-buildmode=c-shared", "-o", out, "./"+dir)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, &buildError{err, stderr.String()}
	}
	return os.ReadFile(out)
}

type buildError struct {
	err    error
	stderr string
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.stderr }

// newRuntime returns a runtime that is closed with the test, with the tests' cache.
func newRuntime(t testing.TB, opts *plugin.Options) *plugin.Runtime {
	t.Helper()
	cached := plugin.Options{}
	if opts != nil {
		cached = *opts
	}
	if cached.CacheDir == "" && cached.Compiler == nil {
		cached.CacheDir = plugin.TestCacheDir()
	}
	if cached.Store == nil {
		cached.Store = newStore()
	}
	rt, err := plugin.NewRuntime(context.Background(), &cached)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("close runtime: %v", err)
		}
	})
	return rt
}

func load(t testing.TB, rt *plugin.Runtime, id string, wasm []byte, opts *plugin.LoadOptions) *plugin.Plugin {
	t.Helper()
	p, err := rt.Load(context.Background(), id, wasm, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
