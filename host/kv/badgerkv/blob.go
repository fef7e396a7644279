package badgerkv

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

// A value of at least blobBytes is a file of its own, a blob, and Badger has a
// reference to it: Badger holds and merges only small values, whatever callers store.
//
// A blob lies in BlobDir, in a directory of its partition, under its address: a keyed
// digest of its content. The key is derived from the partition's data key or, in a
// store without encryption, from the partition's name, so equal values are one file
// within a partition and never across two. With a data key the file is sealed, bound
// to its partition and address. The file and the directories above it are synced
// before the commit that refers to it begins.
const (
	// BlobDir is the directory for large values, inside that of a store.
	BlobDir = "blobs"
	// blobBytes is the size of the smallest value that is a blob.
	blobBytes = 128 << 10
	// blobTempDir in BlobDir has the files that are being written.
	blobTempDir = "tmp"

	addressInfo  = "agenthost blob address 1"
	addressBytes = sha256.Size
)

// blobMeta marks a reference in Badger, beside sealedMeta.
const blobMeta = 2

// A reference is its version, the id of the blob's data key (0 without one), the size
// of the value, and the address.
const (
	referenceVersion = 1
	referenceBytes   = 1 + keyIDBytes + 4 + addressBytes
)

type blobReference struct {
	keyID   uint64
	size    int
	address [addressBytes]byte
}

func (r *blobReference) encode() []byte {
	b := make([]byte, 0, referenceBytes)
	b = append(b, referenceVersion)
	b = binary.BigEndian.AppendUint64(b, r.keyID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.size))
	return append(b, r.address[:]...)
}

func decodeReference(b []byte) (*blobReference, error) {
	if len(b) != referenceBytes || b[0] != referenceVersion {
		return nil, fmt.Errorf("%w: a reference to a file in %s is not what was written; restore it from a backup", kv.ErrCorrupt, BlobDir)
	}
	r := &blobReference{keyID: binary.BigEndian.Uint64(b[1:]), size: int(binary.BigEndian.Uint32(b[1+keyIDBytes:]))}
	copy(r.address[:], b[1+keyIDBytes+4:])
	if r.size > kv.MaxValueBytes {
		return nil, fmt.Errorf("%w: a reference names a value of %d bytes; restore it from a backup", kv.ErrCorrupt, r.size)
	}
	return r, nil
}

// errBlobMissing is the error for a reference without a file: the entry was deleted
// after it was read, or the store is damaged.
var errBlobMissing = errors.New("the file of a large value is missing")

// blobs are the large values of a store.
type blobs struct {
	dir      string // of the store
	least    int    // blobBytes; tests set less
	keys     *keyring
	syncFile func(*os.File) error   // (*os.File).Sync; tests watch it
	syncDir  func(dir string) error // syncDir, likewise

	// inCommit is held for reading from before a blob is written until the commit that
	// refers to it has ended. An erasure locks it for writing to wait for those
	// commits.
	inCommit sync.RWMutex

	mu      sync.Mutex
	pinned  map[string]*blobPin // by path
	touched map[string]bool     // paths that commits named since the collection began; nil while no collection runs
	overrun bool                // commits named more paths than touched may hold
	ready   map[string]bool     // directories that exist and are synced
}

// blobPin protects a blob from removal while commits that refer to it run.
type blobPin struct {
	commits  int
	made     bool // one of these commits wrote the file
	referred bool // one of these commits succeeded, or may have
}

func newBlobs(dir string, keys *keyring) *blobs {
	return &blobs{dir: dir, least: blobBytes, keys: keys, syncFile: (*os.File).Sync, syncDir: syncDir, pinned: map[string]*blobPin{}, ready: map[string]bool{}}
}

func (b *blobs) root() string { return filepath.Join(b.dir, BlobDir) }

// partitionDir is the directory of a partition's blobs. Its name is a digest, with the
// key file's salt if the store is encrypted, and does not show the partition's name.
func (b *blobs) partitionDir(partition string) string {
	if b.keys.seals() {
		return filepath.Join(b.root(), b.keys.digest(partition))
	}
	sum := sha256.Sum256([]byte(partition))
	return filepath.Join(b.root(), hex.EncodeToString(sum[:16]))
}

// path returns the path of a blob.
func (b *blobs) path(partition string, address [addressBytes]byte) string {
	name := hex.EncodeToString(address[:])
	return filepath.Join(b.partitionDir(partition), name[:2], name)
}

// relative returns a path as errors name it.
func (b *blobs) relative(path string) string {
	if name, err := filepath.Rel(b.dir, path); err == nil {
		return filepath.ToSlash(name)
	}
	return filepath.Base(path)
}

// addressOf returns the address of a value under a key; without one, under a key that
// is derived from the partition's name.
func addressOf(partition string, key *datakey.Key, value []byte) (address [addressBytes]byte, err error) {
	var derived []byte
	if key != nil {
		if derived, err = hkdf.Key(sha256.New, key.Raw(), nil, addressInfo, sha256.Size); err != nil {
			return address, err
		}
	} else {
		derived = append([]byte(addressInfo), partition...)
	}
	mac := hmac.New(sha256.New, derived)
	mac.Write(value)
	mac.Sum(address[:0])
	return address, nil
}

// blobPlace returns the additional data of a blob's seal.
func blobPlace(partition string, address [addressBytes]byte) []byte {
	b := append([]byte{ownSpace, 'b', byte(len(partition))}, partition...)
	return append(b, address[:]...)
}

// read returns the value that a reference of a partition names.
func (b *blobs) read(partition string, raw []byte) ([]byte, error) {
	ref, err := decodeReference(raw)
	if err != nil {
		return nil, err
	}
	var key *datakey.Key
	if ref.keyID != 0 {
		if key = b.keys.keyOf(partition, ref.keyID); key == nil {
			return nil, errNoDataKey
		}
	}
	path := b.path(partition, ref.address)
	content, err := readBlobFile(path, ref.size+sealOverhead)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w: %s; restore it from a backup", kv.ErrCorrupt, errBlobMissing, b.relative(path))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", b.relative(path), fileError(err))
	}
	value, err := openBlob(partition, ref, key, content)
	if err != nil {
		return nil, fmt.Errorf("%w: file %s is not what was written; restore it from a backup", kv.ErrCorrupt, b.relative(path))
	}
	return value, nil
}

// readBlobFile reads a file of at most limit bytes.
func readBlobFile(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := min(info.Size(), int64(limit)+1) // one more, to detect a longer file
	content := make([]byte, size)
	if _, err := io.ReadFull(f, content); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return content, nil
}

// openBlob returns the value in a file's content, unsealed.
func openBlob(partition string, ref *blobReference, key *datakey.Key, content []byte) (value []byte, err error) {
	value = content
	if key != nil {
		if value, err = key.Open(content, blobPlace(partition, ref.address)); err != nil {
			return nil, err
		}
	}
	address, err := addressOf(partition, key, value)
	if err != nil {
		return nil, err
	}
	if len(value) != ref.size || !hmac.Equal(address[:], ref.address[:]) {
		return nil, kv.ErrCorrupt
	}
	return value, nil
}

// write makes sure that a synced file has the value, and returns the value's reference
// and the path. It has pinned the path: the caller unpins it when the commit has ended,
// also if write fails.
func (b *blobs) write(partition string, value []byte) (ref *blobReference, path string, err error) {
	ref = &blobReference{size: len(value)}
	var key *datakey.Key
	if b.keys.seals() {
		if ref.keyID, key = b.keys.latestKey(partition); key == nil {
			return nil, "", errNoDataKey
		}
	}
	if ref.address, err = addressOf(partition, key, value); err != nil {
		return nil, "", err
	}
	path = b.path(partition, ref.address)
	b.pin(path)
	if b.holds(path, partition, ref, key, value) {
		return ref, path, nil
	}
	content := value
	if key != nil {
		if content, err = key.Seal(nil, value, blobPlace(partition, ref.address)); err != nil {
			return nil, path, err
		}
	}
	if err := b.writeFile(path, content); err != nil {
		return nil, path, fileError(err)
	}
	return ref, path, nil
}

// holds reports whether the file at path has the value already, and then makes the file
// durable: the commit that wrote it may not have ended.
func (b *blobs) holds(path, partition string, ref *blobReference, key *datakey.Key, value []byte) bool {
	content, err := readBlobFile(path, ref.size+sealOverhead)
	if err != nil {
		return false
	}
	stored, err := openBlob(partition, ref, key, content)
	if err != nil || !bytes.Equal(stored, value) {
		return false
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return errors.Join(b.syncFile(f), f.Close(), b.syncDir(filepath.Dir(path)), b.prepareDir(filepath.Dir(path))) == nil
}

// writeFile writes a temporary file, syncs it, renames it to path and syncs the
// directory.
func (b *blobs) writeFile(path string, content []byte) (err error) {
	temps := filepath.Join(b.root(), blobTempDir)
	for _, dir := range []string{temps, filepath.Dir(path)} {
		if err := b.prepareDir(dir); err != nil {
			return err
		}
	}
	f, err := os.CreateTemp(temps, "*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	_, werr := f.Write(content)
	if err := errors.Join(werr, b.syncFile(f), f.Close()); err != nil {
		return err
	}
	b.mu.Lock()
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		b.pinned[path].made = true
	}
	b.mu.Unlock()
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return b.syncDir(filepath.Dir(path))
}

// prepareDir makes a directory of blobs, durably.
func (b *blobs) prepareDir(dir string) error {
	b.mu.Lock()
	ready := b.ready[dir]
	b.mu.Unlock()
	if ready {
		return nil
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	// Another goroutine or a killed process may have made dir and not synced its name.
	for at := dir; at != b.dir; at = filepath.Dir(at) {
		if err := b.syncDir(filepath.Dir(at)); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) >= maxReadyDirs {
		clear(b.ready)
	}
	b.ready[dir] = true
	return nil
}

// maxReadyDirs bounds the directories that the store remembers as existing.
const maxReadyDirs = 64 << 10

func (b *blobs) pin(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pinned[path]
	if p == nil {
		p = &blobPin{}
		b.pinned[path] = p
	}
	p.commits++
	switch {
	case b.touched == nil:
	case len(b.touched) >= maxTouched:
		b.overrun = true
	default:
		b.touched[path] = true
	}
}

// unpin ends a commit's use of a blob. The last commit removes a new blob if none of
// the commits that named it succeeded.
func (b *blobs) unpin(path string, referred bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pinned[path]
	p.referred = p.referred || referred
	if p.commits--; p.commits > 0 {
		return
	}
	delete(b.pinned, path)
	if p.made && !p.referred {
		_ = os.Remove(path) // or else the next collection removes it
	}
}

// removeTemps removes the temporary files of killed processes.
func (b *blobs) removeTemps() error {
	return fileError(os.RemoveAll(filepath.Join(b.root(), blobTempDir)))
}
