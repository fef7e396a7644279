package badgerkv_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// nobody is the user that owns nothing.
const nobody = 65534

// asNobody makes the permissions of files count for the rest of the test even
// if it runs as root, for whom they do not. Only this thread changes its user,
// so what must be refused has to happen on the test's own goroutine.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	setfsuid(nobody)
	t.Cleanup(func() {
		setfsuid(0)
		runtime.UnlockOSThread()
	})
}

func setfsuid(uid int) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
}
