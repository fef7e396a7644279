package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// openToRead opens the store of a data directory for a command that changes
// nothing: as openAny does, and, if this user can only read it, by a copy in a
// temporary directory, which goes when the store is closed. Opening a store writes
// to it, also to mend what a crash has left.
func (env *environment) openToRead(ctx context.Context, dir string, opts *badgerkv.Options) (*store, error) {
	s, err := env.openWith(dir, opts)
	if !errors.Is(err, kv.ErrReadOnly) {
		return orShared(ctx, s, err, dir)
	}
	return env.openCopy(ctx, dir, opts)
}

func (env *environment) openCopy(ctx context.Context, dir string, opts *badgerkv.Options) (_ *store, err error) {
	copied, err := os.MkdirTemp("", "agenthost-read")
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "copy %s, which this user can only read: %w", dir, err).WithHint("name a directory for it in TMPDIR")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(copied))
		}
	}()
	size, err := copyStore(ctx, filepath.Join(copied, storeName), filepath.Join(dir, storeName))
	if err != nil {
		return nil, err
	}
	env.note("%s can only be read: this reads a copy of %s", dir, shortBytes(size))
	s, err := env.openWith(copied, opts)
	if err != nil {
		return nil, err
	}
	s.remove = func() error { return os.RemoveAll(copied) }
	return s, nil
}

// note tells something beside the output.
func (env *environment) note(format string, args ...any) {
	fmt.Fprintf(env.console(), "agenthost: "+format+"\n", args...)
}

// copyStore copies the files of a store that no process has open, and returns how
// many bytes they hold.
func copyStore(ctx context.Context, to, from string) (size int64, err error) {
	if from, err = filepath.EvalSymlinks(from); err != nil { // it may be a link to another disk
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
			return host.ContextError(ctx)
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, below), 0o700)
		}
		if d.Type()&fs.ModeSymlink != 0 { // without it the copy would be less than the store
			return host.Errorf(host.FailedPrecondition, "%s is a symbolic link, which is not copied, and this user can only read the data directory", name).
				WithHint("run this as a user that can write to it")
		}
		if !d.Type().IsRegular() {
			return nil // a socket, or what is not the store's
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

// readOptions are those of a store that a command reads.
func readOptions(logger *slog.Logger) *badgerkv.Options { return &badgerkv.Options{Logger: logger} }
