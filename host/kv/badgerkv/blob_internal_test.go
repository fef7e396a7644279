package badgerkv

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// A killed process keeps what the system has in its cache, so only the order of calls
// tells that a large value is on the device before an entry refers to it.
func TestALargeValueIsSyncedBeforeItsCommit(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var mu sync.Mutex
	var synced []string
	note := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		synced = append(synced, name)
	}
	s.blobs.syncFile = func(f *os.File) error { note("file"); return f.Sync() }
	s.blobs.syncDir = func(dir string) error { note(dir); return syncDir(dir) }
	var before []string
	s.engine.commit = func(txn *badger.Txn) error {
		mu.Lock()
		before = slices.Clone(synced)
		mu.Unlock()
		return txn.Commit()
	}
	put := func(key kv.Key) {
		t.Helper()
		synced = nil
		if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(key, make([]byte, blobBytes))}}); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	files, err := listBlobs(s.blobs.partitionDir("acme"))
	if err != nil || len(files) != 1 {
		t.Fatalf("there are files %q, %v", files, err)
	}
	want := []string{"file"}
	for at := filepath.Dir(files[0]); at != filepath.Dir(dir); at = filepath.Dir(at) {
		want = append(want, at)
	}
	for _, name := range want {
		if !slices.Contains(before, name) {
			t.Errorf("%s is not synced before the commit; synced are %q", name, before)
		}
	}
	// The commit that wrote the file may have failed before it was synced.
	put("b")
	if !slices.Contains(before, "file") || !slices.Contains(before, filepath.Dir(files[0])) {
		t.Errorf("a file that was there is not synced before the commit; synced are %q", before)
	}
}
