package badgerkv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// A file in a store's directory names the store's format, so that the package neither
// writes into another program's directory nor misreads a newer version's. It is written
// before Badger makes its first file.
const (
	formatFile   = "FORMAT"
	formatName   = "agenthost-badgerkv"
	plainFormat  = 1 // of a store without a key, or one made before there were data keys
	sealedFormat = 2 // values are sealed with data keys, which are in [KeyFile]
	// Formats of stores that have an inventory and may have large values in [BlobDir]:
	// of every store that this version has opened.
	plainBlobFormat  = 3
	sealedBlobFormat = 4
	formatVersion    = sealedBlobFormat

	formatTemp    = formatFile + ".tmp*"
	maxFormatSize = 256
	lockFile      = "LOCK" // Badger's, with the id of the process
	maxLockSize   = 32
)

// prepareDir makes sure that dir is a directory which is a store or may become
// one, and returns its absolute path.
func prepareDir(dir string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("%w: no directory is named", kv.ErrInvalid)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return "", fmt.Errorf("%w: it is not a directory; name a directory for the store", kv.ErrInvalid)
	}
	if err := makeDir(abs); err != nil {
		return "", fileError(err)
	}
	if err := probe(abs); err != nil {
		return "", fileError(err)
	}
	return abs, checkFormat(abs)
}

// makeDir makes dir and its missing parents, and syncs each new name: a commit is not
// durable in a directory that the next start does not find.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the names in dir durable, where the system supports it and permits it
// to this user.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	if err := f.Sync(); errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// probe creates a file in dir and removes it.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, formatTemp)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkFormat reads the format of the store in dir, or writes it if dir is
// empty.
func checkFormat(dir string) error {
	path := filepath.Join(dir, formatFile)
	b, err := readSmall(path, maxFormatSize)
	if errors.Is(err, fs.ErrNotExist) {
		if err := checkEmpty(dir); err != nil {
			return err
		}
		return fileError(writeFormat(path, plainFormat))
	}
	if err != nil {
		return fileError(err)
	}
	_, err = parseFormat(b)
	return err
}

// readFormat returns the format of the store in dir.
func readFormat(dir string) (int, error) {
	b, err := readSmall(filepath.Join(dir, formatFile), maxFormatSize)
	if err != nil {
		return 0, fileError(err)
	}
	return parseFormat(b)
}

// isSealedFormat reports whether the values of a store are sealed.
func isSealedFormat(format int) bool { return format == sealedFormat || format == sealedBlobFormat }

// isMade reports whether Badger has made its files in dir.
func isMade(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	return err == nil
}

func parseFormat(b []byte) (int, error) {
	name, version, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	n, err := strconv.Atoi(version)
	switch {
	case name != formatName || err != nil || n < 1:
		return 0, fmt.Errorf("%w: its file %s has %q instead of %q; name another directory",
			kv.ErrFormat, formatFile, b, formatLine(formatVersion))
	case n > formatVersion:
		return 0, fmt.Errorf("%w: it has format %d, this version knows up to %d; open it with the version that wrote it, or a newer one",
			kv.ErrFormat, n, formatVersion)
	}
	return n, nil
}

func formatLine(version int) string { return fmt.Sprintf("%s %d", formatName, version) }

// checkEmpty refuses a directory that has another program's files.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fileError(err)
	}
	for _, e := range entries {
		temp, _ := filepath.Match(formatTemp, e.Name())
		if temp || e.Name() == "lost+found" {
			continue
		}
		return fmt.Errorf("%w: the directory is not a store and has files in it (%q); name an empty directory",
			kv.ErrFormat, e.Name())
	}
	return nil
}

// writeFormat writes the file atomically. Two processes may do so at once; they write
// the same.
func writeFormat(path string, version int) error {
	return replaceFile(path, formatTemp, []byte(formatLine(version)+"\n"))
}

// readSmall reads at most limit bytes of a file.
func readSmall(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, limit)
	n, err := f.Read(b)
	if n == 0 && err != nil {
		return nil, nil // the caller reports an empty file
	}
	return b[:n], nil
}

// fileError translates an error of the file system; nil stays nil.
func fileError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w; make the directory writable for this user, or name another", kv.ErrReadOnly, err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %w; name a directory for the store", kv.ErrInvalid, err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: %w; free some, or name a directory on another device", kv.ErrNoSpace, err)
	default:
		return err
	}
}

// openError translates Badger's errors on opening. Badger formats the underlying errors
// into texts, so openError matches the texts; the tests of this package pin them.
func openError(dir string, err error) error {
	text := err.Error()
	switch {
	case containsAny(text, "using this Badger database"):
		return lockedError(dir)
	case containsAny(text, "permission denied", "read-only file system"):
		return fmt.Errorf("%w: %v; make its files writable for this user", kv.ErrReadOnly, err)
	case containsAny(text, "no space left"):
		return fmt.Errorf("%w: %v; free some", kv.ErrNoSpace, err)
	case containsAny(text, "checksum", "magic", "corrupt", "does not exist"):
		return fmt.Errorf("%w: %v; restore it from a backup", kv.ErrCorrupt, err)
	default:
		return err
	}
}

// readError translates Badger's error on reading a value.
func readError(err error) error {
	if containsAny(err.Error(), "checksum", "corrupt") {
		return fmt.Errorf("%w: %v; restore it from a backup", kv.ErrCorrupt, err)
	}
	return err
}

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// lockedError names the process that has the store open, if it is known.
func lockedError(dir string) error {
	b, err := readSmall(filepath.Join(dir, lockFile), maxLockSize)
	pid, perr := strconv.Atoi(string(bytes.TrimSpace(b)))
	switch {
	case err != nil || perr != nil:
		return fmt.Errorf("%w by another process; stop it, or name another directory", kv.ErrLocked)
	case pid == os.Getpid():
		return fmt.Errorf("%w by this process; use the store that is open, or close it first", kv.ErrLocked)
	default:
		return &kv.LockedError{Process: pid}
	}
}
