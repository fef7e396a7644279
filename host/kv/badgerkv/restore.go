package badgerkv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host/kv"
)

const (
	// restoreTemp is the pattern of the directory that a restore fills.
	restoreTemp = ".restore-*"
	// spaceEvery is how many restored bytes lie between two checks of the device's free
	// space.
	spaceEvery = 16 << 20
)

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
