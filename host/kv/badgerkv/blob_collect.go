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

// collectBlobs removes the blobs that no entry refers to: those of deleted and replaced
// entries, and those that a killed process wrote and did not commit. Only one
// collection runs at a time: the caller has the token of purges.
func (s *Store) collectBlobs(ctx context.Context) error {
	dirs, err := os.ReadDir(s.blobs.root())
	if err != nil {
		return fileError(ignoreMissing(err))
	}
	covered, err := s.versionOf(blobsKey)
	if err != nil {
		return err
	}
	s.blobs.beginCollection()
	defer s.blobs.endCollection()
	unseen := map[string]bool{}
	for _, d := range dirs {
		if d.IsDir() && d.Name() != blobTempDir {
			unseen[filepath.Join(s.blobs.root(), d.Name())] = true
		}
	}
	// The erasure removes the blobs of partitions that are being erased.
	for _, partition := range s.keys.erasingNames() {
		delete(unseen, s.blobs.partitionDir(partition))
	}
	var after []byte
	for {
		partition, next, err := s.openPartitionAfter(after)
		if err != nil {
			return err
		}
		if next == nil {
			break
		}
		after = next
		dir := s.blobs.partitionDir(partition)
		if !unseen[dir] || s.keys.isErasing(partition) {
			continue
		}
		delete(unseen, dir)
		err = s.collectDir(ctx, dir, partition)
		if errors.Is(err, kv.ErrCorrupt) { // one tenant's damage must not fail another tenant's erasure
			s.logger.Warn("large values of a partition stay: one of its entries cannot be read", "partition", partition, "error", err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	for dir := range unseen { // directories of partitions without entries
		if err := s.collectDir(ctx, dir, ""); err != nil {
			return err
		}
	}
	return s.note(ctx, collectKey, blobsKey, covered)
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
func (s *Store) collectDir(ctx context.Context, dir, partition string) error {
	used := map[[addressBytes]byte]bool{}
	if partition != "" {
		err := s.eachReference(ctx, engineKey(partition, ""), func(_ []byte, _ uint64, ref *blobReference) error {
			used[ref.address] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	// A reader of an older moment, a backup, needs more blobs. Readers that begin from
	// here on need only the blobs in use.
	for !s.snapshots.TryLock() {
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
	}
	s.snapshots.Unlock()
	if err := s.settled(ctx); err != nil {
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
		if err := s.blobs.remove(ctx, unused); err != nil {
			return err
		}
	}
	return nil
}

// settled returns when the commits that a reader may have seen have their outcome, and
// an error if one is in doubt: the entries that it deleted may exist again at the next
// start.
func (s *Store) settled(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if broken := s.broken.Load(); broken != nil {
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
func (s *Store) eachReference(ctx context.Context, prefix []byte, fn func(engineKey []byte, version uint64, ref *blobReference) error) error {
	for after := []byte(nil); ; {
		began := time.Now()
		last, err := s.pageOfReferences(ctx, prefix, after, fn)
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
func (s *Store) pageOfReferences(ctx context.Context, prefix, after []byte, fn func([]byte, uint64, *blobReference) error) (last []byte, err error) {
	txn := s.db.NewTransaction(false)
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
			if raw, err = s.keys.value(item.Key(), item.Version(), item.UserMeta(), raw); err != nil {
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
func (s *Store) eraseBlobs(ctx context.Context, partition string) error {
	// Taking the lock waits for commits that began before the partition was marked;
	// commits that begin later are refused before they write.
	s.blobs.inCommit.Lock()
	//lint:ignore SA2001 it is a barrier
	s.blobs.inCommit.Unlock()
	dir := s.blobs.partitionDir(partition)
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
	s.blobs.forgetDirs()
	if err := os.RemoveAll(dir); err != nil {
		return fileError(err)
	}
	if _, err := os.Stat(s.blobs.root()); err != nil {
		return fileError(ignoreMissing(err))
	}
	return fileError(syncDir(s.blobs.root()))
}

// forgetDirs forgets which directories exist, so that the next commits make them again.
func (b *blobs) forgetDirs() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.ready)
}

// verifyBlobs reads every blob that an entry refers to.
func (s *Store) verifyBlobs(ctx context.Context) error {
	for after := []byte(nil); ; {
		partition, next, err := s.openPartitionAfter(after)
		if err != nil || next == nil {
			return err
		}
		after = next
		if s.keys.isErasing(partition) {
			continue
		}
		err = s.eachReference(ctx, engineKey(partition, ""), func(key []byte, version uint64, ref *blobReference) error {
			_, err := s.blobs.read(partition, ref.encode())
			if err != nil && s.isCurrent(key, version) { // else it was deleted meanwhile
				return err
			}
			return nil
		})
		if err != nil && !s.keys.isErasing(partition) {
			return err
		}
	}
}

// isCurrent reports whether an entry still has that version.
func (s *Store) isCurrent(engineKey []byte, version uint64) bool {
	if s.keys.isErasing(partitionIn(engineKey)) {
		return false
	}
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	item, err := txn.Get(engineKey)
	return err == nil && item.Version() == version || err != nil && !errors.Is(err, badger.ErrKeyNotFound)
}

// prepareBlobs readies the store for large values, and removes the temporary files of
// killed processes. It records in the store's format that the store may have large
// values: an earlier version would take references for values.
func (s *Store) prepareBlobs() error {
	s.blobs = newBlobs(s.dir, s.keys)
	want := plainBlobFormat
	if s.keys.seals() {
		want = sealedBlobFormat
	}
	format, err := readFormat(s.dir)
	if err != nil {
		return err
	}
	if format != want {
		if err := s.changeFormat(want); err != nil {
			return fileError(err)
		}
	}
	return s.blobs.removeTemps()
}

// changeFormat writes the store's format and keeps the format file's time, which is
// when the store was made.
func (s *Store) changeFormat(format int) error {
	path, made := filepath.Join(s.dir, formatFile), s.made()
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
	case s.purging <- struct{}{}:
		defer func() { <-s.purging }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.collectBlobs(ctx); err != nil {
		return fmt.Errorf("remove large values that nothing refers to: %w", err)
	}
	s.uncollected.Store(false)
	return nil
}

// countBlobs returns how many blobs a partition has, whether entries refer to them or
// not.
func (s *Store) countBlobs(partition string) (int, error) {
	paths, err := listBlobs(s.blobs.partitionDir(partition))
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
