package badgerkv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

const (
	// blobBatch is how many blobs a collection or an erasure removes between two rests.
	blobBatch = 64
	// maxTouched bounds the blobs that a running collection remembers.
	maxTouched = 1 << 20
	// markBatch is how many entries a collection reads between two rests.
	markBatch = 1024
)

// blobCollector reads the references of entries to blobs, to find the blobs that are not
// in use and those that are damaged.
type blobCollector struct {
	engine *engine
	merger *tableMerger // whose snapshots need blobs
	keys   *keyring
	blobs  *blobs
}

// collectBlobs removes the blobs that no entry refers to: those of deleted and replaced
// entries, and those that a killed process wrote and did not commit. Only one
// collection runs at a time: the caller has the token of purges.
func (c *blobCollector) collectBlobs(ctx context.Context) error {
	dirs, err := os.ReadDir(c.blobs.root())
	if err != nil {
		return fileError(ignoreMissing(err))
	}
	covered, err := c.engine.versionOf(blobsKey)
	if err != nil {
		return err
	}
	c.blobs.beginCollection()
	defer c.blobs.endCollection()
	unseen := map[string]bool{}
	for _, d := range dirs {
		if d.IsDir() && d.Name() != blobTempDir {
			unseen[filepath.Join(c.blobs.root(), d.Name())] = true
		}
	}
	// The erasure removes the blobs of partitions that are being erased.
	for _, partition := range c.keys.erasingNames() {
		delete(unseen, c.blobs.partitionDir(partition))
	}
	var after []byte
	for {
		partition, next, err := c.engine.openPartitionAfter(after)
		if err != nil {
			return err
		}
		if next == nil {
			break
		}
		after = next
		dir := c.blobs.partitionDir(partition)
		if !unseen[dir] || c.keys.isErasing(partition) {
			continue
		}
		delete(unseen, dir)
		err = c.collectDir(ctx, dir, partition)
		if errors.Is(err, kv.ErrCorrupt) { // one tenant's damage must not fail another tenant's erasure
			c.engine.logger.WarnContext(ctx, "large values of a partition stay: one of its entries cannot be read", "partition", partition, "error", err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	for dir := range unseen { // directories of partitions without entries
		if err := c.collectDir(ctx, dir, ""); err != nil {
			return err
		}
	}
	return c.engine.note(ctx, collectKey, blobsKey, covered)
}

func (b *blobs) beginCollection() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.touched, b.overrun = map[string]bool{}, false
	for path := range b.pinned {
		b.touched[path] = true
	}
}

func (b *blobs) endCollection() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.touched = nil
}

// errOverrun is the error of a collection during which commits wrote more blobs than it
// can remember.
var errOverrun = fmt.Errorf("more than %d large values were written meanwhile; it is tried again", maxTouched)

// collectDir removes the blobs in a partition's directory that no entry of the
// partition refers to; an empty partition name stands for no entries. Blobs that a
// commit has named since the collection began stay, so a blob written after the
// references were read is safe. It holds the addresses of the partition's blobs in
// memory, some 50 bytes each.
func (c *blobCollector) collectDir(ctx context.Context, dir, partition string) error {
	used := map[[addressBytes]byte]bool{}
	if partition != "" {
		err := c.eachReference(ctx, engineKey(partition, ""), func(_ []byte, _ uint64, ref *blobReference) error {
			used[ref.address] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	// A reader of an older moment, a backup, needs more blobs. Readers that begin from
	// here on need only the blobs in use.
	for !c.merger.snapshots.TryLock() {
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
	}
	c.merger.snapshots.Unlock()
	if err := c.engine.settled(ctx); err != nil {
		return err
	}
	subdirs, err := os.ReadDir(dir)
	if err != nil {
		return fileError(ignoreMissing(err))
	}
	for _, d := range subdirs {
		if !d.IsDir() {
			continue
		}
		unused, err := unusedBlobs(filepath.Join(dir, d.Name()), used)
		if err != nil {
			return fileError(err)
		}
		if err := c.blobs.remove(ctx, unused); err != nil {
			return err
		}
	}
	return nil
}

// settled returns when the commits that a reader may have seen have their outcome, and
// an error if one is in doubt: the entries that it deleted may exist again at the next
// start.
func (e *engine) settled(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if broken := e.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// unusedBlobs returns the paths of the blobs in a directory whose addresses are not
// in use.
func unusedBlobs(dir string, used map[[addressBytes]byte]bool) (paths []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	for _, f := range files {
		raw, err := hex.DecodeString(f.Name())
		if err != nil || len(raw) != addressBytes || used[[addressBytes]byte(raw)] {
			continue
		}
		paths = append(paths, filepath.Join(dir, f.Name()))
	}
	return paths, nil
}

// remove removes blobs of one directory, but for those that a commit has named since
// the collection began.
func (b *blobs) remove(ctx context.Context, paths []string) error {
	for batch := range slices.Chunk(paths, blobBatch) {
		began := time.Now()
		for _, path := range batch {
			if err := b.removeUntouched(path); err != nil {
				return err
			}
		}
		if err := sleep(ctx, min(purgeShare*time.Since(began), maxRest)); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return fileError(syncDir(filepath.Dir(paths[0])))
}

func (b *blobs) removeUntouched(path string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overrun {
		return errOverrun
	}
	if b.pinned[path] != nil || b.touched[path] {
		return nil
	}
	return fileError(ignoreMissing(os.Remove(path)))
}

// listBlobs returns the paths of the files in the directory of a partition.
func listBlobs(dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		paths = append(paths, path)
		return nil
	})
	return paths, fileError(err)
}

// eachReference calls fn with every reference in the entries whose engine keys begin
// with prefix, a page at a time: it holds no transaction open while it rests between
// two pages.
func (c *blobCollector) eachReference(ctx context.Context, prefix []byte, fn func(engineKey []byte, version uint64, ref *blobReference) error) error {
	for after := []byte(nil); ; {
		began := time.Now()
		last, err := c.pageOfReferences(ctx, prefix, after, fn)
		if err != nil || last == nil {
			return err
		}
		after = last
		if err := sleep(ctx, min(purgeShare*time.Since(began), maxRest)); err != nil {
			return err
		}
	}
}

// pageOfReferences reads the next page of entries above the engine key after, and
// returns the last key in it; nil if no entries follow.
func (c *blobCollector) pageOfReferences(ctx context.Context, prefix, after []byte, fn func([]byte, uint64, *blobReference) error) (last []byte, err error) {
	txn := c.engine.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	from := prefix
	if after != nil {
		from = append(slices.Clone(after), 0)
	}
	n := 0
	for it.Seek(from); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		item := it.Item()
		if item.UserMeta()&blobMeta != 0 {
			raw, err := item.ValueCopy(nil)
			if err != nil {
				return nil, readError(err)
			}
			if raw, err = c.keys.value(item.Key(), item.Version(), item.UserMeta(), raw); err != nil {
				return nil, err
			}
			ref, err := decodeReference(raw)
			if err != nil {
				return nil, err
			}
			if err := fn(item.KeyCopy(nil), item.Version(), ref); err != nil {
				return nil, err
			}
		}
		if n++; n == markBatch {
			return item.KeyCopy(nil), nil
		}
	}
	return nil, nil
}

// eraseBlobs removes the blobs of a partition that is being erased, and their
// directory.
func (b *blobs) eraseBlobs(ctx context.Context, partition string) error {
	// Taking the lock waits for commits that began before the partition was marked;
	// commits that begin later are refused before they write.
	b.inCommit.Lock()
	//lint:ignore SA2001 it is a barrier
	b.inCommit.Unlock()
	dir := b.partitionDir(partition)
	paths, err := listBlobs(dir)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(paths, blobBatch) {
		began := time.Now()
		for _, path := range batch {
			if err := ignoreMissing(os.Remove(path)); err != nil {
				return fileError(err)
			}
		}
		if err := sleep(ctx, min(purgeShare*time.Since(began), maxRest)); err != nil {
			return err
		}
	}
	b.forgetDirs()
	if err := os.RemoveAll(dir); err != nil {
		return fileError(err)
	}
	if _, err := os.Stat(b.root()); err != nil {
		return fileError(ignoreMissing(err))
	}
	return fileError(syncDir(b.root()))
}

// forgetDirs forgets which directories exist, so that the next commits make them again.
func (b *blobs) forgetDirs() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.ready)
}

// verifyBlobs reads every blob that an entry refers to.
func (c *blobCollector) verifyBlobs(ctx context.Context) error {
	for after := []byte(nil); ; {
		partition, next, err := c.engine.openPartitionAfter(after)
		if err != nil || next == nil {
			return err
		}
		after = next
		if c.keys.isErasing(partition) {
			continue
		}
		err = c.eachReference(ctx, engineKey(partition, ""), func(key []byte, version uint64, ref *blobReference) error {
			_, err := c.blobs.read(partition, ref.encode())
			if err != nil && c.isCurrent(key, version) { // else it was deleted meanwhile
				return err
			}
			return nil
		})
		if err != nil && !c.keys.isErasing(partition) {
			return err
		}
	}
}

// isCurrent reports whether an entry still has that version.
func (c *blobCollector) isCurrent(engineKey []byte, version uint64) bool {
	if c.keys.isErasing(partitionIn(engineKey)) {
		return false
	}
	txn := c.engine.db.NewTransaction(false)
	defer txn.Discard()
	item, err := txn.Get(engineKey)
	return err == nil && item.Version() == version || err != nil && !errors.Is(err, badger.ErrKeyNotFound)
}

// prepareBlobs readies the store for large values, and removes the temporary files of
// killed processes. It records in the store's format that the store may have large
// values: an earlier version would take references for values.
func (s *Store) prepareBlobs() error {
	s.blobs = newBlobs(s.engine.dir, s.keys)
	s.collector = &blobCollector{engine: s.engine, merger: s.merger, keys: s.keys, blobs: s.blobs}
	want := plainBlobFormat
	if s.keys.seals() {
		want = sealedBlobFormat
	}
	format, err := readFormat(s.engine.dir)
	if err != nil {
		return err
	}
	if format != want {
		if err := s.engine.changeFormat(want); err != nil {
			return fileError(err)
		}
	}
	return s.blobs.removeTemps()
}

// changeFormat writes the store's format and keeps the format file's time, which is
// when the store was made.
func (e *engine) changeFormat(format int) error {
	path, made := filepath.Join(e.dir, formatFile), e.made()
	if err := writeFormat(path, format); err != nil || made.IsZero() {
		return err
	}
	return os.Chtimes(path, made, made)
}

// collectUncollected removes blobs that a killed process wrote and did not commit.
func (s *Store) collectUncollected(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	select {
	case s.merger.purging <- struct{}{}:
		defer func() { <-s.merger.purging }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.collector.collectBlobs(ctx); err != nil {
		return fmt.Errorf("remove large values that nothing refers to: %w", err)
	}
	s.uncollected.Store(false)
	return nil
}

// countBlobs returns how many blobs a partition has, whether entries refer to them or
// not.
func (b *blobs) countBlobs(partition string) (int, error) {
	paths, err := listBlobs(b.partitionDir(partition))
	return len(paths), err
}

// checkBlobDir refuses a path of BlobDir that is no directory.
func checkBlobDir(dir string) error {
	info, err := os.Lstat(filepath.Join(dir, BlobDir))
	if err != nil || info.IsDir() {
		return ignoreMissing(err)
	}
	return fmt.Errorf("%w: %s is not a directory; move it away", kv.ErrCorrupt, BlobDir)
}
