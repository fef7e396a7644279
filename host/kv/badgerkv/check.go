package badgerkv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

const (
	tableExt    = ".sst"
	logExt      = ".mem"
	valueLogExt = ".vlog"
	// LostDir is the directory, inside that of a store, for tables that the MANIFEST
	// does not name. A process that is killed while Badger merges tables leaves some,
	// and other tables hold all of their entries; after damage they may be the only
	// copy. [Open] moves them and never deletes them; [Store.Erase] removes those that
	// may hold entries of the erased partition.
	LostDir = "lost"

	manifestHeader  = 8       // magic text and versions
	recordHeader    = 8       // length and checksum, in the MANIFEST and the key registry
	maxDataKeyBytes = 4 << 10 // one record of the key registry
)

// Check reads the files of the store in dir without opening it, and changes
// nothing. Badger, in goroutines of its own, ends the process when it meets some kinds
// of damage; Check reports these first. It reads all tables, and compares the MANIFEST
// and the key registry with the inventory that the last close, or the process that had
// the store open, wrote last. The store must not be open.
//
// Errors: [kv.ErrCorrupt], which names the file; [kv.ErrLocked]; [kv.ErrKey];
// [kv.ErrInvalid] if dir is not the directory of a store.
func Check(dir string, opts *Options) error {
	if opts == nil {
		opts = &Options{}
	}
	fail := func(err error) error { return fmt.Errorf("check store %q: %w", dir, err) }
	if b, err := readSmall(filepath.Join(dir, formatFile), maxFormatSize); err != nil {
		return fail(fmt.Errorf("%w: it is not the directory of a store", kv.ErrInvalid))
	} else if _, err := parseFormat(b); err != nil {
		return fail(err)
	}
	if err := checkKey(dir, opts.Key); err != nil {
		return fail(err)
	}
	if _, err := openKeyring(dir, opts.Key, true); err != nil {
		return fail(err)
	}
	unlock, ok := lockDir(dir)
	if !ok {
		return fail(lockedError(dir))
	}
	defer unlock()
	if _, err := examine(dir, opts.Key, true); err != nil {
		return fail(err)
	}
	return nil
}

// prepareFiles examines the files of the store before Badger opens them, moves tables
// that the MANIFEST does not name to [LostDir], and marks the store as open. If the
// directory cannot be locked, another process has it open, which Badger reports.
func prepareFiles(dir string, opts *Options, logger *slog.Logger) error {
	unlock, ok := lockDir(dir)
	if !ok {
		return nil
	}
	defer unlock()
	if err := removeInventoryTemps(dir); err != nil {
		return err
	}
	if unmadeStore(dir) {
		return nil
	}
	unnamed, err := examine(dir, opts.Key, opts.Verify)
	if err != nil {
		return err
	}
	for _, name := range unnamed {
		if err := moveToLost(dir, name); err != nil {
			return err
		}
		logger.Warn("a table that the store does not name was moved", "table", name, "to", LostDir)
	}
	return writeInventory(dir, opening)
}

// unmadeStore reports whether the directory has no inventory and none of the files that
// hold entries: the store is new, or its process was killed while it made the store.
func unmadeStore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, inventoryFile))
	return errors.Is(err, fs.ErrNotExist) && len(namesWith(dir, tableExt))+len(namesWith(dir, logExt)) == 0 &&
		manifestTables(dir) == 0
}

// manifestTables returns how many tables the MANIFEST names, -1 if it cannot be read.
func manifestTables(dir string) int {
	if _, ok := markOf(dir, badger.ManifestFilename); !ok {
		return 0
	}
	manifest, _, err := replayManifest(dir)
	if err != nil {
		return -1
	}
	return len(manifest.Tables)
}

// examine finds damage without changing anything, and returns the tables that the
// MANIFEST does not name. Whole reads every table; without it, examine skips the tables
// that are unchanged since a clean close.
func examine(dir string, key []byte, whole bool) (unnamed []string, err error) {
	inv, err := readInventory(dir)
	if err != nil {
		return nil, err
	}
	if inv == nil {
		inv = &inventory{}
	}
	rewritten, err := inv.Manifest.check(dir, badger.ManifestFilename, inv.Clean)
	if err != nil {
		return nil, err
	}
	if _, err := inv.Registry.check(dir, badger.KeyRegistryFileName, inv.Clean); err != nil {
		return nil, err
	}
	manifest, _, err := replayManifest(dir)
	if err != nil {
		return nil, err
	}
	keys, err := openKeys(dir, key)
	if err != nil {
		return nil, err
	}
	marks := make(map[string]fileMark, len(inv.Tables))
	for _, m := range inv.Tables {
		marks[m.Name] = m
	}
	named := make(map[string]bool, len(manifest.Tables))
	for id, t := range manifest.Tables {
		name := tableName(id)
		named[name] = true
		now, ok := markOf(dir, name)
		if !ok {
			return nil, damaged(name, "it is missing")
		}
		if inv.Clean && !whole && now == marks[name] {
			continue
		}
		if err := checkTable(filepath.Join(dir, name), t, keys); err != nil {
			return nil, damaged(name, err.Error())
		}
	}
	if err := checkLogs(dir, inv, keys); err != nil {
		return nil, err
	}
	if !rewritten {
		if err := checkFlushed(dir, inv, manifest.Creations); err != nil {
			return nil, err
		}
	}
	if err := checkValueLogs(dir, keys); err != nil {
		return nil, err
	}
	for _, name := range namesWith(dir, tableExt) {
		if !named[name] {
			unnamed = append(unnamed, name)
		}
	}
	// A process that ends while it writes the store's first table leaves a table that
	// the MANIFEST does not name; the inventory then has the MANIFEST, and no tables.
	if len(named) == 0 && len(unnamed) > 0 && (inv.Manifest.Bytes == 0 || len(inv.Tables) > 0) {
		return nil, damaged(badger.ManifestFilename, fmt.Sprintf("it names no table, and there is %s", unnamed[0]))
	}
	return unnamed, nil
}

// replayManifest reads the MANIFEST as Badger does, but refuses one without a readable
// change set: Badger writes the first change set together with the file. It also
// returns the end of the last whole record.
func replayManifest(dir string) (m badger.Manifest, end int64, err error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return m, 0, damaged(badger.ManifestFilename, "it is missing")
	}
	if err != nil {
		return m, 0, fileError(err)
	}
	defer f.Close()
	m, end, err = badger.ReplayManifestFile(f, 0, badgerOptions(dir, nil))
	if err != nil {
		return m, 0, damaged(badger.ManifestFilename, err.Error())
	}
	if end < manifestHeader+recordHeader {
		return m, 0, damaged(badger.ManifestFilename, "it is cut off before its first record")
	}
	return m, end, nil
}

// manifestStart returns the length of the header and the first change set.
func manifestStart(b []byte) int {
	if len(b) < manifestHeader {
		return len(b)
	}
	return manifestHeader + recordLength(b[manifestHeader:])
}

// registryStart returns the length of the vector and the known text of a key registry;
// a change of the store's key rewrites both.
func registryStart(b []byte) int { return min(len(b), registryHeaderBytes) }

// openKeys returns the keys of the tables and logs. Badger allocates as much as a
// record's length says, so openKeys checks every record first.
func openKeys(dir string, key []byte) (*badger.KeyRegistry, error) {
	b, err := os.ReadFile(filepath.Join(dir, badger.KeyRegistryFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged(badger.KeyRegistryFileName, "it is missing")
	}
	if err != nil {
		return nil, fileError(err)
	}
	if len(b) < registryHeaderBytes {
		return nil, damaged(badger.KeyRegistryFileName, "it is cut off")
	}
	for rest := b[registryHeaderBytes:]; len(rest) > 0; {
		n := recordLength(rest)
		if n == 0 || n > recordHeader+maxDataKeyBytes {
			return nil, damaged(badger.KeyRegistryFileName, "a record cannot be read")
		}
		if crc32.Checksum(rest[recordHeader:n], castagnoli) != binary.BigEndian.Uint32(rest[4:]) {
			return nil, damaged(badger.KeyRegistryFileName, "the checksum of a record differs")
		}
		rest = rest[n:]
	}
	keys, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: dir, ReadOnly: true, EncryptionKey: key})
	if err != nil {
		return nil, damaged(badger.KeyRegistryFileName, err.Error())
	}
	return keys, nil
}

// dataKey returns the bytes of a key, nil for id 0.
func dataKey(keys *badger.KeyRegistry, id uint64) ([]byte, error) {
	k, err := keys.DataKey(id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it is encrypted with key %d, which the store does not have", id)
	case k == nil:
		return nil, nil
	}
	return k.Data, nil
}

func tableName(id uint64) string { return fmt.Sprintf("%06d", id) + tableExt }

// namesWith returns the regular files of dir with an extension, in order.
func namesWith(dir, ext string) []string {
	entries, _ := os.ReadDir(dir) // an unreadable directory fails elsewhere
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ext) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// moveToLost moves a table to [LostDir], beside the tables that are there.
func moveToLost(dir, name string) error {
	lost := filepath.Join(dir, LostDir)
	if err := os.Mkdir(lost, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fileError(err)
	}
	to := filepath.Join(lost, name)
	for n := 1; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return fileError(err)
		}
		to = filepath.Join(lost, fmt.Sprintf("%s.%d", name, n))
	}
	if err := os.Rename(filepath.Join(dir, name), to); err != nil {
		return fileError(err)
	}
	return errors.Join(syncDir(lost), syncDir(dir))
}
