//go:build unix

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// lockToRead keeps other processes from opening the store in dir until unlock, by the
// lock on the directory, which needs no write permission. Code failed_precondition if
// another process has the store open.
func lockToRead(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read the data directory: %w", err).WithHint("make it readable for this user")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			e := host.Errorf(host.FailedPrecondition, "the data directory is in use, and this user can only read it").
				WithHint("stop the process that has it open, or run this as its user")
			e.Err = kv.ErrReadOnly
			return nil, e
		}
		return func() {}, nil // a file system without locks
	}
	return func() { _ = f.Close() }, nil
}

// allocatedBytes returns how many bytes a file has on its device, at most its size: a
// file may have more blocks than content.
func allocatedBytes(info fs.FileInfo) int64 {
	const block = 512 // of stat, whatever the device has
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(info.Size(), int64(st.Blocks)*block)
	}
	return info.Size()
}
