package badgerkv

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

// KeyFile is the file in a store's directory that has the data keys of its partitions,
// sealed with the store's key, and the list of erased partitions. It is in no backup,
// and restoring a backup asks for it, so that partitions erased since the backup do not
// come back. Keep a copy on another device; restoring with a copy that is older than an
// erasure undoes the erasure.
const KeyFile = "KEYS"

// ErrKeyFile is the [kv.ErrKey] of a key file: the file is missing, sealed with another
// key, or older than the backup.
var ErrKeyFile = fmt.Errorf("%w", kv.ErrKey)

// ErrNoKeyFile is the [kv.ErrKey] of a store with sealed values whose key file is
// missing.
var ErrNoKeyFile = fmt.Errorf("%w", kv.ErrKey)

const (
	keyFileFormat   = "agenthost.keys"
	keyFileVersion  = 2 // version 1 has only narrow keys
	keyFileTemp     = KeyFile + ".tmp*"
	maxKeyFileBytes = 512 << 20 // some millions of partitions
	wrapInfo        = "agenthost key file 1"
	dataKeyBytes    = 32
)

// keyFileHeader is the first line of the file, JSON. A [keyFileBody] follows, sealed
// with the file's own key if the store has a key.
type keyFileHeader struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Wraps are the file's own key, sealed with the store's key; two while Rekey runs.
	Wraps [][]byte `json:"wraps,omitempty"`
}

type keyFileBody struct {
	Salt     []byte           `json:"salt"`
	Next     uint64           `json:"next"`               // the id of the next data key
	Unsealed bool             `json:"unsealed,omitempty"` // the store may have unsealed values
	Keys     []dataKeyRecord  `json:"keys,omitempty"`
	Erasing  []erasingRecord  `json:"erasing,omitempty"`
	Erased   map[string]int64 `json:"erased,omitempty"` // by the digest of the partition's name, Unix microseconds
}

type dataKeyRecord struct {
	Partition []byte `json:"partition"`
	ID        uint64 `json:"id"`
	Key       []byte `json:"key"`
	Wide      bool   `json:"wide,omitempty"` // see [datakey.Key]
}

type erasingRecord struct {
	Partition []byte    `json:"partition"`
	Since     time.Time `json:"since"`
}

// openKeyring reads the key file in dir. Without one the keyring is empty; made says
// that the store already has values.
func openKeyring(dir string, storeKey []byte, made bool) (*keyring, error) {
	r, err := readKeyring(filepath.Join(dir, KeyFile), storeKey)
	if errors.Is(err, fs.ErrNotExist) {
		if format, err := readFormat(dir); err == nil && isSealedFormat(format) {
			return nil, fmt.Errorf("%w: the file %s is missing, without which no value can be read; put back a copy of it", ErrNoKeyFile, KeyFile)
		}
		r = &keyring{storeKey: storeKey, next: 1, unsealed: made, salt: make([]byte, saltBytes),
			keys: map[string]*dataKeys{}, owners: map[uint64]string{}, erasing: map[string]time.Time{}, erased: map[string]int64{}}
		_, _ = rand.Read(r.salt) // never fails
	} else if err != nil {
		return nil, err
	}
	r.dir = dir
	return r, nil
}

// readKeyring reads a key file. If storeKey does not open it, the error is [kv.ErrKey].
func readKeyring(path string, storeKey []byte) (*keyring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxKeyFileBytes:
		return nil, fmt.Errorf("%w: the key file has more than %d bytes", kv.ErrCorrupt, maxKeyFileBytes)
	}
	line, sealed, _ := bytes.Cut(b, []byte("\n"))
	var h keyFileHeader
	if err := json.Unmarshal(line, &h); err != nil || h.Format != keyFileFormat || h.Version < 1 {
		return nil, fmt.Errorf("%w: the key file is not what was written; put back a copy of %s", kv.ErrCorrupt, KeyFile)
	}
	if h.Version > keyFileVersion {
		return nil, fmt.Errorf("%w: the key file has version %d, this program knows up to %d; use the version that wrote it, or a newer one", kv.ErrFormat, h.Version, keyFileVersion)
	}
	body, err := h.open(sealed, storeKey)
	if err != nil {
		return nil, err
	}
	r, err := body.keyring(storeKey)
	if err == nil {
		r.wraps = len(h.Wraps)
	}
	return r, err
}

// open returns the body of the file.
func (h *keyFileHeader) open(sealed, storeKey []byte) (*keyFileBody, error) {
	text := sealed
	switch {
	case len(h.Wraps) == 0 && len(storeKey) > 0:
		return nil, fmt.Errorf("%w: the key file is of a store without a key, and a key was given", ErrKeyFile)
	case len(h.Wraps) > 0 && len(storeKey) == 0:
		return nil, fmt.Errorf("%w: the key file is sealed, and no key was given", ErrKeyFile)
	case len(h.Wraps) > 0:
		own, err := h.unwrap(storeKey)
		if err != nil {
			return nil, err
		}
		aead, err := datakey.NewAEAD(own)
		if err != nil {
			return nil, err
		}
		if text, err = aead.Open(nil, nil, sealed, []byte(keyFileFormat)); err != nil {
			return nil, fmt.Errorf("%w: the key file is not what was written; put back a copy of %s", kv.ErrCorrupt, KeyFile)
		}
	}
	body := &keyFileBody{}
	if err := json.Unmarshal(text, body); err != nil {
		return nil, fmt.Errorf("%w: the key file is not what was written; put back a copy of %s", kv.ErrCorrupt, KeyFile)
	}
	return body, nil
}

// unwrap returns the file's own key.
func (h *keyFileHeader) unwrap(storeKey []byte) ([]byte, error) {
	aead, err := wrapper(storeKey)
	if err != nil {
		return nil, err
	}
	for _, w := range h.Wraps {
		if own, err := aead.Open(nil, nil, w, nil); err == nil {
			return own, nil
		}
	}
	return nil, fmt.Errorf("%w: the key file is sealed with another key; give the one of its store", ErrKeyFile)
}

// wrapper seals keys of key files with a store's key.
func wrapper(storeKey []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, storeKey, nil, wrapInfo, dataKeyBytes)
	if err != nil {
		return nil, err
	}
	return datakey.NewAEAD(derived)
}

func (b *keyFileBody) keyring(storeKey []byte) (*keyring, error) {
	r := &keyring{storeKey: storeKey, salt: b.Salt, next: max(b.Next, 1), unsealed: b.Unsealed, erased: b.Erased,
		keys: map[string]*dataKeys{}, owners: map[uint64]string{}, erasing: map[string]time.Time{}}
	if r.erased == nil {
		r.erased = map[string]int64{}
	}
	for _, rec := range b.Keys {
		if len(rec.Key) != dataKeyBytes || rec.ID >= r.next {
			return nil, fmt.Errorf("%w: the key file has a key that no store has; put back a copy of %s", kv.ErrCorrupt, KeyFile)
		}
		r.put(string(rec.Partition), rec.ID, datakey.New(rec.Key, !rec.Wide))
	}
	for _, rec := range b.Erasing {
		r.erasing[string(rec.Partition)] = rec.Since
	}
	return r, nil
}

func (r *keyring) body() *keyFileBody {
	b := &keyFileBody{Salt: r.salt, Next: r.next, Unsealed: r.unsealed, Erased: r.erased}
	for _, partition := range slices.Sorted(maps.Keys(r.keys)) {
		of := r.keys[partition]
		for _, id := range slices.Sorted(maps.Keys(of.byID)) {
			b.Keys = append(b.Keys, dataKeyRecord{Partition: []byte(partition), ID: id, Key: of.byID[id].Raw(), Wide: !of.byID[id].Narrow()})
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(r.erasing)) {
		b.Erasing = append(b.Erasing, erasingRecord{[]byte(partition), r.erasing[partition]})
	}
	return b
}

// encode returns the file, sealed with a fresh key of its own that each of
// storeKeys opens.
func (r *keyring) encode(storeKeys ...[]byte) ([]byte, error) {
	h := keyFileHeader{Format: keyFileFormat, Version: keyFileVersion}
	text, err := json.Marshal(r.body())
	if err != nil {
		return nil, err
	}
	if len(r.storeKey) > 0 {
		own := make([]byte, dataKeyBytes)
		_, _ = rand.Read(own) // never fails
		for _, key := range storeKeys {
			aead, err := wrapper(key)
			if err != nil {
				return nil, err
			}
			h.Wraps = append(h.Wraps, aead.Seal(nil, nil, own, nil))
		}
		aead, err := datakey.NewAEAD(own)
		if err != nil {
			return nil, err
		}
		text = aead.Seal(nil, nil, text, []byte(keyFileFormat))
	}
	line, err := json.Marshal(h)
	return slices.Concat(line, []byte("\n"), text), err
}

// save writes the file. The lock is held. With wipe, the bytes of the file that it
// replaces are overwritten, as far as the device writes in place.
func (r *keyring) save(wipe bool, storeKeys ...[]byte) (err error) {
	if len(storeKeys) == 0 {
		storeKeys = [][]byte{r.storeKey}
	}
	b, err := r.encode(storeKeys...)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, KeyFile)
	var old *os.File
	if wipe {
		if old, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			defer old.Close()
		}
	}
	if err := replaceFile(path, keyFileTemp, b); err != nil {
		return fileError(err)
	}
	if old != nil {
		return overwrite(old)
	}
	return nil
}

// saveAll writes the file.
func (r *keyring) saveAll(wipe bool, storeKeys ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.save(wipe, storeKeys...); err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

// overwrite fills a file that has no name any more with zeros.
func overwrite(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, 64<<10)
	for left := info.Size(); left > 0; left -= int64(len(zeros)) {
		if _, err := f.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	return f.Sync()
}

// replaceFile writes a file atomically: afterwards it is whole or unchanged.
func replaceFile(path, temp string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), temp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, werr := f.Write(content)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// removeTemps removes the temporary files of processes that were killed while they
// wrote the key file: keys in them may have been destroyed since.
func (r *keyring) removeTemps() error {
	names, _ := filepath.Glob(filepath.Join(r.dir, keyFileTemp)) // the pattern is right
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return fileError(err)
		}
	}
	return nil
}
