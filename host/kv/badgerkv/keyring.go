package badgerkv

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

// Sealed values begin with the id of their data key; a seal adds a random nonce and a
// tag. A seal of a narrow key adds fewer bytes than sealOverhead.
const (
	keyIDBytes   = 8
	sealOverhead = keyIDBytes + datakey.Overhead
	leastSealed  = keyIDBytes + 12 + 16
	// sealedMeta marks a sealed value in Badger. Values of stores made before data keys
	// existed have 0.
	sealedMeta = 1
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

// dataKeys are the data keys of one partition.
type dataKeys struct {
	latest uint64
	byID   map[uint64]*datakey.Key
}

// keyring holds the data keys of a store's partitions, and which partitions are being
// erased or were erased. Every change is on disk before a method returns. Safe for
// concurrent use.
type keyring struct {
	dir      string
	storeKey []byte // nil: values are not sealed, and there are no data keys

	// unsaved leaves new data keys in memory until the next save, in a store that a
	// restore makes: it is no store before it is whole.
	unsaved bool

	mu       sync.RWMutex
	wraps    int // number of store keys that open the file
	salt     []byte
	next     uint64
	unsealed bool
	keys     map[string]*dataKeys
	owners   map[uint64]string // the partitions of the data keys, by id; also of some destroyed keys
	erasing  map[string]time.Time
	erased   map[string]int64
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

func (r *keyring) put(partition string, id uint64, key *datakey.Key) {
	of := r.keys[partition]
	if of == nil {
		of = &dataKeys{byID: map[uint64]*datakey.Key{}}
		r.keys[partition] = of
	}
	of.byID[id] = key
	r.owners[id] = partition
	of.latest = max(of.latest, id)
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

func (r *keyring) seals() bool { return len(r.storeKey) > 0 }

// ensure makes data keys for those of the partitions that have none.
func (r *keyring) ensure(partitions []string) error {
	if !r.seals() || r.hasAll(partitions) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var made []string
	for _, partition := range partitions {
		if _, goes := r.erasing[partition]; !r.sealsWide(partition) && !goes {
			r.newKey(partition)
			made = append(made, partition)
		}
	}
	if len(made) == 0 || r.unsaved {
		return nil
	}
	if err := r.save(false); err != nil {
		for _, partition := range made {
			r.takeBack(partition)
		}
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

func (r *keyring) hasAll(partitions []string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, partition := range partitions {
		if !r.sealsWide(partition) {
			return false
		}
	}
	return true
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

// newKey makes the key that a partition's values are sealed with from now on. The
// lock is held.
func (r *keyring) newKey(partition string) {
	raw := make([]byte, dataKeyBytes)
	_, _ = rand.Read(raw) // never fails
	r.put(partition, r.next, datakey.New(raw, false))
	r.next++
}

// sealedWith returns the additional data of a value's seal: its partition, its key and
// its revision.
func sealedWith(engineKey []byte, revision uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clip(engineKey), revision)
}

// seal returns a value in the form that the store keeps.
func (r *keyring) seal(engineKey []byte, revision uint64, value []byte) ([]byte, error) {
	id, key := r.latestKey(partitionIn(engineKey))
	if key == nil {
		return nil, errors.New("the partition has no data key")
	}
	out := make([]byte, keyIDBytes, len(value)+sealOverhead)
	binary.BigEndian.PutUint64(out, id)
	return key.Seal(out, value, sealedWith(engineKey, revision))
}

// errNoDataKey is the error for a value whose data key is destroyed, or in another key
// file.
var errNoDataKey = fmt.Errorf("%w: the key file has no data key for it; put back the key file of this store", kv.ErrCorrupt)

// unseal undoes seal.
func (r *keyring) unseal(engineKey []byte, revision uint64, sealed []byte) ([]byte, error) {
	if len(sealed) < leastSealed {
		return nil, fmt.Errorf("%w: a sealed value is cut off; restore it from a backup", kv.ErrCorrupt)
	}
	key := r.keyOf(partitionIn(engineKey), binary.BigEndian.Uint64(sealed))
	if key == nil {
		return nil, errNoDataKey
	}
	value, err := key.Open(sealed[keyIDBytes:], sealedWith(engineKey, revision))
	if err != nil {
		return nil, fmt.Errorf("%w: a value is not what was sealed there; restore it from a backup", kv.ErrCorrupt)
	}
	return value, nil
}

// textPlace returns the additional data of the seal of a text outside the store.
func textPlace(partition, purpose string) []byte {
	b := append([]byte{ownSpace, 't', byte(len(partition))}, partition...)
	return append(b, purpose...)
}

// sealText returns text sealed with the data key of a partition, or text itself if the
// store has no key.
func (r *keyring) sealText(partition, purpose string, text []byte) ([]byte, error) {
	id, key := r.latestKey(partition)
	switch {
	case r.isErasing(partition):
		return nil, kv.ErrErasing
	case !r.seals():
		return text, nil
	case key == nil: // an erasure of it has ended since its key was looked for
		return nil, kv.ErrErasing
	}
	out := make([]byte, keyIDBytes, len(text)+sealOverhead)
	binary.BigEndian.PutUint64(out, id)
	return key.Seal(out, text, textPlace(partition, purpose))
}

// openText undoes sealText. The id of the text's data key determines the partition.
func (r *keyring) openText(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < leastSealed {
		return nil, fmt.Errorf("%w: a sealed text is cut off", kv.ErrCorrupt)
	}
	id := binary.BigEndian.Uint64(sealed)
	r.mu.RLock()
	partition := r.owners[id]
	r.mu.RUnlock()
	key := r.keyOf(partition, id)
	if key == nil {
		return nil, errNoDataKey
	}
	text, err := key.Open(sealed[keyIDBytes:], textPlace(partition, purpose))
	if err != nil {
		return nil, fmt.Errorf("%w: a text is not what was sealed", kv.ErrCorrupt)
	}
	return text, nil
}

// value returns the value in a store's entry, which is sealed or, in a store of an
// earlier version, plain.
func (r *keyring) value(engineKey []byte, revision uint64, meta byte, raw []byte) ([]byte, error) {
	switch {
	case meta&sealedMeta != 0:
		return r.unseal(engineKey, revision, raw)
	case r.seals() && !r.unsealed:
		return nil, fmt.Errorf("%w: a value has lost its seal; restore it from a backup", kv.ErrCorrupt)
	}
	return raw, nil
}

// isErasing reports whether a partition is being erased.
func (r *keyring) isErasing(partition string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, goes := r.erasing[partition]
	return goes
}

// beginErasing marks a partition and destroys its data keys.
func (r *keyring) beginErasing(partition string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, goes := r.erasing[partition]; goes {
		return nil
	}
	had := r.keys[partition]
	r.erasing[partition] = time.Now().UTC()
	delete(r.keys, partition)
	if err := r.save(true); err != nil {
		delete(r.erasing, partition)
		if had != nil {
			r.keys[partition] = had
		}
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

// endErasing removes the mark and records that the partition was erased.
func (r *keyring) endErasing(partition string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, goes := r.erasing[partition]
	if !goes {
		return nil
	}
	delete(r.erasing, partition)
	r.erased[r.digest(partition)] = time.Now().UnixMicro()
	if err := r.save(true); err != nil {
		r.erasing[partition] = since
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

// erasedAt returns when a partition was last erased; zero if it never was.
func (r *keyring) erasedAt(partition string) time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at, ok := r.erased[r.digest(partition)]; ok {
		return time.UnixMicro(at).UTC()
	}
	return time.Time{}
}

// digest returns the digest by which the file lists an erased partition: the list
// reveals no names.
func (r *keyring) digest(partition string) string {
	sum := sha256.Sum256(append(slices.Clone(r.salt), partition...))
	return hex.EncodeToString(sum[:16])
}

// erasingNames returns the partitions that are being erased, in order.
func (r *keyring) erasingNames() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.erasing))
}

func (r *keyring) hasKey(partition string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[partition] != nil
}

// rotate gives every partition a new data key. Stored values are read with the old
// keys.
func (r *keyring) rotate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for partition := range r.keys {
		r.newKey(partition)
	}
}

// inherit takes over another store's list of erased partitions.
func (r *keyring) inherit(from *keyring) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.salt, r.erased = from.salt, maps.Clone(from.erased)
	for partition := range from.erasing { // the restore leaves it out
		r.erased[r.digest(partition)] = time.Now().UnixMicro()
	}
	return r.save(false)
}
