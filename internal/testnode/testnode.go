// Package testnode installs programs of Node.js for tests, at the versions that a lock
// file names, once for each lock file.
package testnode

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	manifest = "package.json"
	lock     = "package-lock.json"
)

// Install returns a copy of a directory with a package.json and its lock file, which has
// the packages. It skips the test on a machine without Node.js or without the packages.
func Install(t testing.TB, source string) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: run .ci/toolchains.sh", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages(t, source), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// packages returns the directory of the installed packages, in the user's cache.
func packages(t testing.TB, source string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	files, h := map[string][]byte{}, sha256.New()
	for _, name := range []string{manifest, lock} {
		if files[name], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(files[name]), files[name])
	}
	dir := filepath.Join(cache, "agenthost-test", fmt.Sprintf("node-%x", h.Sum(nil)[:8]))
	installed := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(dir); err == nil {
		return installed
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(made)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(made, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = made
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("needs the packages of %s, which npm cannot install: %v\n%s", source, err, out)
	}
	if err := os.Rename(made, dir); err != nil {
		if _, err := os.Stat(dir); err != nil { // another test has not been faster
			t.Fatal(err)
		}
	}
	return installed
}
