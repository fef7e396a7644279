package project

import (
	"os"
	"path/filepath"
	"testing"
)

// writeProjectFile writes a file of a project.
func writeProjectFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
