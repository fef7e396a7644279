package badgerkv

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// The header values that mark a backup.
const (
	backupFormat   = "agenthost.backup"
	plainBackup    = 1 // values are not sealed
	sealedBackup   = 2 // values are sealed with data keys, see [Store.backupValue]
	backupVersion  = sealedBackup
	maxHeaderBytes = 1 << 10
	saltBytes      = 16
	revisionBytes  = 8
	restoreTemp    = ".restore-*"
	// spaceEvery is how many restored bytes lie between two checks of the device's free
	// space.
	spaceEvery = 16 << 20
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
	t := newTally(header, progress)
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

// tally counts entries.
type tally struct {
	info     BackupInfo
	progress Progress
	told     int64
}

func newTally(h backupHeader, progress Progress) *tally {
	return &tally{info: BackupInfo{Created: h.Created, Encrypted: h.Encrypted}, progress: progress}
}

func (t *tally) add(bytes int) {
	t.info.Entries++
	t.info.Bytes += int64(bytes)
	if t.progress != nil && t.info.Bytes-t.told >= progressEvery {
		t.told = t.info.Bytes
		t.progress(t.info.Entries, t.info.Bytes)
	}
}

func (t *tally) end() *BackupInfo {
	if t.progress != nil {
		t.progress(t.info.Entries, t.info.Bytes)
	}
	return &t.info
}

// VerifyBackup reads a backup to its end and checks that it is whole and unchanged. key
// is the key of the store that made it, nil for none.
//
// Errors: [kv.ErrCorrupt], [kv.ErrKey] if the backup has another key, [kv.ErrFormat] if
// r is no backup or one of a newer version; errors of r.
func VerifyBackup(ctx context.Context, r io.Reader, key []byte, progress Progress) (*BackupInfo, error) {
	info, err := readBackup(ctx, r, key, progress, func(backupHeader, []byte, []byte) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("verify backup: %w", err)
	}
	return info, nil
}

// readBackup calls fn with every entry. The slices are fn's for the call.
func readBackup(ctx context.Context, r io.Reader, key []byte, progress Progress, fn func(h backupHeader, key, value []byte) error) (*BackupInfo, error) {
	in := bufio.NewReader(r)
	header, line, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	switch {
	case !header.Encrypted:
		key = nil
	case len(key) == 0:
		return nil, fmt.Errorf("%w: the backup is encrypted, and no key was given; give that of the store it is from", kv.ErrKey)
	}
	aead, err := newSeal(key, header.Salt)
	if err != nil {
		return nil, err
	}
	entries := bufio.NewReaderSize(&unsealer{r: in, aead: aead, header: line}, pieceBytes)
	t := newTally(header, progress)
	e := entryReader{in: entries}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch err := e.next(); {
		case err == io.EOF:
			return t.end(), nil
		case err != nil:
			return nil, err
		}
		t.add(len(e.key) + len(e.value))
		if err := fn(header, e.key, e.value); err != nil {
			return nil, err
		}
	}
}

func readHeader(in *bufio.Reader) (h backupHeader, line []byte, err error) {
	for len(line) == 0 || line[len(line)-1] != '\n' {
		b, err := in.ReadByte()
		if err != nil && err != io.EOF {
			return h, nil, err
		}
		if err == io.EOF || len(line) == maxHeaderBytes {
			return h, nil, fmt.Errorf("%w: it is no backup", kv.ErrFormat)
		}
		line = append(line, b)
	}
	if err := json.Unmarshal(line, &h); err != nil || h.Format != backupFormat || h.Version < 1 {
		return h, nil, fmt.Errorf("%w: it is no backup", kv.ErrFormat)
	}
	if h.Version > backupVersion {
		return h, nil, fmt.Errorf("%w: the backup has version %d, this program knows up to %d; use the version that wrote it, or a newer one", kv.ErrFormat, h.Version, backupVersion)
	}
	return h, line, nil
}

// entryReader reads entries into buffers of its own.
type entryReader struct {
	in         *bufio.Reader
	key, value []byte
}

// next reads an entry. After the last it returns io.EOF.
func (e *entryReader) next() error {
	if _, err := e.in.Peek(1); err != nil {
		return err
	}
	const prefix = 2 + kv.MaxPartitionBytes
	keyLen, err := e.length(prefix + kv.MaxKeyBytes)
	if err != nil {
		return err
	}
	valueLen, err := e.length(revisionBytes + sealOverhead + kv.MaxValueBytes)
	if err != nil {
		return err
	}
	e.key = append(e.key[:0], make([]byte, keyLen)...)
	e.value = append(e.value[:0], make([]byte, valueLen)...)
	for _, b := range [][]byte{e.key, e.value} {
		if _, err := io.ReadFull(e.in, b); err != nil {
			return cutOff(err)
		}
	}
	if keyLen < 3 || e.key[0] != dataSpace || len(e.key) < 3+int(e.key[1]) {
		return fmt.Errorf("%w: the backup has an entry that no store has", kv.ErrCorrupt)
	}
	return nil
}

func (e *entryReader) length(limit uint64) (int, error) {
	n, err := binary.ReadUvarint(e.in)
	if err != nil {
		return 0, cutOff(err)
	}
	if n > limit {
		return 0, fmt.Errorf("%w: the backup has an entry of %d bytes", kv.ErrCorrupt, n)
	}
	return int(n), nil
}

// RestoreOptions are the optional parts of a restore.
type RestoreOptions struct {
	// Store are the options with which the new store is opened; its Key is the new
	// store's.
	Store Options
	// BackupKey is the key with which the backup is sealed; nil is Store.Key.
	BackupKey []byte
	// KeyFile is the path of the [KeyFile] of the store that made the backup, or of a
	// copy that is not older than the backup. Restoring a sealed backup requires it;
	// for a backup without a key, it lists the partitions erased since.
	KeyFile  string
	Progress Progress
}

// Restore makes a store in dir from a backup. dir must not exist, or be empty. Restore
// fills a temporary directory beside dir and renames it to dir when it is whole: a
// restore that fails, also in the renaming, leaves dir unchanged and removes the
// temporary directory. A process that is killed may leave that directory, and, for an
// instant at the end, an empty dir under the temporary name with ".replaced". The new store counts its revisions from the start and has
// new data keys. Partitions that were erased after the backup are left out.
//
// Errors: those of [VerifyBackup] and [Open]; [kv.ErrInvalid] if dir is not empty;
// [kv.ErrKey] if the backup asks for a key file and opts names none, or if the key file
// is sealed with another key than the backup and the new store.
func Restore(ctx context.Context, dir string, r io.Reader, opts *RestoreOptions) (*BackupInfo, error) {
	if opts == nil {
		opts = &RestoreOptions{}
	}
	info, err := restore(ctx, dir, r, opts)
	if err != nil {
		return nil, fmt.Errorf("restore store %q: %w", dir, err)
	}
	return info, nil
}

func restore(ctx context.Context, dir string, r io.Reader, opts *RestoreOptions) (_ *BackupInfo, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := checkVacant(abs); err != nil {
		return nil, err
	}
	parent := filepath.Dir(abs)
	if err := makeDir(parent); err != nil {
		return nil, fileError(err)
	}
	aside, err := os.MkdirTemp(parent, filepath.Base(abs)+restoreTemp)
	if err != nil {
		return nil, fileError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(aside))
		}
	}()
	info, err := fill(ctx, aside, r, opts)
	if err != nil {
		return nil, err
	}
	if err := moveIntoPlace(aside, abs); err != nil {
		return nil, fileError(err)
	}
	return info, syncDir(parent)
}

// moveIntoPlace renames aside to dir, which does not exist or is an empty directory. If it
// fails, both are as they were: the empty directory is moved out of the way first, and
// back if the other cannot take its name, or if it is not empty any more.
func moveIntoPlace(aside, dir string) error {
	empty := aside + ".replaced"
	err := os.Rename(dir, empty)
	if errors.Is(err, os.ErrNotExist) {
		return os.Rename(aside, dir)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(aside, dir); err != nil {
		return errors.Join(err, os.Rename(empty, dir))
	}
	if err := os.Remove(empty); err != nil {
		return errors.Join(err, os.Rename(dir, aside), os.Rename(empty, dir))
	}
	return nil
}

// checkVacant refuses a directory that is not empty.
func checkVacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fileError(err)
	case len(entries) > 0:
		return fmt.Errorf("%w: it has files in it (%q); name a directory that is new or empty", kv.ErrInvalid, entries[0].Name())
	}
	return nil
}

// fill makes a store in dir and puts a backup's entries into it.
func fill(ctx context.Context, dir string, r io.Reader, opts *RestoreOptions) (_ *BackupInfo, err error) {
	s, err := Open(dir, &opts.Store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key := opts.BackupKey
	if key == nil {
		key = opts.Store.Key
	}
	old, err := opts.oldKeys(key)
	if err != nil {
		return nil, err
	}
	f := &filler{store: s, old: old}
	s.keys.unsaved = true
	if old != nil {
		s.keys.setSalt(old.salt) // the salt goes into the names of blob directories
	}
	info, err := readBackup(ctx, r, key, opts.Progress, func(h backupHeader, key, value []byte) error {
		return f.add(ctx, h, key, value)
	})
	if err != nil {
		return nil, err
	}
	if err := f.flush(ctx); err != nil {
		return nil, err
	}
	info.Erased = f.erased
	info.Entries -= f.erased
	if old != nil {
		return info, s.keys.inherit(old)
	}
	if s.keys.seals() {
		return info, s.keys.saveAll(false)
	}
	return info, nil
}

// oldKeys reads the key file of the store that made the backup; nil if o names none.
// The backup's key opens the file or, if the store's key was changed since, the new
// store's key.
func (o *RestoreOptions) oldKeys(backupKey []byte) (*keyring, error) {
	if o.KeyFile == "" {
		return nil, nil
	}
	r, err := readKeyring(o.KeyFile, backupKey)
	for _, key := range [][]byte{o.Store.Key, nil} {
		if !errors.Is(err, kv.ErrKey) {
			break
		}
		if other, otherErr := readKeyring(o.KeyFile, key); otherErr == nil {
			return other, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read key file %q: %w", o.KeyFile, err)
	}
	return r, nil
}

// filler puts the entries of a backup into a new store.
type filler struct {
	store    *Store
	old      *keyring // of the store that made the backup; may be nil
	tx       kv.Tx
	bytes    int
	unlooked int // bytes since the last check of free space
	erased   int
}

// add adds an entry. The slices are the caller's.
func (f *filler) add(ctx context.Context, h backupHeader, key, value []byte) error {
	partition := partitionIn(key)
	value, err := f.open(h, key, value)
	if err != nil {
		return err
	}
	if value == nil {
		f.erased++
		return nil
	}
	size := len(key) + len(value)
	if partition != f.tx.Partition || len(f.tx.Writes) == kv.MaxTxWrites || f.bytes+size > kv.MaxTxBytes {
		if err := f.flush(ctx); err != nil {
			return err
		}
		f.tx.Partition = partition
	}
	f.tx.Writes = append(f.tx.Writes, kv.Put(kv.Key(key[2+len(partition):]), value))
	f.bytes += size
	return nil
}

// open returns the value of an entry, or nil if its partition was erased after the
// backup.
func (f *filler) open(h backupHeader, key, value []byte) ([]byte, error) {
	partition := partitionIn(key)
	if f.old != nil && (f.old.isErasing(partition) || h.Version < sealedBackup && f.old.erasedAt(partition).After(h.Created)) {
		return nil, nil
	}
	if h.Version < sealedBackup {
		return append([]byte{}, value...), nil
	}
	if f.old == nil {
		return nil, fmt.Errorf("%w: the values of the backup are sealed with data keys; name the key file of the store it is from (%s), or a copy of it", ErrKeyFile, KeyFile)
	}
	if len(value) < revisionBytes {
		return nil, fmt.Errorf("%w: the backup has an entry that no store has", kv.ErrCorrupt)
	}
	opened, err := f.old.unseal(key, binary.BigEndian.Uint64(value), value[revisionBytes:])
	switch {
	case errors.Is(err, errNoDataKey) && !f.old.erasedAt(partition).IsZero():
		return nil, nil
	case errors.Is(err, errNoDataKey):
		return nil, fmt.Errorf("%w: the key file has no key for a partition of the backup; name one that is not older than the backup", ErrKeyFile)
	case err != nil:
		return nil, err
	}
	return append([]byte{}, opened...), nil
}

func (f *filler) flush(ctx context.Context) error {
	if len(f.tx.Writes) == 0 {
		return nil
	}
	if f.unlooked += f.bytes; f.unlooked > spaceEvery {
		f.unlooked = 0
		if err := f.store.engine.checkSpace(); err != nil {
			return err
		}
	}
	_, err := kv.Apply(ctx, f.store, f.tx)
	f.tx, f.bytes = kv.Tx{Partition: f.tx.Partition}, 0
	return err
}

// Partitions yields the names of the partitions that have entries, in no
// particular order. It is for the store's operator: a [kv.Driver] has no such method,
// because no tenant may learn the name of another.
func (s *Store) Partitions(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var after []byte
		for {
			name, next, err := s.partitionAfter(ctx, after)
			if err != nil {
				yield("", fmt.Errorf("list partitions: %w", err))
				return
			}
			if next == nil {
				return
			}
			if !s.keys.isErasing(name) && !yield(name, nil) {
				return
			}
			after = next
		}
	}
}

// partitionAfter returns the first partition with keys above after, and a bound above
// all keys of the partition; a nil end says that no such partition exists.
func (s *Store) partitionAfter(ctx context.Context, after []byte) (name string, end []byte, err error) {
	if err := s.enter(ctx); err != nil {
		return "", nil, err
	}
	defer s.mu.RUnlock()
	return s.engine.openPartitionAfter(after)
}

// openPartitionAfter is partitionAfter within a call.
func (e *engine) openPartitionAfter(after []byte) (name string, end []byte, err error) {
	txn := e.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{dataSpace}})
	defer it.Close()
	if after == nil {
		after = []byte{dataSpace}
	}
	if it.Seek(after); !it.Valid() {
		return "", nil, nil
	}
	key := it.Item().Key()
	if len(key) < 2 || len(key) < 2+int(key[1]) {
		return "", nil, fmt.Errorf("%w: a key is of no partition", kv.ErrCorrupt)
	}
	name = string(key[2 : 2+int(key[1])])
	return name, append(engineKey(name, ""), lastKey...), nil
}
