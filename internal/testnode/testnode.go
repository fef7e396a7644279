// Package testnode installs programs of Node.js for tests, at the versions that a lock
// file names, once for each content of its directory.
package testnode

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/agenthost/agenthost/internal/longtest"
)

// Install returns a copy of a directory with a package.json and its lock file, which has
// the packages. Files that are named as programs are in the copy, and changing one installs
// nothing; packages that an author has installed there are not used. It skips the test on a machine without Node.js or without the packages.
func Install(t testing.TB, source string, programs ...string) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: run .ci/toolchains.sh", program)
		}
	}
	files := filesOf(t, source)
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		delete(files, program)
	}
	if err := os.Symlink(packages(t, source, files), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// packages returns the directory of the installed packages, in the user's cache.
func packages(t testing.TB, source string, files fstest.MapFS) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "agenthost-test", "node-"+digestOf(files))
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
	if err := os.CopyFS(made, files); err != nil {
		t.Fatal(err)
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

// Build runs programs of Node.js in a directory of [Install], one after the other, and fails
// the test if one fails. The directory made, which they write there, is kept for each content
// of the others and copied from where it is kept to the directories of later tests. With
// AGENTHOST_TEST_LONG=1 the programs run each time.
func Build(t testing.TB, dir, made string, commands ...[]string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, dir)
	files["commands"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%q", commands)}
	kept := filepath.Join(cache, "agenthost-test", "built-"+digestOf(files))
	if !longtest.Enabled() && os.CopyFS(filepath.Join(dir, made), os.DirFS(kept)) == nil {
		return
	}
	for _, args := range commands {
		cmd := exec.CommandContext(t.Context(), "node", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("node %q: %v\n%s", args, err, out)
		}
	}
	if err := keep(filepath.Join(dir, made), kept); err != nil {
		t.Logf("the next test builds it again: %v", err)
	}
}

// keep copies a directory to a name that is there as a whole or not at all.
func keep(dir, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	copied, err := os.MkdirTemp(filepath.Dir(name), "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		return err
	}
	if err := os.Rename(copied, name); err != nil {
		if _, err := os.Stat(name); err != nil { // another test has not been faster
			return err
		}
	}
	return nil
}

// filesOf returns the files of a directory but its packages.
func filesOf(t testing.TB, source string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(source), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() || d.Name() == "node_modules": // a link, in a copy
			return nil
		}
		content, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(name)))
		files[name] = &fstest.MapFile{Data: content, Mode: 0o600}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// digestOf returns the digest of the names and contents of files.
func digestOf(files fstest.MapFS) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %d\n%s", name, len(files[name].Data), files[name].Data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}
