package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host"
)

// Stream lets write fill a temporary file, and renames it to path when it is whole
// and synced; until then, and if write fails, the old file stays.
func Stream(path string, write func(io.Writer) error) (err error) {
	aside, err := os.CreateTemp(filepath.Dir(path), ".agenthost*")
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "write %s: %w", path, err).WithHint("name a file in a directory that you may write to")
	}
	defer func() {
		if err != nil {
			_ = aside.Close()
			_ = os.Remove(aside.Name())
		}
	}()
	if err := write(aside); err != nil {
		return outError(path, err)
	}
	if err := errors.Join(aside.Sync(), aside.Close(), os.Rename(aside.Name(), path)); err != nil {
		return outError(path, err)
	}
	return nil
}

// outError names the file in an error that has no code of ours.
func outError(path string, err error) error {
	var known *host.Error
	if errors.As(err, &known) {
		return err
	}
	return host.Errorf(host.FailedPrecondition, "write %s: %w", path, err).WithHint("is there room, and may you write there?")
}

// Write writes a file that all users may read: see [WriteMode].
func Write(name string, b []byte) error { return WriteMode(name, b, 0o644) }

// WriteMode writes a file atomically: if it fails, the old file is unchanged.
func WriteMode(name string, b []byte, mode os.FileMode) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, werr := tmp.Write(b)
	if err := errors.Join(werr, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
