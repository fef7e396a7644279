package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
)

// DefaultCacheBytes is how much compiled code is kept on disk: that of about 100
// plugins in Go, or of 10,000 in Rust.
const DefaultCacheBytes = 1 << 30

// codeCache keeps compiled code, and the metered modules that it was made of, in a
// directory. It is native code that this process runs, so that a user who can write
// there has this process's rights.
//
// Each module has an entry, a directory named by its key, with the file that
// wazero wrote and a seal that says what that file must be. An entry is made
// under another name and renamed when it is whole. An entry that differs from its
// seal (damaged, cut off, of another key, with files more or less) is removed
// and made again. Any number of processes may use one directory at once.
type codeCache struct {
	dir     string
	most    int64  // bytes
	machine string // that code made here is for, see fingerprint
}

// cacheFormat changes with the layout of an entry, and with engineConfig.
const cacheFormat = "agenthost code 1"

// sealFile is the seal's name in an entry.
const sealFile = "seal"

// seal describes an entry. It detects damage and mistakes that wazero's own check, 32
// bits over a part of the file, does not; a user who can write a file here can write
// its seal.
type seal struct {
	Key    string `json:"key"`
	Name   string `json:"name"` // of wazero's file, relative to the entry
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// openCache opens the directory of Options.CacheDir, and refuses one that is not
// this user's alone.
func openCache(dir string, most int64) (*codeCache, error) {
	switch {
	case most < 0:
		return nil, host.Errorf(host.InvalidArgument, "CacheBytes is %d", most).WithHint("leave it out for the default")
	case most == 0:
		most = DefaultCacheBytes
	}
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "open plugin cache: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "open plugin cache: %w", err)
	}
	if err := checkPrivate(dir, info); err != nil {
		return nil, err
	}
	machine, err := fingerprint(dir)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "open plugin cache %s: %w", dir, err)
	}
	return &codeCache{dir: dir, most: most, machine: machine}, nil
}

// fingerprint identifies code for this machine and this version of wazero: the name
// that wazero gives to a module without functions. It holds the version, the
// architecture and the processor's features.
func fingerprint(dir string) (string, error) {
	tmp, err := os.MkdirTemp(dir, buildPrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := compileInto(tmp, []byte("\x00asm\x01\x00\x00\x00")); err != nil {
		return "", err
	}
	return codeFile(tmp)
}

// key names the entry of a metered module. The metered bytes hold whatever the
// module was made from: the original, the metering pass, and the limits that are
// written into code.
func (c *codeCache) key(metered [sha256.Size]byte) string {
	h := sha256.New()
	_, _ = io.WriteString(h, cacheFormat+"\x00"+filepath.ToSlash(c.machine)+"\x00")
	_, _ = h.Write(metered[:])
	return hex.EncodeToString(h.Sum(nil))
}

// get returns the directory of an entry, "" if the cache has none. An entry that
// differs from its seal is removed.
func (c *codeCache) get(key string) string {
	dir := filepath.Join(c.dir, key)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if verify(dir, key) != nil {
		c.remove(dir)
		return ""
	}
	c.use(dir)
	return dir
}

// use notes that an entry is used.
func (c *codeCache) use(dir string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, sealFile), now, now) // else it looks older than it is
}

// add makes an entry of a directory that code was compiled into. An entry of the
// same key by another process is as good.
func (c *codeCache) add(key, built string) error {
	if err := writeSeal(built, key); err != nil {
		return host.Errorf(host.Internal, "seal compiled code: %w", err)
	}
	return c.place(key, built)
}

// place gives a sealed directory its name.
func (c *codeCache) place(key, built string) error {
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
	return host.Errorf(host.FailedPrecondition, "keep a plugin in %s: what is there cannot be replaced", dir).
		WithHint("remove the directory; what it holds is made again")
}

// remove hides an entry from other processes at once, and then removes its files.
func (c *codeCache) remove(dir string) {
	tmp, err := os.MkdirTemp(c.dir, buildPrefix)
	if err != nil {
		return
	}
	_ = os.Rename(dir, filepath.Join(tmp, "removed")) // there may be none
	_ = os.RemoveAll(tmp)                             // a later sweep finds the rest
}

// writeSeal seals the compiled code in a directory.
func writeSeal(dir, key string) error {
	name, err := codeFile(dir)
	if err != nil {
		return err
	}
	s := seal{Key: key, Name: filepath.ToSlash(name)}
	if s.Size, s.SHA256, err = digestFile(filepath.Join(dir, name)); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sealFile), b, 0o600)
}

// maxSeal bounds a seal's file.
const maxSeal = 4 << 10

// errSeal says that an entry is damaged or another's.
var errSeal = errors.New("an entry is not what its seal says")

// readSeal reads the seal of an entry that belongs to this user alone.
func readSeal(dir string) (s seal, err error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return s, err
	}
	if err := checkPrivate(dir, info); err != nil {
		return s, err
	}
	b, err := readAtMost(filepath.Join(dir, sealFile), maxSeal)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

// verify returns why an entry is not what its key promises, nil if it is.
func verify(dir, key string) error {
	s, err := readSeal(dir)
	if err != nil {
		return err
	}
	name, err := codeFile(dir)
	if err != nil {
		return err
	}
	size, digest, err := digestFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if is := (seal{key, filepath.ToSlash(name), size, digest}); is != s {
		return errSeal
	}
	return nil
}

// codeFile returns the one file that wazero wrote into a directory, relative to
// it. A seal may stand beside it, and nothing else.
func codeFile(dir string) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range list {
		if e.Name() == sealFile {
			continue
		}
		inner, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		for _, f := range inner {
			if !f.Type().IsRegular() {
				return "", errors.New("an entry holds what is not a file")
			}
			found = append(found, filepath.Join(e.Name(), f.Name()))
		}
	}
	if len(found) != 1 {
		return "", host.Errorf(host.Internal, "there are %d files of code, not one", len(found))
	}
	return found[0], nil
}

func digestFile(path string) (size int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 256<<10))
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// buildPrefix begins the names of directories that are being made or removed.
const buildPrefix = "tmp-"

// abandoned is the age from which such a directory counts as left by a dead process.
const abandoned = time.Hour

// sweep removes the least recently used entries until the rest is within the limit,
// and the abandoned half-made directories. The entry that was just added stays.
func (c *codeCache) sweep(added string) {
	entries, total := c.entries()
	slices.SortFunc(entries, func(a, b cacheEntry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= c.most {
			return
		}
		if e.key != added {
			c.remove(filepath.Join(c.dir, e.key))
			total -= e.size
		}
	}
}

// cacheEntry describes an entry for a sweep.
type cacheEntry struct {
	key  string
	size int64
	used time.Time
}

// entries lists the entries and their total size, and removes abandoned directories
// on the way.
func (c *codeCache) entries() (list []cacheEntry, total int64) {
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
			e := cacheEntry{n.Name(), treeSize(path), info.ModTime()}
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

// DefaultCacheDir returns the directory for compiled code that belongs to this
// user.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", host.Errorf(host.FailedPrecondition, "find cache directory: %w", err)
	}
	return filepath.Join(dir, "agenthost", "wasm"), nil
}
