package wasmmeter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

var (
	errBudget = errors.New("the budget is used up")
	errDepth  = errors.New("the guest recursed too deep")
)

// quantum is how many units a guest gets at each fuel check where a test does not care.
const quantum = 100_000

// meteredGuest is an instance of a prepared module, and the host's side of the
// meter protocol in its plainest form.
type meteredGuest struct {
	mod     api.Module
	fuel    api.MutableGlobal
	depth   api.MutableGlobal
	slice   int64 // what a tick hands out
	budget  int64 // what a call may spend
	granted int64
	ticks   int
}

// tick is the function that the guest imports.
func (g *meteredGuest) tick(_ context.Context, stack []uint64) {
	g.ticks++
	fuel, depth := int64(stack[0]), int64(stack[1])
	if depth < 0 && !raiseDepth(g.depth, depth) {
		panic(errDepth)
	}
	if depth < 0 && fuel >= 0 {
		return
	}
	if fuel >= 0 {
		panic(fmt.Sprintf("tick with fuel %d left", fuel))
	}
	if g.granted-fuel > g.budget {
		panic(errBudget)
	}
	g.granted += g.slice
	stack[0] = uint64(fuel + g.slice)
}

// raiseDepth hands out as many units of stack as there is weight left; false if there
// is none.
func raiseDepth(global api.MutableGlobal, depth int64) bool {
	calls, _ := UnpackDepth(depth)
	global.Set(uint64(PackDepth(calls, calls)))
	return calls >= 0
}

// callsLeft is what is left of the limit CallDepth.
func (g *meteredGuest) callsLeft() int64 {
	calls, _ := UnpackDepth(int64(g.depth.Get()))
	return calls
}

// call calls an export and returns what it spent; a failed call too has a bill.
func (g *meteredGuest) call(name string, args ...uint64) (results []uint64, spent int64, err error) {
	g.granted, g.ticks = 0, 0
	g.fuel.Set(0)
	results, err = g.mod.ExportedFunction(name).Call(context.Background(), args...)
	return results, g.granted - int64(g.fuel.Get()), err
}

// newRuntime returns a runtime with the meter and a few functions to import.
func newRuntime(t testing.TB, tick func(context.Context, []uint64)) wazero.Runtime {
	t.Helper()
	return newRuntimeOf(t, wazero.NewRuntimeConfig(), tick)
}

func newRuntimeOf(t testing.TB, config wazero.RuntimeConfig, tick func(context.Context, []uint64)) wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Errorf("close the runtime: %v", err)
		}
	})
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	if _, err := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(tick), []api.ValueType{i64, i64}, []api.ValueType{i64}).
		Export(ImportCheck).Instantiate(ctx); err != nil {
		t.Fatalf("instantiate the meter: %v", err)
	}
	if _, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().
		WithFunc(func(a, b int32) int32 { return a*10 + b }).Export("join").
		NewFunctionBuilder().WithFunc(func() {}).Export("nothing").Instantiate(ctx); err != nil {
		t.Fatalf("instantiate env: %v", err)
	}
	return r
}

// newMeteredGuest prepares and instantiates a module. The error is that of
// instantiation, where a start function may be stopped.
func newMeteredGuest(t testing.TB, wasm []byte, l *Limits, budget int64) (*meteredGuest, error) {
	t.Helper()
	p, err := Prepare(wasm, l)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	g := &meteredGuest{slice: 1000, budget: budget}
	r := newRuntime(t, g.tick)
	g.mod, err = r.InstantiateWithConfig(context.Background(), p.Wasm, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return g, err
	}
	g.fuel = g.mod.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	g.depth = g.mod.ExportedGlobal(DepthGlobal).(api.MutableGlobal)
	return g, runStart(g.mod)
}

// deepStack gives a metered module as much stack as it may ask for.
func deepStack(mod api.Module) {
	depth := mod.ExportedGlobal(DepthGlobal).(api.MutableGlobal)
	calls, _ := UnpackDepth(int64(depth.Get()))
	depth.Set(uint64(PackDepth(calls, 1<<30)))
}

// runStart calls the start function of a metered module, as the host does.
func runStart(mod api.Module) error {
	start := mod.ExportedFunction(StartExport)
	if start == nil {
		return nil
	}
	_, err := start.Call(context.Background())
	return err
}

func mustMeteredGuest(t testing.TB, wasm []byte, l *Limits, budget int64) *meteredGuest {
	t.Helper()
	g, err := newMeteredGuest(t, wasm, l, budget)
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	return g
}

func TestMeterStopsHostileGuests(t *testing.T) {
	var bomb strings.Builder // each function calls the next one twice, and there is no loop
	for i := range 60 {
		fmt.Fprintf(&bomb, "func $f%d %s\n  call $f%d call $f%d\n", i, map[bool]string{true: "run", false: "-"}[i == 0], i+1, i+1)
	}
	bomb.WriteString("func $f60 -\n  nop")
	for _, c := range []struct {
		name string
		text string
		args []uint64
		want error
	}{
		{name: "empty loop", want: errBudget, text: `
			func $f run
			  loop br 0 end`},
		{name: "loop of two conditional branches", want: errBudget, text: `
			func $f run
			  loop block i32.const 1 br_if 1 end end`},
		{name: "loop through a jump table", want: errBudget, text: `
			func $f run i32
			  loop block block local.get 0 br_table 2 0 1 2 end end br 0 end`},
		{name: "jump tables that only jump back", want: errBudget, args: []uint64{7}, text: `
			func $f run i32
			  loop loop local.get 0 br_table 3 0 1 1 0 end end`},
		{name: "loop without a way through its header's end", want: errBudget, text: `
			func $f run
			  loop loop br 1 end end`},
		{name: "loop in unused code of a used function", want: errBudget, text: `
			func $f run
			  block br 0 loop br 0 end end loop br 0 end`},
		{name: "jump table in the form that Go writes", want: errBudget, text: `
			func $f run i32
			  loop block block local.get 0 br_table 1 0 1
			  end i32.const 1 local.set 0 br 1
			  end i32.const 0 local.set 0 br 0
			  end`},
		{name: "recursion", want: errDepth, text: `
			func $f run
			  call $f`},
		{name: "recursion that the result is waiting for", want: errDepth, text: `
			func $f run -> i32
			  call $f i32.const 1 i32.add`},
		{name: "mutual recursion", want: errDepth, text: `
			func $f run
			  call $g
			func $g -
			  call $f`},
		{name: "recursion through a table", want: errDepth, text: `
			table 1
			elem 0 $f
			func $f run
			  i32.const 0 call_indirect 0`},
		{name: "recursion that returns just before its end, for ever", want: errBudget, text: `
			func $f run
			  loop i32.const 9000 call $down br 0 end
			func $down - i32
			  local.get 0 if local.get 0 i32.const 1 i32.sub call $down end`},
		{name: "functions that call the next one twice", want: errBudget, text: bomb.String()},
		{name: "memory.fill of all memory, without a loop", want: errBudget, text: `
			memory 1000
			func $f run
			  ` + strings.Repeat("i32.const 0 i32.const 1 i32.const 65536000 memory.fill ", 50)},
		{name: "memory.copy of all memory, without a loop", want: errBudget, text: `
			memory 1000
			func $f run
			  ` + strings.Repeat("i32.const 0 i32.const 1 i32.const 65535999 memory.copy ", 50)},
		{name: "memory.init of a large segment, without a loop", want: errBudget, text: `
			memory 100
			passive "` + strings.Repeat("0123456789abcdef", 1<<16) + `"
			func $f run
			  ` + strings.Repeat("i32.const 0 i32.const 0 i32.const 1048576 memory.init 0 ", 500)},
		{name: "table.fill of a table, without a loop", want: errBudget, text: `
			table 100000
			func $f run
			  ` + strings.Repeat("i32.const 0 ref.null funcref i32.const 100000 table.fill 0 ", 1000)},
		{name: "table.copy of a table, without a loop", want: errBudget, text: `
			table 100000
			func $f run
			  ` + strings.Repeat("i32.const 0 i32.const 1 i32.const 99999 table.copy 0 0 ", 1000)},
		{name: "memory.grow by nothing, for ever", want: errBudget, text: `
			memory 1
			func $f run
			  loop i32.const 0 memory.grow drop br 0 end`},
		{name: "calls of the host, for ever", want: errBudget, text: `
			import env nothing as $nothing
			func $f run
			  loop call $nothing br 0 end`},
		{name: "calls of functions too cheap to look", want: errBudget, text: `
			func $f run
			  loop ` + strings.Repeat("call $leaf ", 1000) + ` br 0 end
			func $leaf -
			  nop`},
	} {
		t.Run(c.name, func(t *testing.T) {
			const budget = 30_000_000
			g := mustMeteredGuest(t, wasmtest.Assemble(t, c.text), &Limits{MemoryPages: 1000}, budget)
			_, spent, err := g.call("run", append(c.args, make([]uint64, len(g.mod.ExportedFunction("run").Definition().ParamTypes())-len(c.args))...)...)
			if !errors.Is(err, c.want) {
				t.Fatalf("call = %v, want %v", err, c.want)
			}
			if c.want == errBudget && (spent < budget || spent > 3*budget) {
				t.Errorf("it spent %d of %d", spent, budget)
			}
		})
	}
}

func TestMeterStopsStartFunction(t *testing.T) {
	for _, text := range []string{
		"start $s\nfunc $s -\n  loop br 0 end",
		"start $s\nfunc $other -\n  nop\nfunc $s -\n  loop br 0 end",
	} {
		if _, err := newMeteredGuest(t, wasmtest.Assemble(t, text), nil, 1_000_000); !errors.Is(err, errBudget) {
			t.Errorf("instantiate = %v, want %v", err, errBudget)
		}
	}
}

// crossIf is a function of n locals that sets them in an if that is not taken.
func crossIf(n int) string {
	return fmt.Sprintf("func $f run : i32 %d*i32\n local.get 0 if ", n) + setLocals(n) + "end "
}

func setLocals(n int) string {
	return wasmtest.Expand(fmt.Sprintf("<i32.const 7 local.set {n+1} *%d>", n))
}

func readLocals(n int) string { return wasmtest.Expand(fmt.Sprintf("<local.get {n+1} drop *%d>", n)) }

func TestMeterPrices(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		args []uint64
		want int64
	}{
		{"nothing", "func $f run", nil, 0},
		{"constant and drop", "func $f run\n  i32.const 1 drop", nil, 2},
		{"free instructions", "func $f run\n  nop block nop end", nil, 0},
		{"loop, 10 times", "func $f run : i32\n  loop local.get 0 i32.const 1 i32.add local.tee 0 i32.const 10 i32.lt_s br_if 0 end", nil, 70 + 10*costLoop},
		{"a call, and two units in it", "func $f run\n  call $g\nfunc $g -\n  i32.const 1 drop", nil, costCall + 2},
		{"a call through a table", "table 1\nelem 0 $g\nfunc $f run\n  i32.const 0 call_indirect 0\nfunc $g -\n  nop", nil, costIndirect + 1},
		{"a call of the host", "import env nothing as $nothing\nfunc $f run\n  call $nothing", nil, costCall + costImport},
		{"a call of the host through a table", "import env nothing as $nothing\ntable 1\nelem 0 $nothing\ntype ->\nfunc $f run\n  i32.const 0 call_indirect 0", nil, 1 + costIndirect + costImport},
		{"a call through a table where one of the host may be", "import env nothing as $nothing\ntable 2\nelem 0 $nothing $g\ntype ->\nfunc $f run\n  i32.const 1 call_indirect 0\nfunc $g -\n  nop", nil, 1 + costIndirect + costImport},
		{"division", "func $f run -> i32\n  i32.const 7 i32.const 2 i32.div_s", nil, costDivide + 2},
		{"vector", "func $f run\n  v128.const v128.const i8x16.shuffle i16x8.abs i32x4.extract_lane drop", nil, 6},
		{"fill 1600 bytes", "memory 1\nfunc $f run\n  i32.const 0 i32.const 1 i32.const 1600 memory.fill", nil, 3 + costBulk + 1600*costByte/16},
		{"copy 1600 bytes", "memory 1\nfunc $f run\n  i32.const 0 i32.const 1 i32.const 1600 memory.copy", nil, 3 + costBulk + 1600*costByte/16},
		{"grow by 3 pages", "memory 1 10\nfunc $f run -> i32\n  i32.const 3 memory.grow", nil, 1 + costLeave + 3*costPage/16},
		{"grow by an impossible number of pages", "memory 1 10\nfunc $f run -> i32\n  i32.const -1 memory.grow", nil, 1 + costLeave},
		{"grow a table by 5", "table 1 10\nfunc $f run -> i32\n  ref.null funcref i32.const 5 table.grow 0", nil, 2 + costLeave + 5*costEntry/16},
		{"dear branch that is taken", "func $f run i32\n  local.get 0 if " + strings.Repeat("i32.const 1 drop ", 50) + "end", []uint64{1}, 102},
		{"dear branch that is not taken", "func $f run i32\n  local.get 0 if " + strings.Repeat("i32.const 1 drop ", 50) + "end", []uint64{0}, 2},
		{"cheap branch that is not taken", "func $f run i32\n  local.get 0 if i32.const 1 drop end", []uint64{0}, 4},
		{"what follows a branch that rejoins", "func $f run i32\n  local.get 0 if " + strings.Repeat("i32.const 1 drop ", 50) + "end " + strings.Repeat("nop i32.const 1 drop ", 20), []uint64{0}, 42},
		{"dear code that is jumped over", "func $f run i32\n  block local.get 0 br_if 0 " + strings.Repeat("i32.const 1 drop ", 50) + "end", []uint64{1}, 2},
		{"code after return", "func $f run\n  return " + strings.Repeat("i32.const 1 drop ", 50), nil, 1},
		{"as many locals across an if as are free", crossIf(freeCrossing) + readLocals(freeCrossing), nil, 2 + 2*freeCrossing},
		{"more locals across an if", crossIf(100) + readLocals(100), nil, 2 + 200 + (100-freeCrossing)*costCross},
		{"locals that are set in an if and not read", crossIf(100), nil, 2},
		{"locals that are set in an if and set before they are read", crossIf(100) + setLocals(100) + readLocals(100), nil, 2 + 400},
		{"locals that are set in an else", "func $f run : i32 100*i32\n local.get 0 if nop else " + setLocals(100) + "end " + readLocals(100), nil, 2 + 200 + 200 + (100-freeCrossing)*costCross},
		{"locals across the end of a block", "func $f run : i32 100*i32\n block local.get 0 i32.eqz br_if 0 " + setLocals(100) + "end " + readLocals(100), nil, 3 + 200 + (100-freeCrossing)*costCross},
		{"locals across the end of the block of a table", "func $f run : i32 100*i32\n block block local.get 0 br_table 1 1 0 end " + setLocals(100) + "end " + readLocals(100), nil, 3 + 200 + (100-freeCrossing)*costCross},
		{"locals across the header of a loop, 1 time", "func $f run : i32 100*i32\n loop local.get 0 if " + readLocals(100) + setLocals(100) + "br 1 end end", nil, 2 + costLoop + (100-freeCrossing)*costCross},
		{"locals that a loop reads and does not set", "func $f run : i32 100*i32\n loop local.get 0 if " + readLocals(100) + "br 1 end end", nil, 2 + costLoop},
		{"locals that an iteration sets and the next one reads in a loop inside", "func $f run : i32 100*i32\n loop loop local.get 0 if " + readLocals(100) + "br 1 end end local.get 0 if " + setLocals(100) + "br 1 end end", nil,
			4 + 2*costLoop + (100-freeCrossing)*costCross},
		{"values of a block that is left", "type -> " + strings.Repeat("i32 ", 50) + "\nfunc $f run\n block type=0 " + strings.Repeat("i32.const 1 ", 50) + "br 0 end " + strings.Repeat("drop ", 50), nil, 101 + (50-freeCrossing)*costCross},
		{"parameters of a loop", "type " + strings.Repeat("i32 ", 50) + "->\nfunc $f run\n " + strings.Repeat("i32.const 1 ", 50) + "loop type=0 " + strings.Repeat("drop ", 50) + "end", nil, 100 + costLoop + (50-freeCrossing)*costCross},
		{"a call with 50 parameters", "func $g - " + strings.Repeat("i32 ", 50) + "\n nop\nfunc $f run\n " + strings.Repeat("i32.const 1 ", 50) + "call $g", nil, 50 + costCall + (50-freeCrossing)*costCross},
		{"a call in a module with 100 mutable globals", strings.Repeat("global i32 mut 1\n", 100) + "func $g -\n nop\nfunc $f run\n call $g", nil, costCall + (100-freeCrossing)*costReload},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := mustMeteredGuest(t, wasmtest.Assemble(t, c.text), nil, 1<<40)
			for round := range 2 {
				g.slice = []int64{1000, 7}[round] // the slice must not matter
				if _, spent, err := g.call("run", c.args...); spent != c.want || err != nil {
					t.Errorf("with slices of %d it spent %d, %v, want %d", g.slice, spent, err, c.want)
				}
			}
		})
	}
}

// TestMeterDepth checks that depth is given back on every way out of a function.
func TestMeterDepth(t *testing.T) {
	g := mustMeteredGuest(t, wasmtest.Assemble(t, `
		type -> i32 i64
		func $leaf -
		  nop
		func $end run0 i32
		  call $leaf
		func $return run1 i32
		  call $leaf return
		func $nested run2 i32
		  block block local.get 0 if call $leaf return end end end
		func $branch run3 i32
		  block block local.get 0 br_if 2 call $leaf end end
		func $table run4 i32
		  block block call $leaf local.get 0 br_table 2 0 1 2 end end
		func $result run5 i32 -> i32
		  call $leaf local.get 0 if i32.const 1 return end i32.const 2
		func $results run6 i32 -> i32 i64
		  call $leaf local.get 0 if i32.const 1 i64.const 2 return end i32.const 3 i64.const 4
		func $branchresults run7 i32 -> i32 i64
		  call $leaf i32.const 1 i64.const 2 local.get 0 br_if 0 drop drop i32.const 3 i64.const 4 br 0
		func $dead run8 i32
		  call $leaf block return call $leaf return end
		func $loop run9 i32
		  call $leaf loop local.get 0 i32.eqz if return end br 1 end
	`), nil, 1<<40)
	full := g.callsLeft()
	if full != defaultCallDepth {
		t.Errorf("depth begins at %d, want %d", full, defaultCallDepth)
	}
	for i := range 10 {
		for arg := range uint64(4) {
			name := fmt.Sprintf("run%d", i)
			if _, _, err := g.call(name, arg); err != nil {
				t.Fatalf("%s(%d): %v", name, arg, err)
			}
			if got := g.callsLeft(); got != full {
				t.Fatalf("after %s(%d) depth is %d, want %d", name, arg, got, full)
			}
		}
	}
}

func TestMeterKeepsResults(t *testing.T) {
	g := mustMeteredGuest(t, wasmtest.Assemble(t, `
		import env join i32 i32 -> i32 as $join
		memory 1
		table 4
		elem 0 $first $second $join $fib
		global i32 mut 5
		global i64 9
		data 100 "hello"
		start $init
		export counter global 0
		func $first first i32 i32 -> i32
		  local.get 0 i32.const 100 i32.mul local.get 1 i32.add
		func $second second i32 i32 -> i32
		  local.get 0 local.get 1 call $first i32.const 1 i32.add
		func $init -
		  i32.const 77 global.set 0
		func $indirect indirect i32 i32 i32 -> i32
		  local.get 1 local.get 2 local.get 0 call_indirect 0
		func $fib fib i32 -> i32
		  local.get 0 i32.const 2 i32.lt_s if local.get 0 return end
		  local.get 0 i32.const 1 i32.sub call $fib local.get 0 i32.const 2 i32.sub call $fib i32.add
		func $host host i32 i32 -> i32
		  local.get 0 local.get 1 call $join
		func $read read i32 -> i32
		  local.get 0 i32.load8_u
		func $count count -> i32
		  global.get 0 i32.const 1 i32.add global.set 0 global.get 0
		func $big big -> i64
		  global.get 1
	`), nil, 1<<40)
	for _, c := range []struct {
		name string
		args []uint64
		want uint64
	}{
		{"first", []uint64{3, 4}, 304},
		{"second", []uint64{3, 4}, 305},
		{"indirect", []uint64{0, 3, 4}, 304},
		{"indirect", []uint64{1, 3, 4}, 305},
		{"indirect", []uint64{2, 3, 4}, 34},
		{"fib", []uint64{15}, 610},
		{"host", []uint64{5, 6}, 56},
		{"read", []uint64{104}, 'o'},
		{"count", nil, 78},
		{"count", nil, 79},
		{"big", nil, 9},
	} {
		if got, _, err := g.call(c.name, c.args...); err != nil || !slices.Equal(got, []uint64{c.want}) {
			t.Errorf("%s(%v) = %v, %v, want %d", c.name, c.args, got, err, c.want)
		}
	}
	if _, _, err := g.call("indirect", 3, 1, 1); err == nil || !strings.Contains(err.Error(), "indirect call type mismatch") {
		t.Errorf("a call of the wrong type through the table = %v", err)
	}
	if got := g.mod.ExportedGlobal(GlobalExport(0)).Get(); got != 79 {
		t.Errorf("the saved global is %d, want 79", got)
	}
	if g.mod.ExportedGlobal(GlobalExport(1)) != nil {
		t.Errorf("a constant global is exported")
	}
}

// TestMeterIndexSmuggling checks that nothing that the pass adds can be named
// by the guest: each of these is invalid as it stands.
func TestMeterIndexSmuggling(t *testing.T) {
	for name, text := range map[string]string{
		"sets the added fuel":             "func $f run\n  i64.const 1 global.set 0",
		"reads the added depth":           "global i32 mut 1\nfunc $f run\n  global.get 2 drop",
		"calls the added import":          "func $f run -> i64\n  i64.const 0 i64.const 0 call 1",
		"calls an added function":         "func $f run\n  call 2",
		"refers to an added function":     "func $f run\n  ref.func 2 drop",
		"exports an added function":       "export x func 2\nfunc $f run\n  nop",
		"exports the added global":        "export x global 0\nfunc $f run\n  nop",
		"puts the import into a table":    "table 2\nelem 0 1\nfunc $f run\n  nop",
		"starts with an added function":   "start 2\nfunc $f run\n  nop",
		"a global of an added function":   "global funcref 2\nfunc $f run\n  nop",
		"calls through an added type":     "table 1\nfunc $f run\n  i32.const 0 call_indirect 1",
		"a block of an added type":        "func $f run\n  block type=2 end",
		"jumps to the added block":        "func $g -\n  nop\nfunc $f run\n  call $g return block br 2 end",
		"jumps to the added block, table": "func $g -\n  nop\nfunc $f run\n  call $g i32.const 0 br_table 1 0 1",
		"sets an added local":             "func $f run\n  i32.const 1 local.set 0",
		"drops a segment":                 "func $f run\n  data.drop 0",
		"drops an element segment":        "func $f run\n  elem.drop 0",
		"initialises without a count":     "memory 1\ndata 0 \"x\"\nfunc $f run\n  i32.const 0 i32.const 0 i32.const 0 memory.init 0",
		"fills a table that is not there": "func $f run\n  i32.const 0 ref.null funcref i32.const 0 table.fill 0",
	} {
		t.Run(name, func(t *testing.T) {
			wasm := wasmtest.Assemble(t, text)
			if _, err := Prepare(wasm, nil); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("prepare = %v, want an error with code invalid_argument", err)
			}
			if err := compiles(t, wasm); err == nil {
				t.Errorf("wazero accepts the module: the test is wrong")
			}
		})
	}
}

// compiles compiles a module as it stands.
func compiles(t testing.TB, wasm []byte) error {
	ctx := context.Background()
	// Without debug information, with which wazero refuses a custom section that
	// is empty and the last.
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithDebugInfoEnabled(false))
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, wasm)
	return err
}

func TestPrepareIsDeterministic(t *testing.T) {
	wasm := wasmtest.Assemble(t, "memory 1\nglobal i32 mut 1\ntype -> i32 i64\ntype -> i64 i32\n"+
		strings.Repeat("func $f - -> i32 i64\n  call $g drop drop i32.const 1 i64.const 1 return\nfunc $g - -> i64 i32\n  call $f drop drop i64.const 1 i32.const 1 return\n", 20))
	first, err := Prepare(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if next, err := Prepare(bytes.Clone(wasm), &Limits{}); err != nil || !bytes.Equal(next.Wasm, first.Wasm) {
			t.Fatalf("prepare gives other bytes the second time (%v)", err)
		}
	}
	if err := compiles(t, first.Wasm); err != nil {
		t.Errorf("compile the result: %v", err)
	}
}
