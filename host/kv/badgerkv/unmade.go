package badgerkv

import (
	"fmt"
	"os"
	"path/filepath"
)

// removeUnmade removes the empty files of a process that was killed after Badger had
// created them and before it set their size, or after Badger had cut them off and before
// it removed them. Badger does not open a directory that has such files. For logs,
// checkLogs has found before that no commit was in them, or that a table has it. removeUnmade leaves the files of an open store to its process.
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
	entries, _ := os.ReadDir(dir) // Badger reports an unreadable directory
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
