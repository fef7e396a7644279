// Package testcode builds the tests' plugins in Go, and names the directory in which tests
// keep compiled plugins, so that a plugin is compiled once for all packages and all of their
// runs.
package testcode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Dir returns a directory in the user's cache for [plugin.Options].CacheDir, "" if there
// can be none: each test then compiles for itself. An entry has the digest of the module
// and the version of the engine in its key, and any number of processes may use the
// directory at once. A test of compiling needs a directory of its own.
//
// [plugin.Options]: https://pkg.go.dev/github.com/agenthost/agenthost/host/plugin#Options
var Dir = sync.OnceValue(func() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "agenthost-test", "wasm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	return dir
})

// Project returns a directory for AGENTHOST_CACHE that is removed with the test, in which
// compiled plugins are those of [Dir]; sockets and built sources are the test's own.
func Project(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if shared := Dir(); shared != "" {
		if err := os.Symlink(shared, filepath.Join(dir, "wasm")); err != nil {
			t.Logf("plugins are compiled for this test alone: %v", err)
		}
	}
	return dir
}

// builds has the plugins that this test program has built, by their directories.
var builds sync.Map // of string to func() ([]byte, error)

// Build returns the plugin in Go whose source is in a directory, "./" or "../" below that of
// the test. It is built once for the test program, and from one source always to the same
// bytes, of which [Dir] may have the code. It skips the test on a machine without the go
// command.
func Build(t testing.TB, source string) []byte {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build a plugin")
	}
	build, _ := builds.LoadOrStore(source, sync.OnceValues(func() ([]byte, error) { return build(source) }))
	wasm, err := build.(func() ([]byte, error))()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func build(source string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-buildmode=c-shared", "-o", out, source)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build plugin %s: %w\n%s", source, err, text)
	}
	return os.ReadFile(out)
}
