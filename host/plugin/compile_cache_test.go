package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
)

// compileCounter is a compiler that counts and otherwise does what none does.
type compileCounter struct{ n atomic.Int32 }

func (c *compileCounter) compile(_ context.Context, job *CompileJob) error {
	c.n.Add(1)
	return CompileInto(job)
}

// cachedRuntime returns a runtime on a directory, and what counts its compiling.
func cachedRuntime(t *testing.T, dir string) (*Runtime, *compileCounter) {
	t.Helper()
	c := &compileCounter{}
	return startRuntime(t, &Options{CacheDir: dir, Compiler: c.compile}), c
}

// loadAndCall loads a module, calls it and unloads it.
func loadAndCall(rt *Runtime, wasm []byte, limits Limits) error {
	p, err := rt.Load(context.Background(), "p", wasm, &LoadOptions{Limits: limits})
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Call(context.Background(), "t", "tool", []byte("{}"), nil)
	return err
}

// compilesOnLoad loads a module into a new runtime and returns how often that
// compiled.
func compilesOnLoad(t *testing.T, dir string, wasm []byte, limits Limits) int {
	t.Helper()
	rt, c := cachedRuntime(t, dir)
	if err := loadAndCall(rt, wasm, limits); err != nil {
		t.Error(err)
	}
	return int(c.n.Load())
}

// number is a module that is like no other of these.
func number(t testing.TB, i int) []byte {
	return handWritten(t, fmt.Sprintf("i32.const 0 i32.const %d i32.store i32.const 0", i))
}

func TestCacheKeepsCode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "it")
	wasm := number(t, 0)
	for _, c := range []struct {
		name   string
		wasm   []byte
		limits Limits
		want   int
	}{
		{"a module that was never seen", wasm, Limits{}, 1},
		{"one that was", wasm, Limits{}, 0},
		{"another", number(t, 1), Limits{}, 1},
		{"the first with another depth", wasm, Limits{CallDepth: 50}, 1},
		{"the first with less memory", wasm, Limits{MemoryBytes: 2 * pageBytes}, 1},
		{"the first with limits that are in no code", wasm, Limits{Timeout: time.Minute, Instructions: 1 << 40, OutputBytes: 1}, 0},
		{"the first again", wasm, Limits{}, 0},
	} {
		if n := compilesOnLoad(t, dir, c.wasm, c.limits); n != c.want {
			t.Errorf("%s was compiled %d times, want %d", c.name, n, c.want)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v (%v), want 0700", info.Mode(), err)
	}
}

// sealFile is the name of the file that describes an entry of the cache.
const sealFile = "seal"

// soleEntry returns the one entry of a cache, its code and its seal.
func soleEntry(t *testing.T, dir string) (entry, code, seal string) {
	t.Helper()
	list, _ := filepath.Glob(filepath.Join(dir, "*", sealFile))
	if len(list) != 1 {
		t.Fatalf("there are %d entries, want 1", len(list))
	}
	entry = filepath.Dir(list[0])
	files, _ := filepath.Glob(filepath.Join(entry, "*", "*"))
	if len(files) != 1 {
		t.Fatalf("there are %d files of code, want 1", len(files))
	}
	return entry, files[0], list[0]
}

// flip changes one bit of a file, at a place from 0 (its start) to 1 (its end).
func flip(path string, place float64) error {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return fmt.Errorf("read %d bytes to flip one: %w", len(b), err)
	}
	b[int(place*float64(len(b)-1))] ^= 0x10
	return os.WriteFile(path, b, 0o600)
}

// damage is something that can happen to an entry of the cache.
type damage struct {
	name string
	do   func(entry, code, seal string) error
}

func damages() []damage {
	list := []damage{
		{"code is cut off", func(_, code, _ string) error { return os.Truncate(code, 100) }},
		{"code is empty", func(_, code, _ string) error { return os.Truncate(code, 0) }},
		{"code is longer", func(_, code, _ string) error {
			b, err := os.ReadFile(code)
			return errors.Join(err, os.WriteFile(code, append(b, 0), 0o600))
		}},
		{"code announces four billion functions", func(_, code, _ string) error {
			b, err := os.ReadFile(code)
			at := 6 + 1 + int(b[6])
			copy(b[at:], "\xff\xff\xff\xff")
			return errors.Join(err, os.WriteFile(code, b, 0o600))
		}},
		{"code is missing", func(_, code, _ string) error { return os.Remove(code) }},
		{"code is a directory", func(_, code, _ string) error { return errors.Join(os.Remove(code), os.Mkdir(code, 0o700)) }},
		{"code is a link", func(entry, code, _ string) error {
			away := entry + "-away"
			return errors.Join(os.Rename(code, away), os.Symlink(away, code))
		}},
		{"a second file of code", func(_, code, _ string) error { return os.WriteFile(code+"x", nil, 0o600) }},
		{"the seal is missing", func(_, _, seal string) error { return os.Remove(seal) }},
		{"the seal is empty", func(_, _, seal string) error { return os.Truncate(seal, 0) }},
		{"the seal is huge", func(_, _, seal string) error { return os.Truncate(seal, 1<<30) }},
		{"the entry is a file", func(entry, _, _ string) error {
			return errors.Join(os.RemoveAll(entry), os.WriteFile(entry, nil, 0o600))
		}},
		{"the entry is empty", func(entry, _, _ string) error {
			return errors.Join(os.RemoveAll(entry), os.Mkdir(entry, 0o700))
		}},
		{"the entry can be written by others", func(entry, _, _ string) error { return os.Chmod(entry, 0o777) }},
	}
	for i := range 21 {
		place := float64(i) / 20
		list = append(list,
			damage{fmt.Sprintf("a bit of the code at %.2f", place), func(_, code, _ string) error { return flip(code, place) }},
			damage{fmt.Sprintf("a bit of the seal at %.2f", place), func(_, _, seal string) error { return flip(seal, place) }})
	}
	return list
}

func TestDamagedCodeIsMadeAnew(t *testing.T) {
	wasm := number(t, 0)
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			compilesOnLoad(t, dir, wasm, Limits{})
			if err := d.do(soleEntry(t, dir)); err != nil {
				t.Fatal(err)
			}
			if n := compilesOnLoad(t, dir, wasm, Limits{}); n != 1 {
				t.Errorf("it was compiled %d times, want once", n)
			}
			if n := compilesOnLoad(t, dir, wasm, Limits{}); n != 0 {
				t.Errorf("after that it was compiled %d times", n)
			}
		})
	}
}

// TestForeignCodeIsMadeAnew puts the entry of one module, whole and sealed, in
// the place of another's.
func TestForeignCodeIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	compilesOnLoad(t, dir, number(t, 0), Limits{})
	first, _, _ := soleEntry(t, dir)
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(first, aside); err != nil {
		t.Fatal(err)
	}
	compilesOnLoad(t, dir, number(t, 1), Limits{})
	second, _, _ := soleEntry(t, dir)
	if err := errors.Join(os.RemoveAll(second), os.Rename(aside, second)); err != nil {
		t.Fatal(err)
	}
	if n := compilesOnLoad(t, dir, number(t, 1), Limits{}); n != 1 {
		t.Errorf("it was compiled %d times, want once", n)
	}
}

// sealAgain makes the seal of an entry fit its code.
func sealAgain(entry, code string) error {
	b, err := os.ReadFile(code)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(entry, code)
	if err != nil {
		return err
	}
	seal, err := json.Marshal(map[string]any{
		"key": filepath.Base(entry), "name": filepath.ToSlash(rel), "size": len(b), "sha256": fmt.Sprintf("%x", sha256.Sum256(b)),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(entry, sealFile), seal, 0o600)
}

// TestSealedCodeThatIsOfNoUseIsMadeAnew has an entry that is what its seal says,
// and that wazero cannot read: as when another process removes it after it was
// looked at.
func TestSealedCodeThatIsOfNoUseIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	wasm := number(t, 0)
	compilesOnLoad(t, dir, wasm, Limits{})
	entry, code, _ := soleEntry(t, dir)
	if err := errors.Join(os.Truncate(code, 10), sealAgain(entry, code)); err != nil {
		t.Fatal(err)
	}
	if n := compilesOnLoad(t, dir, wasm, Limits{}); n != 1 {
		t.Errorf("it was compiled %d times, want once", n)
	}
}

// TestManyProcessesShareACache has several runtimes, which know nothing of each
// other, load the same modules into one directory, while another damages it.
func TestManyProcessesShareACache(t *testing.T) {
	dir := t.TempDir()
	modules := make([][]byte, 5)
	for i := range modules {
		modules[i] = number(t, i)
	}
	var work sync.WaitGroup
	for range 4 {
		rt, _ := cachedRuntime(t, dir)
		for i := range modules {
			work.Go(func() {
				for round := range 5 {
					if err := loadAndCall(rt, modules[(i+round)%len(modules)], Limits{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	stop := make(chan struct{})
	var vandal sync.WaitGroup
	vandal.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			list, _ := filepath.Glob(filepath.Join(dir, "*", sealFile))
			if len(list) == len(modules) {
				_ = flip(list[i%len(list)], 0.5) // it may be gone by now
			}
		}
	})
	work.Wait()
	close(stop)
	vandal.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) > 0 {
		t.Errorf("%d directories are left half made", len(left))
	}
}

func TestCacheMustBePrivate(t *testing.T) {
	open := func(dir string) error {
		rt, err := NewRuntime(context.Background(), &Options{CacheDir: dir})
		if err == nil {
			err = rt.Close(context.Background())
		}
		return err
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o770); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{shared: "chmod 700", file: "not a directory"} {
		if err := open(dir); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want failed_precondition that says %q", err, says)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	theirs := t.TempDir()
	if err := os.Chown(theirs, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if err := open(theirs); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "another user") {
		t.Errorf("%v, want failed_precondition that says whose it is", err)
	}
}
