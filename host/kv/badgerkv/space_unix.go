//go:build linux || darwin

package badgerkv

import "syscall"

// freeBytes is the space that this user may still fill on dir's device.
func freeBytes(dir string) (uint64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
