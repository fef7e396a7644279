package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host"
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
