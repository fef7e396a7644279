package badgerkv

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// The inventory of a store is a file beside Badger's files, which describes them as of
// its writing: at a clean close, when the store opens, and within inventoryInterval of
// a change of the MANIFEST. Badger replays a MANIFEST as far as it can be read and
// deletes the tables that it does not name; without the inventory, a MANIFEST that was
// cut short opens as a smaller or an empty store.
const (
	inventoryFile    = "INVENTORY"
	inventoryVersion = 1
	inventoryTemp    = inventoryFile + ".tmp*"
	// inventoryInterval is how often a store that is open looks whether its
	// MANIFEST has changed.
	inventoryInterval = time.Second
	// maxInventoryBytes has room for some 100,000 tables, of 64 MB each.
	maxInventoryBytes = 16 << 20
)

// inventory is the content of the file.
type inventory struct {
	Version int `json:"version"`
	// Clean is set by a close that ended well, and not while the store is open.
	Clean    bool       `json:"clean"`
	Manifest logPrefix  `json:"manifest"`
	Registry logPrefix  `json:"registry"`
	Tables   []fileMark `json:"tables"` // named by the MANIFEST
	// Created is how many tables the MANIFEST has ever named.
	Created int       `json:"created"`
	Logs    []logMark `json:"logs"` // of memtables, the oldest first
}

// logPrefix describes the beginning of a file that only grows: the whole file at the
// time of measuring. A file that was replaced since begins with other bytes.
type logPrefix struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// First is the digest of the first FirstBytes bytes, which differs in a replaced
	// file, but not in one that was cut.
	FirstBytes int64  `json:"first_bytes"`
	First      string `json:"first"`
}

// fileMark detects that a file was changed.
type fileMark struct {
	Name     string `json:"name"`
	Bytes    int64  `json:"bytes"`
	Modified int64  `json:"modified"` // in nanoseconds since 1970
}

// logMark is the mark of the log of a memtable.
type logMark struct {
	fileMark
	Used bool `json:"used"` // Badger makes a table of the log before it removes the log
	// Empty is set if the log had no whole commit when a process began to open the store.
	// Badger writes only to logs that it makes itself, and removes this one.
	Empty bool `json:"empty,omitempty"`
}

// readInventory returns the inventory of the store in dir, or nil if it is missing, as
// in a store of an earlier version, or damaged, in which case nothing can be concluded.
func readInventory(dir string) (*inventory, error) {
	f, err := os.Open(filepath.Join(dir, inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInventoryBytes))
	if err != nil {
		return nil, fileError(err)
	}
	sum, body, ok := bytes.Cut(b, []byte("\n"))
	var inv inventory
	if !ok || string(sum) != digest(body) || json.Unmarshal(body, &inv) != nil || inv.Version != inventoryVersion {
		return nil, nil
	}
	return &inv, nil
}

// write replaces the inventory of dir, whole or not at all.
func (inv *inventory) write(dir string) (err error) {
	body, err := json.Marshal(inv)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, inventoryTemp)
	if err != nil {
		return fileError(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, werr := f.Write(append([]byte(digest(body)+"\n"), body...))
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fileError(err)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, inventoryFile)); err != nil {
		return fileError(err)
	}
	return syncDir(dir)
}

// moment is when an inventory is taken.
type moment int

const (
	opening moment = iota // Badger has not opened the files, and may drop logs without a record
	open                  // Badger drops a full log once a table has its commits
	closing               // Badger makes a table of the memtable, and drops all logs; also before a prefix is dropped
	closed
)

// takeInventory measures the files of the store in dir. The store may be in use:
// its MANIFEST and key registry only grow, and both are measured once.
func takeInventory(dir string, at moment) (*inventory, error) {
	inv := &inventory{Version: inventoryVersion, Clean: at == closed}
	var err error
	if inv.Registry, err = measureLog(dir, badger.KeyRegistryFileName, registryStart); err != nil {
		return nil, err
	}
	manifest, err := inv.measureManifest(dir)
	if err != nil {
		return nil, err
	}
	for id := range manifest.Tables {
		if mark, ok := markOf(dir, tableName(id)); ok {
			inv.Tables = append(inv.Tables, mark)
		}
	}
	inv.Created = manifest.Creations
	if at == closing {
		return inv, nil
	}
	names := namesWith(dir, logExt)
	for i, name := range names {
		mark, ok := markOf(dir, name)
		if !ok {
			continue
		}
		used, err := logWillBeTable(dir, name, at, i == len(names)-1)
		if err != nil {
			return nil, err
		}
		inv.Logs = append(inv.Logs, logMark{fileMark: mark, Used: used, Empty: at != open && !used})
	}
	return inv, nil
}

// manifestTries is how often a MANIFEST that changes meanwhile is measured.
const manifestTries = 10

// measureManifest measures the MANIFEST and replays what it has measured: a record
// that Badger appends between the two is not on the disk yet, and a table that it
// names may be gone after a crash.
func (inv *inventory) measureManifest(dir string) (badger.Manifest, error) {
	for range manifestTries {
		var err error
		if inv.Manifest, err = measureLog(dir, badger.ManifestFilename, manifestStart); err != nil {
			return badger.Manifest{}, err
		}
		manifest, end, err := replayManifest(dir)
		if err != nil || end == inv.Manifest.Bytes {
			return manifest, err
		}
	}
	return badger.Manifest{}, errors.New("the MANIFEST changes faster than it can be read")
}

// logWillBeTable reports whether the MANIFEST will name one more table when a log is
// gone. In an open store only the current log's table is sure to be new: the MANIFEST
// may already name the tables of older logs, which are not yet removed.
func logWillBeTable(dir, name string, at moment, newest bool) (bool, error) {
	if at == open {
		return newest, nil
	}
	return logUsed(filepath.Join(dir, name))
}

// removeInventoryTemps removes the temporary files of processes that were killed while
// they wrote the inventory.
func removeInventoryTemps(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, inventoryTemp))
	for _, path := range left {
		err = errors.Join(err, fileError(os.Remove(path)))
	}
	return err
}

// markOf returns the mark of a file that exists.
func markOf(dir, name string) (fileMark, bool) {
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil || !info.Mode().IsRegular() {
		return fileMark{}, false
	}
	return fileMark{Name: name, Bytes: info.Size(), Modified: info.ModTime().UnixNano()}, true
}

// measureLog returns the prefix of a file that a crash cannot take back: whole
// records, which are synced before they are counted. Next returns the length of the
// first record of its argument, 0 if it has no whole record; no later write changes the
// first record of the file.
func measureLog(dir, name string, next func([]byte) int) (logPrefix, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return logPrefix{}, nil
	}
	if err != nil {
		return logPrefix{}, fileError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Sync()); err != nil {
		return logPrefix{}, fileError(err)
	}
	first := next(b)
	end := first
	for n := first; n > 0; end += n {
		n = recordLength(b[end:])
	}
	return logPrefix{Bytes: int64(end), SHA256: digest(b[:end]), FirstBytes: int64(first), First: digest(b[:first])}, nil
}

// recordLength returns the length of a record of a MANIFEST or a key registry, which
// begins with the length of its content and a checksum. It is 0 if b does not hold the
// whole record.
func recordLength(b []byte) int {
	if len(b) < recordHeader {
		return 0
	}
	n := int64(binary.BigEndian.Uint32(b)) + recordHeader
	if n > int64(len(b)) {
		return 0
	}
	return int(n)
}

// check compares the file with its prefix. A replaced file has another first part;
// check judges it only after a clean close.
func (p logPrefix) check(dir, name string, clean bool) (rewritten bool, err error) {
	if p.Bytes == 0 {
		return false, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, damaged(name, "it is missing")
	}
	if err != nil {
		return false, fileError(err)
	}
	rewritten = int64(len(b)) >= p.FirstBytes && digest(b[:p.FirstBytes]) != p.First
	switch {
	case clean && (int64(len(b)) != p.Bytes || digest(b) != p.SHA256):
		return false, damaged(name, "it is not as the last close left it")
	case rewritten:
		return true, nil
	case int64(len(b)) < p.Bytes:
		return false, damaged(name, fmt.Sprintf("it has %d bytes and had %d", len(b), p.Bytes))
	case digest(b[:p.Bytes]) != p.SHA256:
		return false, damaged(name, "it has changed where it only grows")
	}
	return false, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// damaged is the error for a file of a store that cannot be right.
func damaged(name, why string) error {
	return fmt.Errorf("%w: file %s: %s; nothing was changed: restore a backup into a new directory", kv.ErrCorrupt, name, why)
}

// keepInventory writes the inventory whenever the MANIFEST has changed, until stop is
// closed. It repeats a failed write at the next interval.
func (e *engine) keepInventory(stop <-chan struct{}, last fileMark) {
	ticker := time.NewTicker(inventoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		now, ok := markOf(e.dir, badger.ManifestFilename)
		if !ok || now == last {
			continue
		}
		if e.describeOpen() {
			last = now
		}
	}
}

// describeOpen writes the inventory of the open store, and reports whether it could.
func (e *engine) describeOpen() bool {
	e.describing.Lock()
	defer e.describing.Unlock()
	return e.writeOpenInventory()
}

// writeOpenInventory is describeOpen by a caller that holds e.describing.
func (e *engine) writeOpenInventory() bool {
	err := writeInventory(e.dir, open)
	if err != nil {
		e.logger.Warn("write the inventory of the store", "error", err)
	}
	return err == nil
}

// writeInventory writes the inventory of the store in dir at a moment of its life.
func writeInventory(dir string, at moment) error {
	inv, err := takeInventory(dir, at)
	if err != nil {
		return err
	}
	return inv.write(dir)
}

// writeClosedInventory writes the inventory of a closed store. It leaves the inventory to
// the process that has opened the store since.
func writeClosedInventory(dir string) error {
	unlock, ok := lockDir(dir)
	if ok {
		defer unlock()
	} else if dirsHaveLocks {
		return nil
	}
	return writeInventory(dir, closed)
}
