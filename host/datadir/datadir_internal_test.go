package datadir

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

func TestADataDirectoryOfOthersIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such bits")
	}
	for mode, refused := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o777: true, 0o770: true, 0o702: true} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		err := checkMode(dir)
		if !refused {
			if err != nil {
				t.Errorf("mode %04o: %v", mode, err)
			}
			continue
		}
		if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("mode %04o: %v, want failed_precondition with the command that mends it", mode, err)
		}
	}
	if err := checkMode(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestTenantsOfADirectoryThatIsUsedElsewhereAreNotErased(t *testing.T) {
	d := &Dir{Driver: kv.Group(kv.NewMemory())} // a driver that erases nothing, like a client
	tenants := d.Erasures(nil, nil, nil)
	_, proveErr := tenants.Prove(t.Context(), "acme")
	for what, err := range map[string]error{"Delete": tenants.Delete(t.Context(), "acme"), "Resume": tenants.Resume(t.Context()), "Prove": proveErr} {
		if host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("%s = %v, want failed_precondition", what, err)
		}
	}
}
