package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Saw takes a state of the tree as that of the last call of Changed.
func (t *Tree) Saw(s *State) {
	if s.root == t.root {
		t.seen = s.sum
	}
}

// State is the files of a tree at a moment.
type State struct {
	root  string
	sum   [sha256.Size]byte
	files map[string]fileState
}

type fileState struct{ size, time int64 }

// Look returns the present state of the tree at root.
func Look(root string) (*State, error) {
	s := &State{root: root, files: map[string]fileState{}}
	var err error
	s.sum, err = look(root, func(path string, f fileState) { s.files[path] = f })
	return s, err
}

// ChangedIn returns the paths of the files that are different or gone in a later state,
// sorted. New files are not among them.
func (s *State) ChangedIn(later *State) (paths []string) {
	for path, f := range s.files {
		if l, ok := later.files[path]; !ok || l != f {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
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
func (t *Tree) look() ([sha256.Size]byte, error) { return look(t.root, func(string, fileState) {}) }

func look(root string, each func(path string, f fileState)) ([sha256.Size]byte, error) {
	h := sha256.New()
	err := walk(root, func(path string, info fs.FileInfo) {
		f := fileState{info.Size(), info.ModTime().UnixNano()}
		h.Write([]byte(path))
		var b [17]byte
		binary.LittleEndian.PutUint64(b[1:], uint64(f.size))
		binary.LittleEndian.PutUint64(b[9:], uint64(f.time))
		h.Write(b[:])
		each(path, f)
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
