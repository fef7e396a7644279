package watch

// These tests put something else in the place of a file between its report and the
// reading of it, as another user of the directory can.

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
)

// reported returns a change of a file that was reported with this content, and the
// file's path.
func reported(t *testing.T, content string) (*Change, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.wasm")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Change{Dir: dir, Name: "a.wasm", is: stampOf(info)}, path
}

func TestReadRefusesWhatTookTheFilesPlace(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		swap func(c *Change, path string)
		code fault.Code
	}{
		"another file": {func(c *Change, path string) {
			must(os.WriteFile(path+".new", []byte("other"), 0o600))
			must(os.Rename(path+".new", path))
		}, fault.Conflict},
		"a truncated file": {func(_ *Change, path string) { must(os.Truncate(path, 2)) }, fault.Conflict},
		"a longer file":    {func(_ *Change, path string) { must(os.WriteFile(path, make([]byte, 1<<20), 0o600)) }, fault.Conflict},
		"a link out": {func(_ *Change, path string) {
			must(os.Remove(path))
			must(os.Symlink(outside, path))
		}, fault.FailedPrecondition},
		"a link to another file": {func(c *Change, path string) {
			must(os.WriteFile(filepath.Join(c.Dir, "b"), []byte("valid"), 0o600))
			must(os.Remove(path))
			must(os.Symlink("b", path))
		}, fault.Conflict},
		"a link to itself": {func(_ *Change, path string) {
			must(os.Remove(path))
			must(os.Symlink("a.wasm", path))
		}, fault.FailedPrecondition},
		"a directory": {func(_ *Change, path string) {
			must(os.Remove(path))
			must(os.Mkdir(path, 0o700))
		}, fault.FailedPrecondition},
		"nothing": {func(_ *Change, path string) { must(os.Remove(path)) }, fault.NotFound},
		"a link in the directory's place": {func(c *Change, _ string) {
			must(os.WriteFile(filepath.Join(filepath.Dir(outside), "a.wasm"), []byte("secret"), 0o600))
			must(os.Rename(c.Dir, c.Dir+".old"))
			must(os.Symlink(filepath.Dir(outside), c.Dir))
		}, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			change, path := reported(t, "valid")
			c.swap(change, path)
			if b, err := change.Read(100); err == nil || fault.CodeOf(err) != c.code || b != nil {
				t.Errorf("Read: %q, %v; want %s", b, err, c.code)
			}
		})
	}
}

// Whatever a writer does meanwhile, Read returns a whole file or an error.
func TestReadIsWholeBesideAWriter(t *testing.T) {
	const size = 256 << 10
	change, path := reported(t, string(make([]byte, size)))
	change.is = stamp{} // any version will do
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for b := byte(1); ; b++ {
			select {
			case <-stop:
				return
			default:
			}
			whole := make([]byte, size)
			for i := range whole {
				whole[i] = b
			}
			if os.WriteFile(path+".new", whole, 0o600) != nil || os.Rename(path+".new", path) != nil {
				return
			}
		}
	})
	for range 100 {
		b, err := change.Read(size)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != size || b[0] != b[size-1] {
			t.Fatalf("%d bytes, from %d to %d", len(b), b[0], b[len(b)-1])
		}
	}
	close(stop)
	writer.Wait()
}
