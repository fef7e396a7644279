package badgerkv_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// A device with room for commits and not for merging tables: an erasure is refused
// before it merges anything, the partition stays out of sight, others write on, and the
// erasure ends when there is room.
func eraseWaitsForRoom(t *testing.T) {
	s, dir := openOnFullDevice(t, "erase")
	mustPutIn(t, s, "leaves", "k", "MARKER-0001-OF-THE-TENANT-THAT-LEAVES")
	mustPutIn(t, s, "stays", "k", "v")
	remove := ballast(t, 64<<20)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"Erase": s.Erase(t.Context(), "leaves"), "Purge": s.Purge(t.Context())} {
		if !errors.Is(err, kv.ErrNoSpace) {
			t.Errorf("%s without room for merging = %v, want ErrNoSpace", what, err)
		}
	}
	if now, err := filepath.Glob(filepath.Join(dir, "*.sst")); err != nil || len(now) != len(tables) {
		t.Errorf("there are tables %q, before %q: a merge began without room", now, tables)
	}
	if _, err := s.Get(t.Context(), "leaves", "k"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get in the partition that is being erased = %v", err)
	}
	if begun, err := s.Erasing(t.Context()); err != nil || len(begun) != 1 {
		t.Errorf("Erasing = %q, %v", begun, err)
	}
	mustPutIn(t, s, "stays", "l", "w")
	remove()
	if err := s.Erase(t.Context(), "leaves"); err != nil {
		t.Fatalf("Erase with room = %v", err)
	}
	if p, err := s.Prove(t.Context(), "leaves"); err != nil || !p.Gone() {
		t.Errorf("Prove = %+v, %v", p, err)
	}
	if n := countMarkers(t, dir); n != 0 {
		t.Errorf("%d markers are in the files", n)
	}
}

// openOnFullDevice opens a store in a directory of the device that tests fill up, and
// removes it at the end of the test.
func openOnFullDevice(t *testing.T, name string) (s *badgerkv.Store, dir string) {
	t.Helper()
	dir = filepath.Join(os.Getenv(fullDevice), name)
	s, err := badgerkv.Open(dir, &badgerkv.Options{MinFree: 1 << 20, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}
