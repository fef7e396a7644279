package wasmmeter

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// bulkModule has an export for each bulk memory operation, with the operands as
// parameters, and one that drops the segment.
const bulkModule = `
	memory 1 1
	export memory memory 0
	passive "<0123456789abcdef*16>"
	func $fill fill i32 i32 i32
	  local.get 0 local.get 1 local.get 2 memory.fill
	func $copy copy i32 i32 i32
	  local.get 0 local.get 1 local.get 2 memory.copy
	func $init init i32 i32 i32
	  local.get 0 local.get 1 local.get 2 memory.init 0
	func $drop drop i32 i32 i32
	  data.drop 0`

// bulkSegment is how long the module's segment is.
const bulkSegment = 256

// bulkPair is the module plain and metered, compiled once.
type bulkPair struct {
	runtime        wazero.Runtime
	plain, metered wazero.CompiledModule
	host           *meteredGuest
}

func newBulkPair(t testing.TB, piece int) *bulkPair {
	t.Helper()
	wasm := wasmtest.Assemble(t, wasmtest.Expand(bulkModule))
	prepared, err := Prepare(wasm, &Limits{bulkPiece: piece})
	if err != nil {
		t.Fatal(err)
	}
	p := &bulkPair{host: &meteredGuest{slice: 5, budget: 1 << 40}}
	p.runtime = newRuntime(t, p.host.tick)
	if p.plain, err = p.runtime.CompileModule(t.Context(), wasm); err != nil {
		t.Fatal(err)
	}
	if p.metered, err = p.runtime.CompileModule(t.Context(), prepared.Wasm); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *bulkPair) instance(t rapid.TB, code wazero.CompiledModule) api.Module {
	t.Helper()
	mod, err := p.runtime.InstantiateModule(context.Background(), code, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	return mod
}

// bulkCall is a call of one of the module's exports.
type bulkCall struct {
	op      string
	a, b, n uint32
}

// price is what a call costs that returns: its operands, the operation, and its
// length.
func (c bulkCall) price() int64 {
	if c.op == "drop" {
		return 1
	}
	return 3 + costBulk + int64(c.n)*costByte/16
}

// compare makes the same calls in both forms of the module, and holds the
// metered one to the plain one: which calls trap and with which words, all of
// memory after each call, and one price whatever pieces it is paid in.
func (p *bulkPair) compare(t rapid.TB, calls []bulkCall) {
	ctx := context.Background()
	plain, metered := p.instance(t, p.plain), p.instance(t, p.metered)
	defer plain.Close(ctx)
	defer metered.Close(ctx)
	p.host.mod, p.host.fuel = metered, metered.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	size := plain.Memory().Size()
	want, _ := plain.Memory().Read(0, size)
	got, _ := metered.Memory().Read(0, size)
	for i := range want {
		want[i], got[i] = byte(i*7+i>>8), byte(i*7+i>>8)
	}
	for _, c := range calls {
		args := []uint64{uint64(c.a), uint64(c.b), uint64(c.n)}
		_, plainErr := plain.ExportedFunction(c.op).Call(ctx, args...)
		_, spent, err := p.host.call(c.op, args...)
		if trap(err) != trap(plainErr) {
			t.Fatalf("%+v: plain: %v; metered: %v", c, plainErr, err)
		}
		if err == nil && spent != c.price() {
			t.Fatalf("%+v costs %d, want %d", c, spent, c.price())
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%+v (%v): memory differs from %d", c, err, firstDifference(got, want))
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// genBulkCalls draws calls that overlap, that end exactly where memory or the
// segment does, that reach one byte further, and whose ends do not fit into 32
// bits.
func genBulkCalls(t *rapid.T) (calls []bulkCall) {
	for range rapid.IntRange(1, 6).Draw(t, "calls") {
		c := bulkCall{op: rapid.SampledFrom([]string{"fill", "copy", "copy", "copy", "init", "init", "drop"}).Draw(t, "op")}
		c.n = rapid.OneOf(rapid.Uint32Range(0, 400), rapid.Uint32Range(0, 70_000), rapid.Uint32()).Draw(t, "length")
		near := func(end uint32, label string) uint32 {
			return rapid.OneOf(
				rapid.Uint32Range(0, 600),
				rapid.Map(rapid.Uint32Range(0, 2), func(d uint32) uint32 { return end - c.n + d - 1 }),
				rapid.Map(rapid.Uint32Range(0, 40), func(d uint32) uint32 { return -c.n + d - 20 }),
				rapid.Uint32(),
			).Draw(t, label)
		}
		c.a = near(65536, "to")
		switch c.op {
		case "init":
			c.b = near(bulkSegment, "from")
		case "copy":
			c.b = rapid.OneOf(
				rapid.Just(near(65536, "from")),
				rapid.Map(rapid.Uint32Range(0, 80), func(d uint32) uint32 { return c.a + d - 40 }),
			).Draw(t, "source")
		default:
			c.b = rapid.Uint32().Draw(t, "value")
		}
		calls = append(calls, c)
	}
	return calls
}

// TestBulkOperationsInPieces compares bulk operations that are done in pieces
// with the instructions that they stand for.
func TestBulkOperationsInPieces(t *testing.T) {
	for _, piece := range []int{2, 16, 1024} {
		t.Run(fmt.Sprint(piece), func(t *testing.T) {
			pair := newBulkPair(t, piece)
			rapid.Check(t, func(r *rapid.T) { pair.compare(r, genBulkCalls(r)) })
		})
	}
}

func FuzzBulkOperationsInPieces(f *testing.F) {
	pair := newBulkPair(f, 16)
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) { pair.compare(r, genBulkCalls(r)) }))
}

// TestBulkOperationsLookBetweenPieces wants a look before every piece of an
// operation on all of memory, so that one instruction delays nobody, and one for
// a whole operation that is no longer than a piece.
func TestBulkOperationsLookBetweenPieces(t *testing.T) {
	const size = 1 << 20
	wasm := wasmtest.Assemble(t, wasmtest.Expand(`
		memory 32 32
		passive "<x*1048577>"
		func $fill fill i32
		  i32.const 5 i32.const 1 local.get 0 memory.fill
		func $down down i32
		  i32.const 5 i32.const 9 local.get 0 memory.copy
		func $up up i32
		  i32.const 9 i32.const 5 local.get 0 memory.copy
		func $init init i32
		  i32.const 5 i32.const 1 local.get 0 memory.init 0`))
	for _, op := range []string{"fill", "down", "up", "init"} {
		g := mustMeteredGuest(t, wasm, nil, 1<<40)
		g.slice = bulkPiece * costByte / 16 // as long as a piece: each look pays for the next one
		for n, want := range map[uint64]int{size: size / bulkPiece, bulkPiece: 1, bulkPiece + 1: 2} {
			if _, _, err := g.call(op, n); err != nil || g.ticks < want || g.ticks > want+1 {
				t.Errorf("%s of %d bytes looks %d times, %v; want %d", op, n, g.ticks, err, want)
			}
		}
	}
}

// TestBulkHelpersAreThereWhereTheyAreUsed holds what is added to what is used: a
// module that would not be valid without memory stays invalid, and a short
// segment needs no function of its own.
func TestBulkHelpersAreThereWhereTheyAreUsed(t *testing.T) {
	const names = "fill copy init"
	for text, want := range map[string]string{
		"memory 1\nfunc $f run\n  nop": "",
		"memory 1\nfunc $f run\n  unreachable i32.const 0 i32.const 0 i32.const 0 memory.fill":                                     "",
		"memory 1\nfunc $f run\n  i32.const 0 i32.const 0 i32.const 0 memory.fill i32.const 0 i32.const 0 i32.const 0 memory.fill": "fill",
		"memory 1\nfunc $f run\n  i32.const 0 i32.const 0 i32.const 0 memory.copy":                                                 "copy",
		"memory 1\npassive \"<x*32>\"\nfunc $f run\n  i32.const 0 i32.const 0 i32.const 0 memory.init 0":                           "",
		"memory 1\npassive \"<x*33>\"\nfunc $f run\n  i32.const 0 i32.const 0 i32.const 0 memory.init 0":                           "init",
	} {
		p, err := Prepare(wasmtest.Assemble(t, wasmtest.Expand(text)), &Limits{bulkPiece: 32})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, name := range strings.Fields(names) {
			if n := bytes.Count(p.Wasm, []byte(exportPrefix+name)); n == 1 {
				found = append(found, name)
			} else if n > 1 {
				t.Errorf("%q has %d functions %s", text, n, name)
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%q has the functions %q, want %q", text, got, want)
		}
		if err := compiles(t, p.Wasm); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, op := range []string{"memory.fill", "memory.copy"} {
		wasm := wasmtest.Assemble(t, "func $f run\n  i32.const 0 i32.const 0 i32.const 0 "+op)
		p, err := Prepare(wasm, nil)
		if err == nil && compiles(t, p.Wasm) == nil {
			t.Errorf("a module without memory may use %s", op)
		}
	}
}

// BenchmarkBulk is an operation on so many bytes, beside the same module
// unmetered. Those on all of memory run in an instance of their own, whose pages
// nobody has touched; longest-ms is the median of the longest times without a
// look.
func BenchmarkBulk(b *testing.B) {
	for _, c := range []struct {
		name, op string
		rounds   int // in one call
	}{
		{"fill 16", "i32.const 0 i32.const 1 i32.const 16 memory.fill", 10_000},
		{"copy 16", "i32.const 0 i32.const 1 i32.const 16 memory.copy", 10_000},
		{"init 16", "i32.const 0 i32.const 0 i32.const 16 memory.init 0", 10_000},
		{"fill 1 MiB", "i32.const 0 i32.const 1 i32.const 1048576 memory.fill", 10},
		{"copy 1 MiB", "i32.const 0 i32.const 1 i32.const 1048576 memory.copy", 10},
		{"fill 64 MiB untouched", "i32.const 0 i32.const 1 i32.const 67108864 memory.fill", 1},
		{"copy 32 MiB untouched", "i32.const 0 i32.const 33554432 i32.const 33554432 memory.copy", 1},
	} {
		wasm := wasmtest.Assemble(b, wasmtest.Expand(`
			memory 1024 1024
			passive "<x*16>"
			func $f run : i32
			  loop `+c.op+` local.get 0 i32.const 1 i32.add local.tee 0 i32.const `+fmt.Sprint(c.rounds)+` i32.lt_s br_if 0 end`))
		p, err := Prepare(wasm, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/plain", func(b *testing.B) { benchBulk(b, wasm, c.rounds) })
		b.Run(c.name+"/metered", func(b *testing.B) { benchBulk(b, p.Wasm, c.rounds) })
	}
}

func benchBulk(b *testing.B, wasm []byte, rounds int) {
	ctx := context.Background()
	g := &meteredGuest{slice: quantum, budget: 1 << 60}
	var last time.Time
	var stretch time.Duration
	look := func() {
		now := time.Now()
		stretch, last = max(stretch, now.Sub(last)), now
	}
	r := newRuntime(b, func(ctx context.Context, stack []uint64) {
		look()
		g.tick(ctx, stack)
	})
	code, err := r.CompileModule(ctx, wasm)
	if err != nil {
		b.Fatal(err)
	}
	var stretches []time.Duration
	for b.Loop() {
		b.StopTimer()
		mod, err := r.InstantiateModule(ctx, code, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			b.Fatal(err)
		}
		run := mod.ExportedFunction("run")
		stretch, last = 0, time.Now()
		b.StartTimer()
		if _, err := run.Call(ctx); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		look()
		stretches = append(stretches, stretch)
		if err := mod.Close(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rounds), "ns/bulk")
	slices.Sort(stretches)
	b.ReportMetric(stretches[len(stretches)/2].Seconds()*1000, "longest-ms")
}
