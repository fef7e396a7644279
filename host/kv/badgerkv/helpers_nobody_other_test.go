//go:build !linux

package badgerkv_test

import (
	"os"
	"testing"
)

// asNobody skips the test where file permissions do not count.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() <= 0 {
		t.Skip("wants a user other than root, on a system with file permissions")
	}
}
