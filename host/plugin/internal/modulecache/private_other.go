//go:build !unix

package modulecache

import (
	"io/fs"

	"github.com/agenthost/agenthost/host/fault"
)

// checkPrivate looks only whether it is a directory: here permissions are not in
// its mode. The directory must be this user's alone.
func checkPrivate(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fault.Errorf(fault.FailedPrecondition, "plugin cache %s is not a directory", dir).WithHint("name another, or remove it")
	}
	return nil
}
