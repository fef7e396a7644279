// Package testdir has the test programs that write most keep their directories in memory.
// Their tests end processes, not machines, so that a disk that is waited for at each commit
// shows nothing and takes most of the time.
package testdir

import (
	"os"
	"runtime"
	"testing"
)

// minFree is the free memory from which a test program is content with it.
const minFree = 4 << 30

// InMemory has [testing.T.TempDir] and [os.MkdirTemp] of this process and its children make
// directories in memory, unless TMPDIR says where they are. It changes nothing on a system
// without such a file system, or with one that is too small or runs no programs. TestMain
// calls it, before anything else.
func InMemory() {
	if dir := memory(); dir != "" && os.Getenv("TMPDIR") == "" {
		_ = os.Setenv("TMPDIR", dir) // fails for names that cannot be set
	}
}

// OnDisk returns a directory that is removed with the test and is not in memory where the
// system has another place that survives it, for a test of what has reached the device.
func OnDisk(t testing.TB) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/var/tmp", "agenthost-test-") // which survives a reboot
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
