package testuser

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// unprivileged is the id of the user "nobody", who owns no file.
const unprivileged = 65534

// Unprivileged makes the permissions of files count for the rest of the test even
// if it runs as root, for whom they do not. Only this thread changes its user,
// so the refused calls belong on the test's own goroutine.
func Unprivileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	setfsuid(unprivileged)
	t.Cleanup(func() {
		setfsuid(0)
		runtime.UnlockOSThread()
	})
}

func setfsuid(uid int) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
}
