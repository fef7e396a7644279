package wasmmeter

// Scenario: programs generated from random choices run plain and metered, with the same
// results and an exact price.

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// generator writes valid programs of three functions, out of decisions that it
// reads from bytes: nested blocks, loops and ifs with jumps to anywhere, calls,
// recursion, loads, stores, bulk operations, early returns, dead code.
//
// With count it writes the same program with a counter in front of every single
// instruction: slow, obvious, and the measure of what the pass charges.
type generator struct {
	choices []byte
	code    []byte
	count   bool
	labels  []bool // for each open label, whether a branch to it passes a value
	size    int
}

const (
	genFuncs  = 3
	genLocals = 4 // with the parameter

	genSegment = 70 // bytes of the passive segment
	genPiece   = 16 // what bulk operations are done in, where they are metered
	genStretch = 20 // and how long it goes without a look
	genTail    = 5
)

// program returns a module. Its global 0 is the guest's, 1 the counter.
func program(choices []byte, count bool) []byte {
	g := &generator{choices: choices, count: count}
	sig := appendSized(appendSized([]byte{funcForm}, []byte{typeI32}), []byte{typeI32})
	m := append([]byte(nil), "\x00asm\x01\x00\x00\x00"...)
	m = appendSection(m, secType, append([]byte{1}, sig...))
	m = appendSection(m, secFunction, append([]byte{genFuncs}, make([]byte, genFuncs)...))
	m = appendSection(m, secTable, []byte{1, typeFuncref, 0, 4})
	m = appendSection(m, secMemory, []byte{1, 0, 1})
	m = appendSection(m, secGlobal, []byte{2, typeI32, 1, opI32Const, 3, opEnd, typeI64, 1, opI64Const, 0, opEnd})
	exports := appendName([]byte{3}, "run")
	exports = appendName(append(exports, 0, 0), "count")
	exports = appendName(append(exports, 3, 1), "memory")
	m = appendSection(m, secExport, append(exports, 2, 0))
	m = appendSection(m, secElement, []byte{1, 0, opI32Const, 0, opEnd, genFuncs, 0, 1, 2})
	code := []byte{genFuncs}
	for range genFuncs {
		g.code, g.labels, g.size = []byte{1, genLocals - 1, typeI32}, []bool{true}, 0
		g.statements(4)
		g.value(3)
		code = appendSized(code, append(g.code, opEnd))
	}
	m = appendSection(m, secDataCount, []byte{2})
	m = appendSection(m, secCode, code)
	data := append([]byte{2, 0, opI32Const, 0, opEnd}, appendName(nil, "some bytes to load from")...)
	return appendSection(m, secData, appendName(append(data, 1), strings.Repeat("segment", genSegment/7)))
}

// pick returns a number below n; when the choices are used up it is 0.
func (g *generator) pick(n int) int {
	if len(g.choices) == 0 {
		return 0
	}
	c := g.choices[0]
	g.choices = g.choices[1:]
	return int(c) % n
}

// op writes an instruction that costs the given units.
func (g *generator) op(cost int, b ...byte) {
	g.size++
	if g.count && cost > 0 {
		g.code = append(g.code, opGlobalGet, 1)
		g.code = append(appendS64(append(g.code, opI64Const), int64(cost)), opI64Add, opGlobalSet, 1)
	}
	g.code = append(g.code, b...)
}

func (g *generator) constant(v int) { g.op(1, appendS64([]byte{opI32Const}, int64(v))...) }

func (g *generator) open(op byte, cost int, result, passes bool) {
	t := byte(blockEmpty)
	if result {
		t = typeI32
	}
	g.op(cost, op, t)
	g.labels = append(g.labels, passes)
}

func (g *generator) close() {
	g.op(0, opEnd)
	g.labels = g.labels[:len(g.labels)-1]
}

// label picks an open label that takes a value or none; it returns -1 if there
// is none.
func (g *generator) label(passes bool) int {
	from := g.pick(len(g.labels))
	for i := range g.labels {
		l := (from + i) % len(g.labels)
		if g.labels[len(g.labels)-1-l] == passes {
			return l
		}
	}
	return -1
}

// statements writes instructions that leave the stack as it was.
func (g *generator) statements(depth int) {
	for n := g.pick(5); n > 0 && g.size < 400; n-- {
		g.statement(depth)
	}
}

func (g *generator) statement(depth int) {
	kind := g.pick(18)
	if depth == 0 {
		kind %= 7
	}
	switch kind {
	case 0, 1:
		g.value(depth)
		g.op(1, opLocalSet, byte(g.pick(genLocals)))
	case 2:
		g.address()
		g.value(depth)
		g.op(1, 0x3a, 0, 0) // i32.store8
	case 3:
		g.value(depth)
		g.op(1, opGlobalSet, 0)
	case 4:
		n := g.pick(200)
		g.address()
		g.constant(7)
		g.constant(n)
		g.op(costBulk+n*costByte/16, opMisc, miscMemoryFill, 0)
	case 5:
		g.op(0, 0x01) // nop
	case 6:
		g.value(depth)
		g.op(1, 0x1a) // drop
	case 7, 8:
		g.value(depth - 1)
		g.open(opIf, 1, false, false)
		g.statements(depth - 1)
		if g.pick(2) == 1 {
			g.op(0, opElse)
			g.statements(depth - 1)
		}
		g.close()
	case 9:
		g.open(opBlock, 0, false, false)
		g.statements(depth - 1)
		g.close()
	case 10:
		g.open(opLoop, 0, false, false)
		g.op(costLoop, 0x01) // a nop, for the loop
		g.statements(depth - 1)
		g.close()
	case 11, 12: // a jump, perhaps back to a loop
		if l := g.label(false); l >= 0 {
			g.value(depth - 1)
			g.op(1, 0x0d, byte(l)) // br_if
		}
	case 13:
		g.jump(depth)
	case 14:
		g.value(depth - 1)
		g.op(1, 0x0f) // return
	case 15:
		g.dispatch(depth)
	case 16: // a copy that may overlap, in pieces where it is metered
		n := g.pick(200)
		g.address()
		g.address()
		g.constant(n)
		g.op(costBulk+n*costByte/16, opMisc, miscMemoryCopy, 0, 0)
	case 17: // beyond the segment's end, sometimes
		n := g.pick(genSegment + 4)
		g.address()
		g.constant(0)
		g.constant(n)
		g.op(costBulk+n*costByte/16, opMisc, miscMemoryInit, 1, 0)
	}
}

// jump writes an unconditional jump; what follows is dead.
func (g *generator) jump(depth int) {
	a, b := g.label(false), g.label(false)
	switch {
	case g.pick(8) == 0:
		g.op(1, 0x00) // unreachable
	case a < 0:
	case g.pick(2) == 0:
		g.op(1, opBr, byte(a))
	default:
		g.value(depth - 1)
		g.op(2, opBrTable, 2, byte(a), byte(b), byte(a))
	}
}

// dispatch writes a loop around a jump table, as the Go compiler does, with
// jumps forward and back through the table.
func (g *generator) dispatch(depth int) {
	n := 2 + g.pick(3)
	local := byte(1 + g.pick(genLocals-1))
	g.constant(g.pick(n + 1))
	g.op(1, opLocalSet, local)
	g.open(opLoop, 0, false, false)
	for range n {
		g.open(opBlock, 0, false, false)
	}
	g.op(costLoop+1, opLocalGet, local) // once for the loop
	table := []byte{opBrTable, byte(n)}
	for i := range n {
		table = append(table, byte(i))
	}
	g.op(2, append(table, byte(n))...)
	for i := range n {
		g.close()
		g.statements(depth - 1)
		if target := g.pick(2 * n); target <= n {
			// In the form that the pass looks for, unless a counter stands in between.
			g.constant(target)
			g.op(1, opLocalSet, local)
			g.op(1, opBr, byte(n-1-i))
		}
	}
	g.close()
}

func (g *generator) address() { g.constant(g.pick(256)) }

// value writes instructions that leave one i32.
func (g *generator) value(depth int) {
	kind := g.pick(14)
	if depth <= 0 || g.size > 400 {
		kind %= 4
	}
	switch kind {
	case 0:
		g.constant(g.pick(40) - 4)
	case 1, 2:
		g.op(1, opLocalGet, byte(g.pick(genLocals)))
	case 3:
		g.op(1, opGlobalGet, 0)
	case 4, 5:
		g.value(depth - 1)
		g.value(depth - 1)
		ops := []byte{0x6a, 0x6b, 0x6c, 0x71, 0x73, 0x48}
		g.op(1, ops[g.pick(len(ops))])
	case 6:
		g.value(depth - 1)
		g.value(depth - 1)
		g.op(costDivide, 0x6f) // i32.rem_s
	case 7:
		g.address()
		g.op(1, 0x2d, 0, 0) // i32.load8_u
	case 8:
		g.open(opBlock, 0, true, true)
		g.statements(depth - 1)
		g.value(depth - 1)
		g.close()
	case 9:
		g.value(depth - 1)
		g.open(opIf, 1, true, true)
		g.statements(depth - 1)
		g.value(depth - 1)
		g.op(0, opElse)
		g.value(depth - 1)
		g.close()
	case 10:
		g.value(depth - 1)
		g.op(costCall, opCall, byte(g.pick(genFuncs)))
	case 11:
		g.value(depth - 1)
		g.constant(g.pick(5)) // 3 is null, 4 is out of bounds
		g.op(costIndirect, 0x11, 0, 0)
	case 12: // a jump with a value
		if l := g.label(true); l >= 0 {
			g.value(depth - 1)
			g.value(depth - 1)
			g.op(1, 0x0d, byte(l))
			return
		}
		g.constant(1)
	case 13:
		g.value(depth - 1)
		g.value(depth - 1)
		g.value(depth - 1)
		g.op(1, 0x1b) // select
	}
}

// comparePrograms runs a program plain, metered, metered without slack, and
// with a counter at every instruction.
func comparePrograms(t *testing.T, choices []byte) (ran bool) {
	t.Helper()
	wasm := program(choices, false)
	const arg, most = 5, 300_000
	metered := mustMeteredGuest(t, wasm, &Limits{CallDepth: 200, bulkPiece: genPiece, stretch: genStretch, tail: genTail}, most)
	got, spent, err := metered.call("run", arg)
	if errors.Is(err, errBudget) || errors.Is(err, errDepth) {
		return false // it would run for long, or for ever
	}
	plain := mustInstance(t, wasm)
	want, plainErr := plain.ExportedFunction("run").Call(context.Background(), arg)
	if !slices.Equal(got, want) || trap(err) != trap(plainErr) {
		t.Fatalf("plain: %v, %v; metered: %v, %v; module %x", want, plainErr, got, err, wasm)
	}
	a, _ := plain.Memory().Read(0, 1<<16)
	b, _ := metered.mod.Memory().Read(0, 1<<16)
	if !slices.Equal(a, b) {
		t.Fatalf("memory differs after the call; module %x", wasm)
	}
	if err != nil {
		return true // a trap: prices are upper bounds
	}
	if d := metered.callsLeft(); d != 200 {
		t.Fatalf("depth is %d after the call, want 200; module %x", d, wasm)
	}
	counted := mustInstance(t, program(choices, true))
	if _, err := counted.ExportedFunction("run").Call(context.Background(), arg); err != nil {
		t.Fatalf("the program with a counter: %v", err)
	}
	exact := int64(counted.ExportedGlobal("count").Get())
	// The forward jumps that the pass straightens save what the table costs.
	without := spentWithoutSlack(t, wasm, arg)
	if without > exact || !straightens(t, wasm) && without != exact {
		t.Fatalf("without slack it paid %d for %d units; module %x", without, exact, wasm)
	}
	if spent < without {
		t.Fatalf("it paid %d with slack and %d without; module %x", spent, without, wasm)
	}
	return true
}

func mustInstance(t testing.TB, wasm []byte) api.Module {
	t.Helper()
	mod, err := newRuntime(t, nil).InstantiateWithConfig(context.Background(), wasm, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatalf("instantiate: %v; module %x", err, wasm)
	}
	return mod
}

func spentWithoutSlack(t *testing.T, wasm []byte, arg uint64) int64 {
	t.Helper()
	m, err := parse(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	pass := newMeter(m, (&Limits{bulkPiece: genPiece, stretch: genStretch, tail: genTail}).WithDefaults())
	pass.scan.slack = 0
	metered, err := pass.write()
	if err != nil {
		t.Fatal(err)
	}
	g := &meteredGuest{slice: 3, budget: 1 << 40}
	if g.mod, err = newRuntime(t, g.tick).InstantiateWithConfig(context.Background(), metered, wazero.NewModuleConfig().WithName("")); err != nil {
		t.Fatal(err)
	}
	g.fuel, g.depth = g.mod.ExportedGlobal(FuelGlobal).(api.MutableGlobal), g.mod.ExportedGlobal(DepthGlobal).(api.MutableGlobal)
	_, spent, err := g.call("run", arg)
	if err != nil {
		t.Fatal(err)
	}
	return spent
}

// straightens reports whether the pass changes a jump of the module.
func straightens(t *testing.T, wasm []byte) bool {
	t.Helper()
	m, err := parse(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &newMeter(m, (&Limits{}).WithDefaults()).scan
	for i := range m.bodies {
		if err := s.scan(i); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.edits {
			if e.kind == editIndex && m.wasm[e.at-1] == opBr {
				return true
			}
		}
	}
	return false
}

// TestMeteredProgramsAreEqual compares random programs.
func TestMeteredProgramsAreEqual(t *testing.T) {
	const programs = 150
	ran, straight := 0, 0
	random := rand.New(rand.NewPCG(1, 2))
	for range programs {
		choices := make([]byte, 50+random.IntN(400))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		if comparePrograms(t, choices) {
			ran++
			if straightens(t, program(choices, false)) {
				straight++
			}
		}
	}
	t.Logf("%d of %d programs came to an end, %d with straightened jumps", ran, programs, straight)
	if ran < programs/2 || straight < 5 {
		t.Errorf("too few programs were compared: change the generator")
	}
}

func FuzzMeteredPrograms(f *testing.F) {
	f.Add([]byte("a program"))
	f.Add([]byte("another program, longer, with more of everything in it \x0f\x0a\x0b\x0c\x0d"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) < 2000 {
			comparePrograms(t, choices)
		}
	})
}
