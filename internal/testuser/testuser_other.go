//go:build !linux

package testuser

import (
	"os"
	"testing"
)

// Unprivileged skips the test where file permissions do not count.
func Unprivileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() <= 0 {
		t.Skip("wants a user other than root, on a system with file permissions")
	}
}
