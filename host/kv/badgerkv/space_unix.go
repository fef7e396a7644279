//go:build linux || darwin

package badgerkv

import (
	"os"
	"syscall"
)

// freeBytes returns the number of bytes that this user may still write on dir's device.
func freeBytes(dir string) (uint64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}

// dirsHaveLocks reports whether lockDir can succeed on this system.
const dirsHaveLocks = true

// lockDir takes the lock that Badger holds on the directory of an open store. ok is
// false if another process has the store open.
func lockDir(dir string) (unlock func(), ok bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, false
	}
	return func() {
		// Closing is not enough: a child process that is being started inherits the
		// open file, and with it the lock, until it executes its program.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		_ = f.Close()
	}, true
}
