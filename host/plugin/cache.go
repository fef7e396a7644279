package plugin

import (
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host"
)

// openCache makes the directory for compiled code and refuses one that others can
// write: whoever writes there runs code in this process.
func (rt *Runtime) openCache() error {
	dir := rt.opts.CacheDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return host.Errorf(host.FailedPrecondition, "open plugin cache: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "open plugin cache: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return host.Errorf(host.FailedPrecondition, "plugin cache %s can be written by others", dir).
			WithHint("it holds executable code; run: chmod 700 %s", dir)
	}
	return nil
}

// DefaultCacheDir returns the directory for compiled code that belongs to this
// user.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", host.Errorf(host.FailedPrecondition, "find cache directory: %w", err)
	}
	return filepath.Join(dir, "agenthost", "wasm"), nil
}
