package ui

import (
	"os"
	"path/filepath"
	"strings"
)

// Self returns the command that starts this program again: "go run" leaves no
// program behind.
func Self() string {
	file, err := os.Executable()
	if err == nil && strings.Contains(filepath.ToSlash(file), "/go-build") && strings.HasPrefix(file, os.TempDir()) {
		return "go run ./cmd/agenthost"
	}
	return "agenthost"
}
