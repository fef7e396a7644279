package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// A store that is a link to another disk is copied, and links in it are not left out
// silently: the copy would be an empty store, or one that misses something.
func TestTheCopyOfAStoreFollowsItsLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), StorePath(dir)
	if err := os.MkdirAll(filepath.Join(real, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "blobs", "a"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	n, err := copyStore(t.Context(), filepath.Join(dir, "copy"), link)
	got, readErr := os.ReadFile(filepath.Join(dir, "copy", "blobs", "a"))
	if err != nil || n != int64(len(got)) || string(got) != "content" {
		t.Errorf("copied are %d bytes, %q, %v, %v", n, got, err, readErr)
	}
	if err := os.Symlink(filepath.Join(real, "blobs", "a"), filepath.Join(real, "blobs", "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := copyStore(t.Context(), filepath.Join(dir, "another"), link); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("a store with a link in it: %v, want code failed_precondition", err)
	}
}

// A store that is too large for a copy is refused before anything is copied.
func TestACopyThatHasNoRoomIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	d, err := Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(StorePath(dir), "000009.sst"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	notify := func(int64) { t.Error("the store was copied") }
	_, err = OpenCopy(t.Context(), dir, &Options{MaxCopyBytes: 2 << 20}, notify)
	wantRefusal(t, err, "4 MiB", "2 MiB", "MaxCopyBytes", "name the copy with --data")
	size, err := storedBytes(StorePath(dir))
	if err != nil || size < 3<<20 || size > 32<<20 {
		t.Errorf("the store has %d bytes, %v, want those of its files without the holes", size, err)
	}
	wantRefusal(t, checkRoom(dir, "/tmp", size, 100<<20, true), "/tmp has 100 MiB free", "MiB", "TMPDIR")
	for name, err := range map[string]error{"enough": checkRoom(dir, "/tmp", size, 1<<30, true), "unknown": checkRoom(dir, "/tmp", size, 0, false)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("the temporary directory has %v, %v", left, err)
	}
}

func wantRefusal(t *testing.T, err error, texts ...string) {
	t.Helper()
	e := fault.AsError(err)
	for _, text := range texts {
		if e == nil || e.Code != host.ResourceExhausted || !strings.Contains(e.Message+" "+e.Hint, text) {
			t.Errorf("%v, want code resource_exhausted with %q", err, text)
		}
	}
}
