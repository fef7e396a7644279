package plugin

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// largeModule is one that is worth an entry.
func largeModule(t testing.TB) []byte {
	return handWritten(t, wasmtest.Expand("data 1024 \"<0123456789abcdef*20000>\"\nmemory 16\n---\ni32.const 0"))
}

// moduleEntry returns the one entry of a module in a cache.
func moduleEntry(t *testing.T, dir string) (entry, module, seal string) {
	t.Helper()
	list, _ := filepath.Glob(filepath.Join(dir, "*", "module", "*.wasm"))
	if len(list) != 1 {
		t.Fatalf("there are %d entries of modules, want 1", len(list))
	}
	entry = filepath.Dir(filepath.Dir(list[0]))
	return entry, list[0], filepath.Join(entry, sealFile)
}

// A large module is metered once, and after that the cache has what was made of
// it, to the byte.
func TestCacheKeepsModules(t *testing.T) {
	dir, wasm := t.TempDir(), largeModule(t)
	compilesOnLoad(t, dir, wasm, Limits{})
	_, module, _ := moduleEntry(t, dir)
	want, err := wasmmeter.Prepare(wasm, (Limits{}).withDefaults().structure())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(module); err != nil || !bytes.Equal(got, want.Wasm) || filepath.Base(module) != "restorable.wasm" {
		t.Errorf("%s has %d bytes, %v; want the %d of the metered module, which is restorable", module, len(got), err, len(want.Wasm))
	}
	rt, compiler := cachedRuntime(t, dir)
	p, err := rt.compiler.prepare(wasm, (Limits{}).withDefaults().structure())
	if err != nil || p.code == nil || p.code.wait() == "" {
		t.Fatalf("what is kept: %+v, %v; want it with its code", p, err)
	}
	if got := p.metered; got.Key != want.Key || !bytes.Equal(got.Wasm, want.Wasm) || got.Restorable != want.Restorable || got.Module.Digest != want.Module.Digest || len(got.Module.ExportTypes()) != len(want.Module.ExportTypes()) {
		t.Error("what is kept is not what is made")
	}
	for name, l := range map[string]Limits{"another depth": {CallDepth: 50}, "less memory": {MemoryBytes: 32 * pageBytes}} {
		l := l.over(Limits{}.withDefaults()).structure()
		if rt.compiler.cache.Module(p.metered.Module, l, func([sha256.Size]byte) {}) != nil {
			t.Errorf("with %s the module is the same", name)
		}
	}
	if compiler.n.Load() != 0 {
		t.Error("it was compiled")
	}
}

// A module that is not restorable is not after it was kept.
func TestCacheKeepsWhatIsRestorable(t *testing.T) {
	dir := t.TempDir()
	wasm := handWritten(t, wasmtest.Expand("table 4\ndata 1024 \"<0123456789abcdef*20000>\"\nmemory 16\n---\ni32.const 0 ref.null funcref table.set 0 i32.const 0"))
	for range 2 {
		rt, _ := cachedRuntime(t, dir)
		if p, err := rt.compiler.prepare(wasm, nil); err != nil || p.metered.Restorable {
			t.Errorf("restorable %v, %v", p.metered.Restorable, err)
		}
	}
	_, module, seal := moduleEntry(t, dir)
	if err := os.Rename(module, filepath.Join(filepath.Dir(module), "restorable.wasm")); err != nil {
		t.Fatal(err)
	}
	rt, _ := cachedRuntime(t, dir)
	if p, err := rt.compiler.prepare(wasm, nil); err != nil || p.metered.Restorable {
		t.Errorf("with a wrong name: restorable %v, %v; seal %s", p.metered.Restorable, err, seal)
	}
}

func TestDamagedModulesAreMadeAnew(t *testing.T) {
	wasm := largeModule(t)
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			compilesOnLoad(t, dir, wasm, Limits{})
			entry, module, seal := moduleEntry(t, dir)
			want, err := os.ReadFile(module)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.do(entry, module, seal); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if n := compilesOnLoad(t, dir, wasm, Limits{}); n != 0 {
					t.Errorf("it was compiled %d times", n)
				}
				_, module, _ := moduleEntry(t, dir)
				if got, err := os.ReadFile(module); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the module is not as it was: %d bytes, %v", len(got), err)
				}
			}
		})
	}
}
