package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The bounds of a [Tree].
const (
	maxTreeFiles = 10_000
	maxTreeDepth = 16
)

// Tree is a file, or a directory with everything below it but hidden files,
// modules (.wasm), what compilers of other languages keep (node_modules, and target beside a
// Cargo.toml) and editors' temporary files.
type Tree struct {
	root string
	seen [sha256.Size]byte
}

// NewTree returns a tree in its present state.
func NewTree(root string) *Tree {
	t := &Tree{root: root}
	t.seen, _ = t.look() // a root that does not exist yet has changed when it does
	return t
}

// Changed reports whether the tree has changed since the last call, or since
// NewTree. A tree whose root is missing, as between the two steps of a careless
// replacement, has not. It must not be called by two goroutines at once.
func (t *Tree) Changed() bool {
	now, err := t.look()
	if err != nil || now == t.seen {
		return false
	}
	t.seen = now
	return true
}

// Newest returns the time of the youngest file of a tree, zero if it has none.
func Newest(root string) (newest time.Time, err error) {
	err = walk(root, func(_ string, info fs.FileInfo) {
		if t := info.ModTime(); t.After(newest) {
			newest = t
		}
	})
	return newest, err
}

var errTooMany = errors.New("too many files")

// look returns a digest of the files' names, sizes and times.
func (t *Tree) look() (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = walk(t.root, func(path string, info fs.FileInfo) {
		h.Write([]byte(path))
		var b [17]byte
		binary.LittleEndian.PutUint64(b[1:], uint64(info.Size()))
		binary.LittleEndian.PutUint64(b[9:], uint64(info.ModTime().UnixNano()))
		h.Write(b[:])
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

// walk calls f for each file of a tree.
func walk(root string, f func(path string, info fs.FileInfo)) error {
	n := 0
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && ignored(path, d, root) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if n++; n > maxTreeFiles {
			return errTooMany
		}
		info, err := os.Stat(path) // follows links
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		f(path, info)
		return nil
	})
}

func ignored(path string, d fs.DirEntry, root string) bool {
	name := d.Name()
	depth := strings.Count(strings.TrimPrefix(path, root), string(filepath.Separator))
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".wasm") ||
		strings.HasPrefix(name, "#") || name == "4913" || name == "node_modules" || depth > maxTreeDepth ||
		name == "target" && d.IsDir() && isFile(filepath.Join(filepath.Dir(path), "Cargo.toml"))
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
