//go:build unix

package modulecache

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/agenthost/agenthost/host/fault"
)

// checkPrivate refuses a directory that another user owns or can write.
func checkPrivate(dir string, info fs.FileInfo) error {
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !info.IsDir():
		return fault.Errorf(fault.FailedPrecondition, "plugin cache %s is not a directory", dir).WithHint("name another, or remove it")
	case ok && int64(stat.Uid) != int64(os.Geteuid()):
		return fault.Errorf(fault.FailedPrecondition, "plugin cache %s belongs to another user (%d)", dir, stat.Uid).
			WithHint("it holds executable code; name a directory of your own")
	case info.Mode().Perm()&0o022 != 0:
		return fault.Errorf(fault.FailedPrecondition, "plugin cache %s can be written by others", dir).
			WithHint("it holds executable code; run: chmod 700 %s", dir)
	}
	return nil
}
