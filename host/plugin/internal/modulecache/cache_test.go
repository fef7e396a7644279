package modulecache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/testuser"
)

// compileFor returns a compiler whose code is the module itself, in a file that tells
// the machine.
func compileFor(machine string) func(dir string, module []byte) error {
	return func(dir string, module []byte) error {
		inner := filepath.Join(dir, "engine-"+machine)
		return errors.Join(os.Mkdir(inner, 0o700), os.WriteFile(filepath.Join(inner, "code"), module, 0o600))
	}
}

func open(t *testing.T, dir string, maxBytes int64) *Cache {
	t.Helper()
	c, err := Open(dir, maxBytes, compileFor("a"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// module returns the i-th of some modules and its SHA-256.
func module(i int) ([]byte, [sha256.Size]byte) {
	b := bytes.Repeat([]byte{byte(i)}, 1000)
	return b, sha256.Sum256(b)
}

// add compiles a module and adds its code.
func add(t *testing.T, c *Cache, i int) {
	t.Helper()
	wasm, sum := module(i)
	dir, err := c.NewDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(compileFor("a")(dir, wasm), c.AddCode(sum, dir)); err != nil {
		t.Fatal(err)
	}
}

func TestOpenWithoutADirectoryIsNoCache(t *testing.T) {
	if c, err := Open("", 0, nil); c != nil || err != nil {
		t.Errorf("Open = %v, %v, want nil", c, err)
	}
	if _, err := Open("", -1, nil); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a negative size: %v, want invalid_argument", err)
	}
}

func TestCodeIsWhatWasAdded(t *testing.T) {
	c := open(t, t.TempDir(), 0)
	wasm, sum := module(1)
	if dir := c.Code(sum); dir != "" {
		t.Errorf("an empty cache has code in %s", dir)
	}
	add(t, c, 1)
	dir := c.Code(sum)
	if got, err := os.ReadFile(filepath.Join(dir, "engine-a", "code")); err != nil || !bytes.Equal(got, wasm) {
		t.Errorf("the code in %s is %d bytes, %v; want the %d that were added", dir, len(got), err, len(wasm))
	}
	if err := CheckCode(dir); err != nil {
		t.Errorf("CheckCode: %v", err)
	}
	if c.RemoveCode(sum); c.Code(sum) != "" {
		t.Error("after RemoveCode there is code")
	}
}

func TestAnEntryThatDiffersFromItsSealIsRemoved(t *testing.T) {
	for name, damage := range map[string]func(entry string) error{
		"code is cut off": func(dir string) error { return os.Truncate(filepath.Join(dir, "engine-a", "code"), 10) },
		"code has another name": func(dir string) error {
			return os.Rename(filepath.Join(dir, "engine-a"), filepath.Join(dir, "engine-b"))
		},
		"a second file":       func(dir string) error { return os.WriteFile(filepath.Join(dir, "engine-a", "more"), nil, 0o600) },
		"the seal is missing": func(dir string) error { return os.Remove(filepath.Join(dir, sealFile)) },
		"the seal is too long": func(dir string) error {
			return os.Truncate(filepath.Join(dir, sealFile), maxSeal+1)
		},
		"another's entry": func(dir string) error {
			_, other := module(2)
			c := Cache{dir: filepath.Dir(dir), engine: filepath.Join("engine-a", "code")}
			return errors.Join(os.RemoveAll(dir), os.Rename(c.Code(other), dir))
		},
		"others may write": func(dir string) error { return os.Chmod(dir, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, t.TempDir(), 0)
			add(t, c, 1)
			add(t, c, 2)
			_, sum := module(1)
			entry := c.Code(sum)
			if err := damage(entry); err != nil {
				t.Fatal(err)
			}
			if dir := c.Code(sum); dir != "" {
				t.Errorf("the code is taken from %s", dir)
			}
			if _, err := os.Lstat(entry); err == nil {
				t.Error("the entry is still there")
			}
			if add(t, c, 1); c.Code(sum) != entry {
				t.Error("the entry cannot be made again")
			}
		})
	}
}

func TestKeysDifferByMachine(t *testing.T) {
	dir := t.TempDir()
	here := open(t, dir, 0)
	there, err := Open(dir, 0, compileFor("b"))
	if err != nil {
		t.Fatal(err)
	}
	if _, sum := module(1); here.codeKey(sum) == there.codeKey(sum) {
		t.Error("two machines have one key")
	}
}

func TestCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	add(t, open(t, dir, 0), 0)
	_, first := module(0)
	entry := open(t, dir, 0).Code(first)
	maxBytes := 3*treeSize(entry) + 100
	c := open(t, dir, maxBytes)
	yesterday := time.Now().Add(-24 * time.Hour)
	for i := 1; i < 6; i++ {
		add(t, c, i)
		entries, _ := c.entries()
		for _, e := range entries { // the first was just used, the others each a minute after the one before
			if path := filepath.Join(dir, e.key); path != entry && e.used.After(yesterday.Add(time.Hour)) {
				used := yesterday.Add(time.Duration(i) * time.Minute)
				if err := os.Chtimes(filepath.Join(path, sealFile), used, used); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	entries, total := c.entries()
	if total > maxBytes || len(entries) != 3 {
		t.Errorf("%d entries of %d bytes are left, want 3 and at most %d", len(entries), total, maxBytes)
	}
	for _, i := range []int{0, 4, 5} {
		if _, sum := module(i); c.Code(sum) == "" {
			t.Errorf("module %d is gone", i)
		}
	}
}

func TestSweepTakesAbandonedDirectories(t *testing.T) {
	dir := t.TempDir()
	fresh, stale, foreign := filepath.Join(dir, buildPrefix+"1"), filepath.Join(dir, buildPrefix+"2"), filepath.Join(dir, "mine")
	for _, d := range []string{fresh, stale, foreign} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * abandoned)
	for _, d := range []string{stale, foreign} {
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
	}
	add(t, open(t, dir, 0), 0)
	for path, want := range map[string]bool{fresh: true, stale: false, foreign: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", filepath.Base(path), err == nil, want)
		}
	}
}

func TestAnEntryThatCannotBeReplacedIsAnError(t *testing.T) {
	c := open(t, t.TempDir(), 0)
	add(t, c, 1)
	_, sum := module(1)
	entry := c.Code(sum)
	if err := errors.Join(os.Remove(filepath.Join(entry, sealFile)), os.Chmod(c.dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(c.dir, 0o700)
	built := t.TempDir()
	testuser.Unprivileged(t)
	if err := c.publish(filepath.Base(entry), built); fault.CodeOf(err) != fault.FailedPrecondition || !strings.Contains(err.Error(), "cannot be replaced") {
		t.Errorf("publish: %v, want failed_precondition", err)
	}
}
