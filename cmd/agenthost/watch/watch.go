// Package watch tells when files have changed, by looking at them: a look costs
// a few system calls a file, works on every file system, and sees a file that an
// editor has put in the place of another.
package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The bounds of a look.
const (
	Interval = 250 * time.Millisecond // between two looks
	MaxFiles = 10_000                 // of one tree
	maxDepth = 16
)

// Tree is a file, or a directory with everything below it but hidden files,
// modules (.wasm) and what editors leave behind.
type Tree struct {
	root string
	seen [sha256.Size]byte
}

// New returns a tree as it is now.
func New(root string) *Tree {
	t := &Tree{root: root}
	t.seen, _ = t.look() // what is not there yet has changed when it comes
	return t
}

// Changed reports whether the tree has changed since it was last asked, or made.
// A tree that is not there, as between the two steps of a careless replacement,
// has not: it is asked again.
func (t *Tree) Changed() bool {
	now, err := t.look()
	if err != nil || now == t.seen {
		return false
	}
	t.seen = now
	return true
}

var errTooMany = errors.New("too many files")

// look returns a digest of what tells one state of the files from another.
func (t *Tree) look() (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	n := 0
	err = filepath.WalkDir(t.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != t.root && passedOver(path, d, t.root) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if n++; n > MaxFiles {
			return errTooMany
		}
		info, err := os.Stat(path) // where a link leads
		if errors.Is(err, fs.ErrNotExist) && path != t.root {
			return nil // went meanwhile
		}
		if err != nil {
			return err
		}
		h.Write([]byte(path))
		var b [17]byte
		binary.LittleEndian.PutUint64(b[1:], uint64(info.Size()))
		binary.LittleEndian.PutUint64(b[9:], uint64(info.ModTime().UnixNano()))
		h.Write(b[:])
		return nil
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

func passedOver(path string, d fs.DirEntry, root string) bool {
	name := d.Name()
	depth := strings.Count(strings.TrimPrefix(path, root), string(filepath.Separator))
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".wasm") ||
		strings.HasPrefix(name, "#") || name == "4913" || name == "node_modules" || depth > maxDepth
}

// Poll calls look every interval (0: [Interval]) until ctx ends.
func Poll(ctx context.Context, interval time.Duration, look func()) {
	ticks := time.NewTicker(cmp.Or(interval, Interval))
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			look()
		case <-ctx.Done():
			return
		}
	}
}
