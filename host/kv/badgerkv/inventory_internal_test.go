package badgerkv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/longtest"
)

// appendRecord appends a record of a log that is not encrypted.
func appendRecord(b []byte, flags byte, key, value string) []byte {
	begin := len(b)
	b = append(b, flags, 0)
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = binary.AppendUvarint(b, uint64(len(value)))
	b = append(binary.AppendUvarint(b, 0), key+value...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli))
}

func appendCommitEnd(b []byte, revision string) []byte {
	return appendRecord(b, recordEndsCommit, "!badger!txn12345678", revision)
}

// allocated is a log with the zeros that it ends with while it is written.
func allocated(b []byte) []byte { return append(b, make([]byte, logAllocation-len(b))...) }

// A log with no whole commit Badger removes as it opens, without a table.
func TestLogWithoutAWholeCommitIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00007.mem")
	begun := appendRecord(make([]byte, logHeaderBytes), recordOfCommit, "key", "value")
	long := appendRecord(bytes.Clone(begun), recordOfCommit, "key", strings.Repeat("v", 20*logBeginning))
	for _, c := range []struct {
		what string
		log  []byte
		used bool
	}{
		{"empty", make([]byte, logHeaderBytes), false},
		{"begun", begun, false},
		{"whole", appendCommitEnd(bytes.Clone(begun), "5"), true},
		{"begun and long", long, false},
		{"whole and long", appendCommitEnd(bytes.Clone(long), "5"), true},
	} {
		if err := os.WriteFile(path, allocated(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := logUsed(path); err != nil || got != c.used {
			t.Errorf("%s: used = %t, %v", c.what, got, err)
		}
	}
	inv := &inventory{Logs: []logMark{{fileMark: fileMark{Name: "00006.mem"}, Used: true}, {fileMark: fileMark{Name: "00007.mem"}}}}
	if err := checkNewestLog([]string{"00006.mem"}, inv); err != nil {
		t.Errorf("the log without a commit is gone: %v", err)
	}
	if err := checkNewestLog(nil, inv); err == nil {
		t.Error("the log with a commit is gone, and that is no damage")
	}
}

// A process that is killed while it removes a log leaves it without a size: one of which a
// table was made, mostly the oldest; readers may delay the removal of those before it.
func TestALogBeingRemovedIsNoDamage(t *testing.T) {
	whole := allocated(appendCommitEnd(appendRecord(make([]byte, logHeaderBytes), recordOfCommit, "key", "value"), "5"))
	inv := &inventory{}
	for _, name := range []string{"00001.mem", "00002.mem", "00003.mem"} {
		inv.Logs = append(inv.Logs, logMark{fileMark: fileMark{Name: name, Bytes: int64(len(whole))}, Used: true})
	}
	cases := []struct {
		what    string
		removed []int
		made    int // tables
		damage  bool
	}{
		{"none", nil, 0, false},
		{"the oldest", []int{0}, 1, false},
		{"the oldest, whose table is not there,", []int{0}, 0, true},
		{"the two oldest", []int{0, 1}, 2, false},
		{"one in the middle", []int{1}, 2, false},
		{"one in the middle, whose table is not there,", []int{1}, 0, true},
		{"the newest", []int{2}, 3, true},
		{"all", []int{0, 1, 2}, 3, true},
	}
	for _, c := range cases[:longtest.Alone(3, len(cases))] {
		dir := t.TempDir()
		for i, l := range inv.Logs {
			content := whole
			if slices.Contains(c.removed, i) {
				content = nil
			}
			if err := os.WriteFile(filepath.Join(dir, l.Name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := checkLogs(dir, inv, &badger.KeyRegistry{})
		if err == nil {
			err = checkFlushed(dir, inv, inv.Created+c.made)
		}
		if (err != nil) != c.damage {
			t.Errorf("%s without a size: %v", c.what, err)
		}
	}
}

// When a store opens, Badger removes a log without a whole commit before it makes
// another: it cuts the log to its header, then to nothing, and removes the name. A process
// may be killed before and after each, also one that was killed in the middle of making
// the log.
func TestAKillWhileALogIsMadeOrRemovedIsNoDamage(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	s, err := Open(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("key", []byte("value"))}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	header := append(make([]byte, logVectorAt), "twelve bytes"...)
	begun := appendRecord(header, recordOfCommit, "key", "value")
	whole := appendCommitEnd(bytes.Clone(begun), "5")
	const name = "00001.mem"
	steps := []struct {
		what  string
		apply func(path string) error
	}{
		{"killed before its removal", func(string) error { return nil }},
		{"cut to its header", func(path string) error { return os.Truncate(path, logHeaderBytes) }},
		{"cut off", func(path string) error { return os.Truncate(path, 0) }},
		{"removed", os.Remove},
	}
	try := func(written []byte, size int64, apply func(path string) error) error {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, written, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		if err := prepareFiles(dir, &Options{}, s.engine.logger); err != nil {
			t.Fatalf("%d bytes written: %v", len(written), err)
		}
		if err := apply(path); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, &Options{PurgeInterval: -1})
		if err != nil {
			return err
		}
		_, err = s.Get(t.Context(), "acme", "key")
		return errors.Join(err, s.Close())
	}
	written := []int{len(begun), 0, 1, logVectorAt, len(header), len(whole) - 1} // bytes, before the log has a whole commit
	if longtest.Enabled() {
		written = written[:0]
		for n := range whole {
			written = append(written, n)
		}
	}
	for _, n := range written[:longtest.Alone(1, len(written))] {
		for _, step := range steps {
			if err := try(whole[:n], logAllocation, step.apply); err != nil {
				t.Errorf("%d bytes written, %s: %v", n, step.what, err)
			}
		}
	}
	if err := try(nil, 0, func(string) error { return nil }); err != nil {
		t.Errorf("created: %v", err)
	}
	for _, step := range steps[1:] {
		if err := try(whole, logAllocation, step.apply); step.what != "cut to its header" && !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("with a commit, %s: %v, want kv.ErrCorrupt", step.what, err)
		}
	}
}

// A value may hold what looks like the ends of commits. A process that is killed
// while it writes the commit leaves no damage.
func TestValueLikeCommitsIsNoDamage(t *testing.T) {
	hostile := string(appendCommitEnd(appendCommitEnd(nil, "8"), "9")) + strings.Repeat("v", 100)
	log := appendRecord(make([]byte, logHeaderBytes), recordOfCommit, "key", "value")
	log = appendCommitEnd(log, "5")
	whole := len(log)
	log = appendRecord(log, recordOfCommit, "key", hostile)
	n := len(log) - whole
	ends := []int{n - 1, n, 0, 1, 7, n / 3, n / 2, n - 5, n - 4, n - 3, n - 2}
	for _, written := range ends[:longtest.Alone(2, len(ends))] {
		if err := checkLog(allocated(bytes.Clone(log[:whole+written])), nil); err != nil {
			t.Fatalf("killed after %d of %d bytes: %v", written, n, err)
		}
	}
	log[whole+8] ^= 1
	log = appendCommitEnd(log, "6")
	for _, revision := range []string{"7", "8"} {
		log = appendCommitEnd(appendRecord(log, recordOfCommit, "key", "value"), revision)
	}
	if err := checkLog(allocated(log), nil); err == nil {
		t.Error("a record is damaged and commits follow it, and no error")
	}
}

// An inventory counts no table that is named behind what it has measured, which
// may not be on the disk yet.
func TestInventoryCountsWhatIsSynced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, badger.ManifestFilename)
	content := append([]byte("Bdgr\x00\x00\x00\x08"), make([]byte, recordHeader)...)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	const tables, tableBytes = 100, recordHeader + 4
	var written sync.WaitGroup
	written.Go(func() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for id := range byte(tables) {
			change := []byte{0x0a, 2, 0x08, id + 1}
			b := binary.BigEndian.AppendUint32(nil, uint32(len(change)))
			b = binary.BigEndian.AppendUint32(b, crc32.Checksum(change, castagnoli))
			if _, err := f.Write(append(b, change...)); err != nil {
				t.Error(err)
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		}
	})
	for created := 0; created < tables; {
		inv, err := takeInventory(dir, open)
		if err != nil {
			continue // it was written too fast
		}
		if created = inv.Created; inv.Manifest.Bytes != int64(len(content)+created*tableBytes) {
			t.Errorf("%d bytes, and %d tables", inv.Manifest.Bytes, created)
			break
		}
	}
	written.Wait()
}

// A store that is closed because it could not be opened to the end has made tables
// of its logs.
func TestStoreThatIsClosedWhileItOpensIsWhole(t *testing.T) {
	s, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := kv.Apply(context.Background(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("key", []byte("value"))}}); err != nil {
		t.Fatal(err)
	}
	killed := &Store{engine: &engine{dir: filepath.Join(t.TempDir(), "killed"), logger: s.engine.logger}, merger: &tableMerger{}}
	if err := os.CopyFS(killed.engine.dir, os.DirFS(s.engine.dir)); err != nil {
		t.Fatal(err)
	}
	if err := prepareFiles(killed.engine.dir, &Options{}, s.engine.logger); err != nil {
		t.Fatal(err)
	}
	if killed.engine.db, err = badger.Open(killed.badgerOptions()); err != nil {
		t.Fatal(err)
	}
	if err := killed.closeFiles(); err != nil {
		t.Fatal(err)
	}
	if _, err := examine(killed.engine.dir, nil, true); err != nil {
		t.Error(err)
	}
}
