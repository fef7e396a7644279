//go:build linux || darwin

package datadir

import "syscall"

// freeBytes returns how many bytes this user may still write on a directory's device.
func freeBytes(dir string) (free uint64, known bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
