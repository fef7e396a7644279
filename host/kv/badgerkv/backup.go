package badgerkv

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// The header values that mark a backup.
const (
	backupFormat   = "agenthost.backup"
	plainBackup    = 1 // values are not sealed
	sealedBackup   = 2 // values are sealed with data keys, see [backupWriter.backupValue]
	backupVersion  = sealedBackup
	maxHeaderBytes = 1 << 10
	saltBytes      = 16
	revisionBytes  = 8
	// progressEvery is how many bytes lie between two calls of Progress.
	progressEvery = 1 << 20
)

// backupHeader is the first line of a backup, JSON. The entries follow, sealed, in the
// order of keys: each is the lengths of its key and value as uvarints, the key as
// [engineKey] makes it, and the value. In a sealed backup the value is the entry's
// revision, in eight bytes, and the value as the store sealed it.
type backupHeader struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Created time.Time `json:"created_at"`
	// Encrypted says that reading the rest takes the store's key.
	Encrypted bool   `json:"encrypted"`
	Salt      []byte `json:"salt"`
}

// BackupInfo describes a backup.
type BackupInfo struct {
	Created   time.Time `json:"created_at"`
	Encrypted bool      `json:"encrypted"`
	Entries   int       `json:"entries"`
	Bytes     int64     `json:"bytes"` // of keys and values
	// Erased is how many entries a restore left out because their partitions were
	// erased after the backup.
	Erased int `json:"erased,omitempty"`
}

// Progress receives how many entries and bytes a backup or restore has processed.
type Progress func(entries int, bytes int64)

// Backup writes all entries of the store to w, as of one moment, while the store is in
// use. The backup of a store with a key is encrypted with that key, and every value in
// it is sealed with its partition's data key, which is not in the backup: [Restore]
// asks for the [KeyFile]. progress may be nil. After an error, the bytes in w are no
// backup; readers detect a backup that was cut off.
func (s *Store) Backup(ctx context.Context, w io.Writer, progress Progress) (*BackupInfo, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("back up store: %w", err)
	}
	defer s.mu.RUnlock()
	s.merger.snapshots.RLock() // an erasure waits for readers of an old moment
	defer s.merger.snapshots.RUnlock()
	info, err := s.backupWriter().backup(ctx, w, progress)
	if err != nil {
		return nil, fmt.Errorf("back up store: %w", err)
	}
	return info, nil
}

// backupWriter writes the backup of a store that is open.
type backupWriter struct {
	engine *engine
	key    []byte // of the store
	keys   *keyring
	blobs  *blobs
}

func (s *Store) backupWriter() *backupWriter {
	return &backupWriter{engine: s.engine, key: s.key, keys: s.keys, blobs: s.blobs}
}

func (b *backupWriter) backup(ctx context.Context, w io.Writer, progress Progress) (*BackupInfo, error) {
	header := backupHeader{Format: backupFormat, Version: plainBackup, Created: time.Now().UTC(), Encrypted: len(b.key) > 0, Salt: make([]byte, saltBytes)}
	_, _ = rand.Read(header.Salt) // never fails
	if b.keys.seals() {
		header.Version = sealedBackup
	}
	line, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	aead, err := newSeal(b.key, header.Salt)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(line); err != nil {
		return nil, err
	}
	out := &sealer{w: w, aead: aead, header: line}
	t := newEntryCounter(header, progress)
	// One transaction: Badger's own backup reads each part of the store at
	// another moment, and would cut a commit in two.
	err = b.each(ctx, []byte{dataSpace}, func(item *badger.Item) error {
		key := item.Key()
		if b.keys.isErasing(partitionIn(key)) {
			return nil
		}
		return item.Value(func(value []byte) (err error) {
			if value, err = b.backupValue(key, item, value); err != nil {
				if b.keys.isErasing(partitionIn(key)) { // the erasure began after the check above
					return nil
				}
				return err
			}
			t.add(len(key) + len(value))
			return writeEntry(out, key, value)
		})
	})
	if err != nil {
		return nil, err
	}
	return t.end(), out.Close()
}

// backupValue returns the bytes that a backup has for a value: in a store with a key,
// the revision and the sealed value. The backup contains a large value itself, not its
// reference.
func (b *backupWriter) backupValue(key []byte, item *badger.Item, value []byte) (_ []byte, err error) {
	partition := partitionIn(key)
	sealed := item.UserMeta()&sealedMeta != 0
	if item.UserMeta()&blobMeta != 0 {
		if value, err = b.keys.value(key, item.Version(), item.UserMeta(), value); err != nil {
			return nil, err
		}
		if value, err = b.blobs.read(partition, value); err != nil {
			return nil, err
		}
		sealed = false
	}
	if !b.keys.seals() {
		return value, nil
	}
	if !sealed { // a value of an earlier version of the format
		if err := b.keys.ensure([]string{partition}); err != nil {
			return nil, err
		}
		if value, err = b.keys.seal(key, item.Version(), value); err != nil {
			return nil, err
		}
	}
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, revisionBytes+len(value)), item.Version()), value...), nil
}

// each calls fn with every item whose key begins with prefix, as of one moment.
func (b *backupWriter) each(ctx context.Context, prefix []byte, fn func(*badger.Item) error) error {
	txn := b.engine.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix, PrefetchValues: true, PrefetchSize: 100})
	defer it.Close()
	for it.Seek(prefix); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(it.Item()); err != nil {
			return readError(err)
		}
	}
	return nil
}

func writeEntry(w io.Writer, key, value []byte) error {
	var lengths [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(lengths[:], uint64(len(key)))
	n += binary.PutUvarint(lengths[n:], uint64(len(value)))
	for _, b := range [][]byte{lengths[:n], key, value} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// entryCounter counts entries.
type entryCounter struct {
	info     BackupInfo
	progress Progress
	reported int64
}

func newEntryCounter(h backupHeader, progress Progress) *entryCounter {
	return &entryCounter{info: BackupInfo{Created: h.Created, Encrypted: h.Encrypted}, progress: progress}
}

func (t *entryCounter) add(bytes int) {
	t.info.Entries++
	t.info.Bytes += int64(bytes)
	if t.progress != nil && t.info.Bytes-t.reported >= progressEvery {
		t.reported = t.info.Bytes
		t.progress(t.info.Entries, t.info.Bytes)
	}
}

func (t *entryCounter) end() *BackupInfo {
	if t.progress != nil {
		t.progress(t.info.Entries, t.info.Bytes)
	}
	return &t.info
}
