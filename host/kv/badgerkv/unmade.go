package badgerkv

import (
	"fmt"
	"os"
	"path/filepath"
)

// removeUnmade removes the files that Badger had created and not given a size
// when its process was killed. They hold nothing, and Badger does not open a
// directory that has them. Those of a store that is open are left to who has it.
func removeUnmade(dir string) error {
	if len(unmade(dir)) == 0 {
		return nil
	}
	unlock, ok := lockDir(dir)
	if !ok {
		return nil
	}
	defer unlock()
	for _, path := range unmade(dir) {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("a file was not finished when a process ended, and cannot be removed: %w", fileError(err))
		}
	}
	return nil
}

// unmade returns the logs and memory tables of no size.
func unmade(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // Badger says what it cannot read
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".mem" && ext != ".vlog" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
