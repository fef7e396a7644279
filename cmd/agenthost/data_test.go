package main

// Scenario: a user may not write to the data directory, or not even make it.

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/testuser"
)

func TestUnwritableDataDirectory(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"cannot be made":       func(dir string) error { return os.Mkdir(filepath.Dir(dir), 0o500) },
		"cannot be written to": func(dir string) error { return os.MkdirAll(datadir.StorePath(dir), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			testuser.Unprivileged(t)
			dir := filepath.Join(openTempDir(t), "locked", "data")
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			_ = os.Chmod(datadir.StorePath(dir), 0o500) // where it was made
			driver, err := datadir.Open(t.Context(), dir, &datadir.Options{Getenv: func(string) string { return "" }})
			if err == nil {
				t.Fatal("Open succeeded", driver.Close())
			}
			var stderr strings.Builder
			if code := cli.Exit(&stderr, err, false); code != 3 {
				t.Errorf("exit code is %d, want 3", code)
			}
			for _, want := range []string{"data directory " + dir + ": ", "→ make it writable for this user, or name another --data"} {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("printed %q, want %q", &stderr, want)
				}
			}
		})
	}
}

// What can only be read can be listed, shown, exported, verified and backed up, and
// is as it was.
func TestADirectoryThatCanOnlyBeRead(t *testing.T) {
	dir := filepath.Join(openTempDir(t), "data")
	getenv := func(string) string { return "" }
	s, err := datadir.Open(t.Context(), dir, &datadir.Options{Getenv: getenv})
	if err != nil {
		t.Fatal(err)
	}
	importGreeting(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := func(mode func(fs.DirEntry) fs.FileMode) {
		t.Helper()
		if err := filepath.WalkDir(filepath.Dir(dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chmod(name, mode(d))
		}); err != nil {
			t.Fatal(err)
		}
	}
	all(func(d fs.DirEntry) fs.FileMode {
		if d.IsDir() {
			return 0o555
		}
		return 0o444
	})
	before := filesOf(t, dir)
	tmp := openTempDir(t)
	_ = os.Chmod(tmp, 0o777)
	t.Setenv("TMPDIR", tmp)
	testuser.Unprivileged(t)
	for want, args := range map[string][]string{
		"t1 ":                          {"thread", "list"},
		"hello":                        {"thread", "show", "t1"},
		`"content":"hello"`:            {"thread", "export", "t1", "--format", "openai"},
		"(now)":                        {"thread", "branches", "t1"},
		"All of it is what was stored": {"data", "verify"},
		"No run of tenant":             {"thread", "runs"},
		"Wrote ":                       {"data", "backup", filepath.Join(tmp, "b")},
	} {
		var out, errs output
		code := run(t.Context(), append(args, "--data", dir), &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: getenv})
		if code != 0 || !strings.Contains(out.String(), want) || !strings.Contains(errs.String(), "can only be read: this reads a copy of") {
			t.Errorf("%q: exit code %d,\n%s%s\nwant %q", args, code, &out, &errs, want)
		}
	}
	var errs output
	if code := run(t.Context(), []string{"thread", "delete", "t1", "--data", dir}, &environment{stdout: io.Discard, stderr: &errs, getenv: getenv}); code != 3 || !strings.Contains(errs.String(), "make it writable") {
		t.Errorf("thread delete: exit code %d, %s", code, &errs)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "agenthost-read*")); err != nil || len(left) > 0 {
		t.Errorf("copies are left behind: %v, %v", left, err)
	}
	if after := filesOf(t, dir); after != before {
		t.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
}

// filesOf lists the files of a directory with their sizes.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintln(&b, name, info.Size(), info.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// openTempDir is t.TempDir for a user that may not enter that.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agenthost-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error { return os.Chmod(name, 0o700) })
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// importGreeting stores a conversation of two messages as the thread t1.
func importGreeting(t *testing.T, d *datadir.Dir) {
	t.Helper()
	text := []byte(`[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]`)
	src, err := transfer.NewSource(transfer.FormatOpenAI, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Import(t.Context(), threads.New(d.Driver, nil).For(""), src, &transfer.ImportOptions{Thread: "t1"}); err != nil {
		t.Fatal(err)
	}
}
