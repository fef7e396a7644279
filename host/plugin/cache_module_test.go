package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// largeModule is one that is worth an entry.
func largeModule(t testing.TB) []byte {
	return handWritten(t, wasmtest.Expand("data 1024 \"<0123456789abcdef*20000>\"\nmemory 16\n---\ni32.const 0"))
}

// moduleEntry returns the one entry of a module in a cache.
func moduleEntry(t *testing.T, dir string) (entry, module, seal string) {
	t.Helper()
	list, _ := filepath.Glob(filepath.Join(dir, "*", moduleDir, "*.wasm"))
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
	want, err := prepare(wasm, (Limits{}).withDefaults().structure())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(module); err != nil || !bytes.Equal(got, want.wasm) || filepath.Base(module) != restorableName {
		t.Errorf("%s has %d bytes, %v; want the %d of the metered module, which is restorable", module, len(got), err, len(want.wasm))
	}
	rt, compiler := cachedRuntime(t, dir)
	p, err := rt.prepare(wasm, (Limits{}).withDefaults().structure())
	if err != nil || p.code == nil || p.code.wait() == "" {
		t.Fatalf("what is kept: %+v, %v; want it with its code", p, err)
	}
	if p.key != want.key || !bytes.Equal(p.wasm, want.wasm) || p.restorable != want.restorable || p.digest != want.digest || len(p.exports()) != len(want.exports()) {
		t.Error("what is kept is not what is made")
	}
	for name, l := range map[string]Limits{"another depth": {CallDepth: 50}, "less memory": {MemoryBytes: 32 * pageBytes}} {
		l := l.over(Limits{}.withDefaults()).structure()
		if rt.cache.moduleKey(p.digest, l.withDefaults()) == rt.cache.moduleKey(p.digest, (Limits{}).withDefaults().structure().withDefaults()) {
			t.Errorf("with %s the key is the same", name)
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
		if p, err := rt.prepare(wasm, nil); err != nil || p.restorable {
			t.Errorf("restorable %v, %v", p.restorable, err)
		}
	}
	_, module, seal := moduleEntry(t, dir)
	if err := os.Rename(module, filepath.Join(filepath.Dir(module), restorableName)); err != nil {
		t.Fatal(err)
	}
	rt, _ := cachedRuntime(t, dir)
	if p, err := rt.prepare(wasm, nil); err != nil || p.restorable {
		t.Errorf("with a wrong name: restorable %v, %v; seal %s", p.restorable, err, seal)
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

// meteredDigest is of what meterVersion makes of many modules.
const meteredDigest = "322948d00662b8d87521eebe3901cf82eb3fb130672dda6614cb73bcfabda097"

// TestMeterVersion fails when prepare makes something else of a module than it
// did. Then raise meterVersion, or hosts go on with what an older one has kept,
// and write the new digest here.
func TestMeterVersion(t *testing.T) {
	h := sha256.New()
	random := rand.New(rand.NewPCG(7, 8))
	list := [][]byte{wasmtest.Assemble(t, everything), wasmtest.Assemble(t, kernels), wasmtest.Assemble(t, wasmtest.Expand(bulkModule))}
	for range 50 {
		choices := make([]byte, 300)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		list = append(list, program(choices, false))
	}
	for _, wasm := range list {
		p, err := prepare(wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%x %t\n", p.key, p.restorable)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != meteredDigest {
		t.Errorf("version %d makes modules with the digest %s, want %s", meterVersion, got, meteredDigest)
	}
}
