package wasmmeter

// Scenario: the compiled plugins of the repository run plain and metered, with the same
// calls, memory and price.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
)

// realModules are the plugins that the repository holds as they were built.
var realModules = []string{
	"plugins/toolcallfilter/toolcallfilter.wasm", "plugins/tokenlimiter/tokenlimiter.wasm", "examples/piimask/piimask.wasm",
}

// someRealModules is one of them where time is short.
func someRealModules() []string {
	if !longtest.Enabled() {
		return realModules[:1]
	}
	return realModules
}

// realCode is such a module, compiled plain and metered, with imports that
// answer the same to both.
type realCode struct {
	runtime        wazero.Runtime
	plain, metered wazero.CompiledModule
}

// realGuest is the host's side of a call in an instance of one.
type realGuest struct {
	slice         int64
	granted       int64
	input, output []byte
	asked         [][]byte // the host operations
}

type realKey struct{}

// cachedCode keeps compiled modules in a directory for later processes, where the machine
// has one: a module of megabytes takes a second to compile.
func cachedCode() wazero.RuntimeConfig {
	config := wazero.NewRuntimeConfig()
	if cache := codeCache(); cache != nil {
		config = config.WithCompilationCache(cache)
	}
	return config
}

var codeCache = sync.OnceValue(func() wazero.CompilationCache {
	if testcode.Dir() == "" {
		return nil
	}
	cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(testcode.Dir(), "metered"))
	if err != nil {
		return nil
	}
	return cache
})

// realCodes are the modules that were compiled so far, for all tests: that takes
// a second each.
var realCodes sync.Map

func realCodeOf(t testing.TB, path string) *realCode {
	t.Helper()
	if c, ok := realCodes.Load(path); ok {
		return c.(*realCode)
	}
	c := compileReal(t, path)
	realCodes.Store(path, c)
	return c
}

func compileReal(t testing.TB, path string) *realCode {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "..", "..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c := &realCode{runtime: wazero.NewRuntimeWithConfig(ctx, cachedCode().WithCoreFeatures(coreFeatures))}
	wasi_snapshot_preview1.MustInstantiate(ctx, c.runtime)
	if err := linkReal(ctx, c.runtime); err != nil {
		t.Fatal(err)
	}
	if c.plain, err = c.runtime.CompileModule(ctx, wasm); err != nil {
		t.Fatal(err)
	}
	if c.metered, err = c.runtime.CompileModule(ctx, p.Wasm); err != nil {
		t.Fatal(err)
	}
	return c
}

// linkReal provides the imports of the native ABI: every host operation fails.
func linkReal(ctx context.Context, r wazero.Runtime) error {
	guest := func(ctx context.Context) *realGuest { return ctx.Value(realKey{}).(*realGuest) }
	meter := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
			g := guest(ctx)
			g.granted += g.slice
			stack[0] += uint64(g.slice)
		}), []api.ValueType{typeI64, typeI64}, []api.ValueType{typeI64}).Export(ImportCheck)
	if _, err := meter.Instantiate(ctx); err != nil {
		return err
	}
	const refused = 1<<63 | uint64(len(permissionDenied)) // an error object of this length
	b := r.NewHostModuleBuilder("agenthost_v1")
	for name, fn := range map[string]any{
		"input_read": func(ctx context.Context, m api.Module, ptr, offset, n uint32) uint32 {
			in := guest(ctx).input
			in = in[min(int(offset), len(in)):]
			in = in[:min(int(n), len(in))]
			m.Memory().Write(ptr, in)
			return uint32(len(in))
		},
		"output_write": func(ctx context.Context, m api.Module, ptr, n uint32) {
			view, _ := m.Memory().Read(ptr, n)
			guest(ctx).output = bytes.Clone(view)
		},
		"host_call": func(ctx context.Context, m api.Module, op, opLen, ptr, n uint32) uint64 {
			name, _ := m.Memory().Read(op, opLen)
			request, _ := m.Memory().Read(ptr, n)
			g := guest(ctx)
			g.asked = append(g.asked, bytes.Clone(name), bytes.Clone(request))
			return refused
		},
		"host_read": func(_ context.Context, m api.Module, ptr, offset, n uint32) uint32 {
			chunk := permissionDenied[min(int(offset), len(permissionDenied)):]
			chunk = chunk[:min(int(n), len(chunk))]
			m.Memory().WriteString(ptr, chunk)
			return uint32(len(chunk))
		},
		"log": func(uint32, uint32, uint32) {},
	} {
		b.NewFunctionBuilder().WithFunc(fn).Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

const permissionDenied = `{"code":"permission_denied","message":"a test grants nothing"}`

// realCall is what can be seen of a call.
type realCall struct {
	Code   uint64
	Error  string
	Output string
	Asked  string
	Memory [sha256.Size]byte
}

// call instantiates the module, calls it once, and returns what can be seen of
// that and what it cost.
func (c *realCode) call(t testing.TB, metered bool, slice int64, input []byte) (seen realCall, spent int64) {
	t.Helper()
	g := &realGuest{slice: slice, input: input}
	ctx := context.WithValue(context.Background(), realKey{}, g)
	compiled := c.plain
	if metered {
		compiled = c.metered
	}
	mod, err := c.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	if metered {
		deepStack(mod)
	}
	if init := mod.ExportedFunction("_initialize"); init != nil {
		if _, err := init.Call(ctx); err != nil {
			t.Fatal(err)
		}
	}
	defer mod.Close(ctx)
	results, err := mod.ExportedFunction("agenthost_process").Call(ctx, uint64(len(input)))
	if err != nil {
		seen.Error = trap(err)
	} else {
		seen.Code = results[0]
	}
	view, _ := mod.Memory().Read(0, mod.Memory().Size())
	seen.Output, seen.Asked, seen.Memory = string(g.output), fmt.Sprintf("%q", g.asked), sha256.Sum256(view)
	if metered {
		spent = g.granted - int64(mod.ExportedGlobal(FuelGlobal).Get())
	}
	return seen, spent
}

// compare holds the metered module to the plain one: the same answer, the
// same questions to the host, and the same memory to the last byte; and one price
// whatever slices it is paid in.
func (c *realCode) compare(t *testing.T, input []byte) {
	t.Helper()
	want, _ := c.call(t, false, 0, input)
	got, spent := c.call(t, true, quantum, input)
	if got != want {
		t.Errorf("input %q: metered %+v, plain %+v", input, got, want)
	}
	if again, cost := c.call(t, true, 777, input); again != got || cost != spent {
		t.Errorf("input %q: with another slice it costs %d, not %d, and gives %+v, not %+v", input, cost, spent, again, got)
	}
}

// processInputs are requests to processors: those of the contract's vectors, and
// what is none.
func processInputs(t testing.TB) (list [][]byte) {
	t.Helper()
	b, err := os.ReadFile("../../../../pdk/testdata/vectors/process.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Kind string
		JSON json.RawMessage
	}
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		if v.Kind == "process_in" {
			list = append(list, v.JSON)
		}
	}
	messages := history(20)
	return append(list, nil, []byte("{"), []byte(`{"processor":"x","messages":`+string(messages)+"}"),
		[]byte(`{"processor":"toolcallfilter","config":{"persistResults":true},"scope":{},"model":"m","outline":{"count":3,"roles":"uat","bytes":[1,2,3],"chars":[1,2,3],"parts":[1,1,1],"tools":[[1,0,"call","c","f"],[2,0,"result","c","f"]]}}`),
		[]byte(`{"processor":"tokenlimiter","config":5,"scope":{},"model":"m","outline":{"count":3,"roles":"uuu","bytes":[9,9,9],"chars":[9,9,9],"tokens":[2,2,2],"encoding":"o200k_base","parts":[1,1,1],"tools":[]}}`))
}

// TestMeteredRealModules compares the plugins of the repository with themselves.
func TestMeteredRealModules(t *testing.T) {
	for _, path := range someRealModules() {
		t.Run(filepath.Base(path), func(t *testing.T) {
			code := realCodeOf(t, path)
			answers := map[string]bool{}
			for i, input := range processInputs(t) {
				if !longtest.Enabled() && i%4 != 0 {
					continue
				}
				code.compare(t, input)
				seen, _ := code.call(t, false, 0, input)
				answers[seen.Output] = true
			}
			if len(answers) < 3 {
				t.Errorf("only %d different answers were compared: %v", len(answers), answers)
			}
		})
	}
}

// FuzzMeteredRealModules compares them on inputs that nobody thought of.
func FuzzMeteredRealModules(f *testing.F) {
	for i, input := range processInputs(f) {
		f.Add(uint8(i), input)
	}
	var codes []*realCode
	for _, path := range someRealModules() {
		codes = append(codes, realCodeOf(f, path))
	}
	f.Fuzz(func(t *testing.T, which uint8, input []byte) {
		codes[int(which)%len(codes)].compare(t, input)
	})
}

// bills are what some calls cost: the same on every machine, with every version of
// Go and whatever else runs. A number here changes only with the prices or with
// what is charged where, and that is a new bill for every customer.
var bills = []struct {
	name string
	arg  uint64
	want int64
}{
	{"sieve", 1000, 74_713},
	{"sieve", 65536, 3_173_477},
	{"fib", 5, 209},
	{"fib", 18, 121226},
}

// TestBillsAreTheSameEverywhere makes those calls in many instances at once, with
// different slices, on one processor and on more.
func TestBillsAreTheSameEverywhere(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	wasm := wasmtest.Assemble(t, kernels)
	for _, processors := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(processors)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for _, bill := range bills {
					g, err := newMeteredGuest(t, wasm, nil, 1<<40)
					if err != nil {
						t.Error(err)
						return
					}
					g.slice = int64(1 + 1000*i*i)
					if _, spent, err := g.call(bill.name, bill.arg); err != nil || spent != bill.want {
						t.Errorf("%s(%d) with slices of %d on %d processors costs %d (%v), want %d", bill.name, bill.arg, g.slice, processors, spent, err, bill.want)
					}
				}
			})
		}
		wg.Wait()
	}
}
