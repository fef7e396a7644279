package main

import (
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnwritableDataDirectory(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"cannot be made":       func(dir string) error { return os.Mkdir(filepath.Dir(dir), 0o500) },
		"cannot be written to": func(dir string) error { return os.MkdirAll(filepath.Join(dir, storeName), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			asNobody(t)
			dir := filepath.Join(openTempDir(t), "locked", "data")
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			_ = os.Chmod(filepath.Join(dir, storeName), 0o500) // where it was made
			env := &environment{getenv: func(string) string { return "" }}
			driver, err := env.openStore(dir, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal("openStore succeeded", driver.Close())
			}
			var stderr strings.Builder
			if code := exit(&environment{stdout: io.Discard, stderr: &stderr}, err, false); code != 3 {
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
