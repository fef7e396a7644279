package modulecache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// defaultMaxBytes is the default size of a cache: the code of about 100 plugins in Go,
// or of 10,000 in Rust.
const defaultMaxBytes = 1 << 30

// Cache keeps compiled code and metered modules in a directory. It is safe for
// concurrent use, also by several processes.
//
// Each of them has an entry: a directory named by its key, with one file and a seal that
// describes the file.
type Cache struct {
	dir      string
	maxBytes int64
	engine   string // identifies the code that is made here, see fingerprint
}

// codeFormat changes with the layout of an entry, and with the engine's configuration.
const codeFormat = "agenthost code 1"

// Open opens the cache in a directory, which it makes if it is missing. compile compiles
// a module into an empty directory, as the caller's engine does; the file's name that
// results identifies engine and machine. maxBytes bounds the cache; 0 is 1 GiB. Without
// a directory the result is nil. Code failed_precondition for a directory that cannot be
// used or that is not this user's alone.
func Open(dir string, maxBytes int64, compile func(dir string, module []byte) error) (*Cache, error) {
	switch {
	case maxBytes < 0:
		return nil, fault.Errorf(fault.InvalidArgument, "CacheBytes is %d", maxBytes).WithHint("leave it out for the default")
	case maxBytes == 0:
		maxBytes = defaultMaxBytes
	}
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "open plugin cache: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "open plugin cache: %w", err)
	}
	if err := checkPrivate(dir, info); err != nil {
		return nil, err
	}
	c := &Cache{dir: dir, maxBytes: maxBytes}
	if c.engine, err = c.fingerprint(compile); err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "open plugin cache %s: %w", dir, err)
	}
	return c, nil
}

// fingerprint returns the name of the file that an engine makes of a module without
// functions. wazero's holds its version, the architecture and the processor's features.
func (c *Cache) fingerprint(compile func(dir string, module []byte) error) (string, error) {
	tmp, err := c.NewDir()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := compile(tmp, []byte("\x00asm\x01\x00\x00\x00")); err != nil {
		return "", err
	}
	return codeFile(tmp)
}

// NewDir makes an empty directory inside the cache, to compile into. The caller removes
// it; a later sweep removes those of processes that have died.
func (c *Cache) NewDir() (string, error) { return os.MkdirTemp(c.dir, buildPrefix) }

// Code returns the directory with the code of a metered module, given the SHA-256 of the
// module; "" if the cache has none. The directory stays until it is removed for space or
// by [Cache.RemoveCode], here or in another process.
func (c *Cache) Code(metered [sha256.Size]byte) string {
	key := c.codeKey(metered)
	dir := filepath.Join(c.dir, key)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if verify(dir, key) != nil {
		c.remove(dir)
		return ""
	}
	touch(dir)
	return dir
}

// AddCode makes an entry of a directory that the code of a metered module was compiled
// into. An entry that another process has made meanwhile is as good.
func (c *Cache) AddCode(metered [sha256.Size]byte, built string) error {
	key := c.codeKey(metered)
	if err := sealCode(built, key); err != nil {
		return fault.Errorf(fault.Internal, "seal compiled code: %w", err)
	}
	return c.publish(key, built)
}

// RemoveCode removes an entry whose code is of no use to the engine.
func (c *Cache) RemoveCode(metered [sha256.Size]byte) {
	c.remove(filepath.Join(c.dir, c.codeKey(metered)))
}

// codeKey names the entry of a metered module's code. The metered bytes hold everything
// that the module was made from: the original, the metering pass, and the limits that
// are written into code.
func (c *Cache) codeKey(metered [sha256.Size]byte) string {
	h := sha256.New()
	_, _ = io.WriteString(h, codeFormat+"\x00"+filepath.ToSlash(c.engine)+"\x00")
	_, _ = h.Write(metered[:])
	return hex.EncodeToString(h.Sum(nil))
}

// publish gives a sealed directory its name.
func (c *Cache) publish(key, built string) error {
	dir := filepath.Join(c.dir, key)
	for range 2 {
		if os.Rename(built, dir) == nil {
			c.sweep(key)
			return nil
		}
		if verify(dir, key) == nil {
			return nil
		}
		c.remove(dir)
	}
	return fault.Errorf(fault.FailedPrecondition, "keep a plugin in %s: what is there cannot be replaced", dir).
		WithHint("remove the directory; what it holds is made again")
}

// remove hides an entry from other processes at once, and then removes its files.
func (c *Cache) remove(dir string) {
	tmp, err := c.NewDir()
	if err != nil {
		return
	}
	_ = os.Rename(dir, filepath.Join(tmp, "removed")) // there may be none
	_ = os.RemoveAll(tmp)                             // a later sweep finds the rest
}

// buildPrefix begins the names of directories that are being made or removed.
const buildPrefix = "tmp-"

// abandoned is the age from which such a directory counts as left by a dead process.
const abandoned = time.Hour

// sweep removes the least recently used entries until the rest is within the limit,
// and the abandoned half-made directories. The entry that was just added stays.
func (c *Cache) sweep(added string) {
	entries, total := c.entries()
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= c.maxBytes {
			return
		}
		if e.key != added {
			c.remove(filepath.Join(c.dir, e.key))
			total -= e.size
		}
	}
}

// entry describes an entry for a sweep.
type entry struct {
	key  string
	size int64
	used time.Time
}

// entries lists the entries and their total size, and removes abandoned directories
// on the way.
func (c *Cache) entries() (list []entry, total int64) {
	names, _ := os.ReadDir(c.dir) // as much as can be read
	for _, n := range names {
		path := filepath.Join(c.dir, n.Name())
		info, err := n.Info()
		switch {
		case err != nil || !n.IsDir():
		case isBuild(n.Name()):
			if time.Since(info.ModTime()) > abandoned {
				_ = os.RemoveAll(path)
			}
		case isKey(n.Name()):
			e := entry{n.Name(), treeSize(path), info.ModTime()}
			if s, err := os.Stat(filepath.Join(path, sealFile)); err == nil {
				e.used = s.ModTime()
			}
			list, total = append(list, e), total+e.size
		}
	}
	return list, total
}

func isBuild(name string) bool { return strings.HasPrefix(name, buildPrefix) }

func isKey(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == sha256.Size
}

// treeSize adds up the files of a directory.
func treeSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
