package wasmmeter

// Scenario: a real Go guest runs plain and metered, with the same results and a
// reproducible price.

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
	"github.com/agenthost/agenthost/internal/testcode"
)

// goGuest is an instance of the guest.
type goGuest struct {
	mod  api.Module
	at   uint32            // where its buffer is
	fuel api.MutableGlobal // nil if it is not metered
	call map[string]api.Function
}

const workSlice = 1_000_000

// goCode is a compiled guest, which can be instantiated again and again.
type goCode struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	metered  bool
}

func compileGuest(t testing.TB, wasm []byte, metered bool) *goCode {
	t.Helper()
	ctx := context.Background()
	c := &goCode{metered: metered, runtime: newRuntimeOf(t, cachedCode(), func(_ context.Context, stack []uint64) {
		if int64(stack[1]) < 0 {
			panic(errDepth)
		}
		stack[0] += workSlice
	})}
	wasi_snapshot_preview1.MustInstantiate(ctx, c.runtime)
	var err error
	if c.compiled, err = c.runtime.CompileModule(ctx, wasm); err != nil {
		t.Fatalf("compile: %v", err)
	}
	return c
}

func (c *goCode) instantiate(t testing.TB) *goGuest {
	t.Helper()
	ctx := context.Background()
	mod, err := c.runtime.InstantiateModule(ctx, c.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	if c.metered {
		deepStack(mod)
	}
	if _, err := mod.ExportedFunction("_initialize").Call(ctx); err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	g := &goGuest{mod: mod, call: map[string]api.Function{}}
	for _, name := range []string{"buffer", "roundtrip", "run"} {
		g.call[name] = mod.ExportedFunction(name)
	}
	if c.metered {
		g.fuel = mod.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	}
	at, err := g.call["buffer"].Call(ctx)
	if err != nil {
		t.Fatalf("buffer: %v", err)
	}
	g.at = uint32(at[0])
	return g
}

// do calls an export and returns what it left in the buffer.
func (g *goGuest) do(t testing.TB, name string, args ...uint64) []byte {
	t.Helper()
	n, err := g.call[name].Call(context.Background(), args...)
	if err != nil || int32(n[0]) < 0 {
		t.Fatalf("%s(%v) = %v, %v", name, args, n, err)
	}
	out, ok := g.mod.Memory().Read(g.at, uint32(n[0]))
	if !ok {
		t.Fatalf("%s(%v) = %d bytes, more than memory", name, args, n[0])
	}
	return bytes.Clone(out)
}

func workGuests(t testing.TB) (plain, metered []byte) {
	t.Helper()
	plain = testcode.Build(t, "./testdata/work")
	p, err := Prepare(plain, nil)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return plain, p.Wasm
}

// history is a conversation in JSON.
func history(messages int) []byte {
	b := []byte("[")
	for i := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":"m%d","role":"user","parts":[{"type":"text","text":"where is order %d? I have waited for it \"for weeks\" and \u00e4 nothing came %s"}],"meta":{"a":1.5,"b":[1,2,3],"c":null}}`,
			i, i, bytes.Repeat([]byte("lorem ipsum "), 20))
	}
	return append(b, ']')
}

// TestMeteredGoGuest runs a real Go guest, where straight jumps, returns through
// wrappers and merged data must all be right, plain and metered; and twice
// metered, to see that two fresh instances do the same for the same price.
func TestMeteredGoGuest(t *testing.T) {
	plainWasm, meteredWasm := workGuests(t)
	plain := compileGuest(t, plainWasm, false).instantiate(t)
	code := compileGuest(t, meteredWasm, true)
	metered, again := code.instantiate(t), code.instantiate(t)
	for kind := range uint64(11) {
		for _, size := range []uint64{0, 1, 2, 7, 100} {
			const granted = 1 << 50
			metered.fuel.Set(granted)
			again.fuel.Set(granted)
			want, got := plain.do(t, "run", kind, size), metered.do(t, "run", kind, size)
			if !bytes.Equal(got, want) || size > 5 && len(want) == 0 {
				t.Errorf("run(%d, %d) metered: %.100q, plain: %.100q", kind, size, got, want)
			}
			again.do(t, "run", kind, size)
			if a, b := granted-int64(metered.fuel.Get()), granted-int64(again.fuel.Get()); a != b || a < 100 {
				t.Errorf("run(%d, %d) costs %d in one instance and %d in the other", kind, size, a, b)
			}
		}
	}
	doc := history(50)
	for _, g := range []*goGuest{plain, metered} {
		g.mod.Memory().Write(g.at, doc)
	}
	want, got := plain.do(t, "roundtrip", uint64(len(doc))), metered.do(t, "roundtrip", uint64(len(doc)))
	if !bytes.Equal(got, want) {
		t.Errorf("roundtrip metered: %.100q, plain: %.100q", got, want)
	}
}

func BenchmarkPrepare(b *testing.B) {
	wasm := testcode.Build(b, "./testdata/work")
	b.SetBytes(int64(len(wasm)))
	var p *Metered
	for b.Loop() {
		var err error
		if p, err = Prepare(wasm, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(len(p.Wasm)-len(wasm))/float64(len(wasm)), "%size")
}

// BenchmarkMetered compares a plain and a metered guest: time to decode and
// encode a conversation in JSON, to compile, and to instantiate.
func BenchmarkMetered(b *testing.B) {
	plain, metered := workGuests(b)
	for _, c := range []struct {
		name    string
		wasm    []byte
		metered bool
	}{{"plain", plain, false}, {"metered", metered, true}} {
		b.Run("json/"+c.name, func(b *testing.B) {
			g := compileGuest(b, c.wasm, c.metered).instantiate(b)
			doc := history(250) // 105 kB
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				g.mod.Memory().Write(g.at, doc)
				g.do(b, "roundtrip", uint64(len(doc)))
			}
		})
		b.Run("compile/"+c.name, func(b *testing.B) {
			for b.Loop() {
				r := newRuntime(b, func(context.Context, []uint64) {})
				if _, err := r.CompileModule(context.Background(), c.wasm); err != nil {
					b.Fatal(err)
				}
				r.Close(context.Background())
			}
		})
		b.Run("instantiate/"+c.name, func(b *testing.B) {
			code := compileGuest(b, c.wasm, c.metered)
			ctx := context.Background()
			for b.Loop() {
				mod, err := code.runtime.InstantiateModule(ctx, code.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
				if err != nil {
					b.Fatal(err)
				}
				mod.Close(ctx)
			}
		})
	}
}

// kernels is code as C compilers write it: a tight loop over memory, and calls of
// small functions.
const kernels = `
	memory 2
	func $sieve sieve i32 -> i32 : 3*i32
	  i32.const 0 i32.const 0 i32.const 65536 memory.fill
	  i32.const 2 local.set 1
	  loop
	    local.get 1 i32.load8_u i32.eqz if
	      local.get 3 i32.const 1 i32.add local.set 3
	      local.get 1 local.get 1 i32.add local.set 2
	      block loop
	        local.get 2 local.get 0 i32.ge_u br_if 1
	        local.get 2 i32.const 1 i32.store8
	        local.get 2 local.get 1 i32.add local.set 2
	        br 0
	      end end
	    end
	    local.get 1 i32.const 1 i32.add local.tee 1 local.get 0 i32.lt_u br_if 0
	  end
	  local.get 3
	func $fib fib i32 -> i32
	  local.get 0 i32.const 2 i32.lt_s if local.get 0 return end
	  local.get 0 i32.const 1 i32.sub call $fib local.get 0 i32.const 2 i32.sub call $fib i32.add`

// BenchmarkMeteredKernels compares it plain and metered.
func BenchmarkMeteredKernels(b *testing.B) {
	wasm := wasmtest.Assemble(b, kernels)
	p, err := Prepare(wasm, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, k := range []struct {
		name string
		arg  uint64
	}{{"sieve", 65536}, {"fib", 22}} {
		for _, c := range []struct {
			name string
			wasm []byte
		}{{"plain", wasm}, {"metered", p.Wasm}} {
			b.Run(k.name+"/"+c.name, func(b *testing.B) {
				r := newRuntime(b, func(_ context.Context, stack []uint64) { stack[0] += workSlice })
				mod, err := instantiate(r, c.wasm)
				if err != nil {
					b.Fatal(err)
				}
				f := mod.ExportedFunction(k.name)
				for b.Loop() {
					if _, err := f.Call(context.Background(), k.arg); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
