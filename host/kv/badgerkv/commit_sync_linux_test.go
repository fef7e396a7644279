package badgerkv

// A killed process loses nothing even if nothing was ever synced: the system
// keeps what it wrote. So that a sync comes before each acknowledgement is
// tested by asking the system which pages of the log are not yet on the device.

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdir"
)

func TestACommitIsSynced(t *testing.T) {
	if !unsyncedIsSeen(t) {
		t.Skip("the file system of /var/tmp does not tell what is not synced (tmpfs does not)")
	}
	for name, opts := range map[string]*Options{"plain": nil, "encrypted": {Key: make([]byte, 32)}} {
		t.Run(name, func(t *testing.T) { checkSynced(t, opts) })
	}
}

func checkSynced(t *testing.T, opts *Options) {
	t.Helper()
	dir := testdir.OnDisk(t)
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	// More than one memtable's worth, so that logs are changed on the way.
	value := make([]byte, kv.MaxValueBytes)
	for i := range uint64(3 * memTableSize / 2 / kv.MaxValueBytes) {
		small := kv.Put(kv.NewKey("small").WithUint(i), []byte("v"))
		large := kv.Put(kv.NewKey("large").WithUint(i), value)
		for _, w := range []kv.Write{small, large} {
			if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{w}}); err != nil {
				t.Fatal(err)
			}
			if n := unsyncedKB(t, dir); n != 0 {
				t.Fatalf("after commit %d, %d kB of the log are not synced", i, n)
			}
		}
	}
}

// unsyncedIsSeen reports whether unsyncedKB sees what a Badger without
// SyncWrites leaves: if not, nothing can be concluded from its silence.
func unsyncedIsSeen(t *testing.T) bool {
	t.Helper()
	dir := testdir.OnDisk(t)
	db, err := badger.Open(badgerOptions(dir, nil).WithSyncWrites(false))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("k"), make([]byte, 64<<10)) })
	if err != nil {
		t.Fatal(err)
	}
	return unsyncedKB(t, dir) > 0
}

// unsyncedKB is how much of the memory maps of logs in dir is dirty.
func unsyncedKB(t *testing.T, dir string) (total int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("wants /proc/self/smaps: %v", err)
	}
	defer f.Close()
	inLog := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasSuffix(fields[0], ":") {
			path := fields[len(fields)-1]
			inLog = filepath.Dir(path) == dir && strings.HasSuffix(path, ".mem")
		}
		if !inLog || !strings.Contains(line, "_Dirty:") {
			continue
		}
		var kind string
		var kb int
		if _, err := fmt.Sscanf(line, "%s %d kB", &kind, &kb); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		total += kb
	}
	return total
}
