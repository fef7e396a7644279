package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// OpenToRead opens data for a caller that changes nothing: as [OpenShared]
// does and, if this user can only read a directory, by a copy in a temporary directory, which is
// removed when the directory is closed: opening a store writes to it, also to recover
// from a crash. notify is called with the size of a copy, in bytes.
func OpenToRead(ctx context.Context, address string, options *Options, notify func(copied int64)) (*Dir, error) {
	d, err := OpenShared(ctx, address, options)
	at, parseErr := ParseAddress(address)
	if parseErr != nil || at.IsDatabase() || !errors.Is(err, kv.ErrReadOnly) {
		return d, err
	}
	return OpenCopy(ctx, at.Dir(), options, notify)
}

// OpenCopy opens a copy of a data directory that no process has open. The copy is
// removed when the directory is closed. Code resource_exhausted, before anything is
// copied, if the store is larger than Options.MaxCopyBytes, or if the temporary directory
// has no room for it.
func OpenCopy(ctx context.Context, dir string, options *Options, notify func(copied int64)) (_ *Dir, err error) {
	if err := checkCopy(dir, options.filled().MaxCopyBytes); err != nil {
		return nil, err
	}
	copied, err := os.MkdirTemp("", "agenthost-read")
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "copy %s, which this user can only read: %w", dir, err).WithHint("name a directory for it in TMPDIR")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(copied))
		}
	}()
	size, err := copyStore(ctx, StorePath(copied), StorePath(dir))
	if err != nil {
		return nil, err
	}
	notify(size)
	d, err := openNow(copied, options)
	if err != nil {
		return nil, err
	}
	d.remove = func() error { return os.RemoveAll(copied) }
	return d, nil
}

// checkCopy refuses a copy of a data directory's store that would be larger than most
// bytes, or than the temporary directory has room for: the files, and the bytes that a
// store needs to open.
func checkCopy(dir string, most int64) error {
	size, err := storedBytes(StorePath(dir))
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "copy %s, which this user can only read: %w", dir, err).WithHint("is every file of it readable?")
	}
	if size > most {
		return host.Errorf(host.ResourceExhausted, "copy %s, which this user can only read: its store has %s, and at most %s are copied (MaxCopyBytes)", dir, mebibytes(size), mebibytes(most)).
			WithHint("run this as a user that can write to the directory, or copy it yourself and name the copy with --data")
	}
	free, known := freeBytes(os.TempDir())
	return checkRoom(dir, os.TempDir(), size, free, known)
}

// checkRoom refuses a copy of size bytes into temp if too few bytes are free there.
func checkRoom(dir, temp string, size int64, free uint64, known bool) error {
	need := uint64(size) + badgerkv.DefaultMinFree
	if !known || free >= need {
		return nil
	}
	return host.Errorf(host.ResourceExhausted, "copy %s, which this user can only read: %s has %s free, and the copy takes %s", dir, temp, mebibytes(int64(free)), mebibytes(int64(need))).
		WithHint("name a directory with more room in TMPDIR, or run this as a user that can write to the data directory")
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }

// storedBytes returns how many bytes the files of a store have on their device. Most of
// the log of a store that was not closed is a hole.
func storedBytes(dir string) (size int64, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += allocatedBytes(info)
		}
		return err
	})
	return size, err
}

// copyStore copies the files of a store that no process has open, and returns their
// size in bytes.
func copyStore(ctx context.Context, to, from string) (size int64, err error) {
	if from, err = filepath.EvalSymlinks(from); err != nil { // the directory may be a link to another disk
		return 0, host.Errorf(host.FailedPrecondition, "copy a data directory that this user can only read: %w", err)
	}
	unlock, err := lockToRead(from)
	if err != nil {
		return 0, err
	}
	defer unlock()
	err = filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fault.ContextError(ctx)
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, below), 0o700)
		}
		if d.Type()&fs.ModeSymlink != 0 { // without the link's target the copy would be incomplete
			return host.Errorf(host.FailedPrecondition, "%s is a symbolic link, which is not copied, and this user can only read the data directory", name).
				WithHint("run this as a user that can write to it")
		}
		if !d.Type().IsRegular() {
			return nil // a socket or another special file, not the store's
		}
		n, err := copySparse(filepath.Join(to, below), name)
		size += n
		return err
	})
	var known *host.Error
	if err != nil && !errors.As(err, &known) {
		err = host.Errorf(host.FailedPrecondition, "copy a data directory that this user can only read: %w", err).
			WithHint("is every file of it readable, and is there room in TMPDIR?")
	}
	return size, err
}

// copySparse copies a file and leaves out the blocks without content: the log of a
// store that was not closed has gigabytes of them. It returns how many bytes it
// wrote.
func copySparse(to, from string) (written int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	const block = 64 << 10
	b, zeros, at := make([]byte, block), make([]byte, block), int64(0)
	for {
		n, err := io.ReadFull(in, b)
		if n > 0 && !bytes.Equal(b[:n], zeros[:n]) {
			if _, err := out.WriteAt(b[:n], at); err != nil {
				return written, err
			}
			written += int64(n)
		}
		at += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return written, out.Truncate(at)
		}
		if err != nil {
			return written, err
		}
	}
}
