package watch_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// cacheDir holds compiled modules for all tests: compiling takes most of the
// time.
var cacheDir string

func TestMain(m *testing.M) {
	var err error
	if cacheDir, err = os.MkdirTemp("", "watch"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(cacheDir) // a temporary directory
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
