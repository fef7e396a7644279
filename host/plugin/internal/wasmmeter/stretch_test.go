package wasmmeter

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// mostBetweenLooks is the most that a call of run charges between two looks. The
// tick pays all that is owed and no more, so that every look with a charge before
// it ticks. A look comes after the charge of what follows it, so that is twice
// what is run between two.
func mostBetweenLooks(t *testing.T, wasm []byte) (most int64) {
	t.Helper()
	p, err := Prepare(wasm, &Limits{stretch: shortStretch, tail: shortTail})
	if err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t, func(_ context.Context, stack []uint64) {
		most = max(most, -int64(stack[0]))
		stack[0] = 0
	})
	mod, err := r.InstantiateWithConfig(context.Background(), p.Wasm, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mod.ExportedFunction("run").Call(context.Background()); err != nil {
		t.Fatal(err)
	}
	return most
}

const (
	shortStretch = 1000
	shortTail    = 100
)

func TestLooksWhereThereAreNoLoops(t *testing.T) {
	const (
		leaf    = "func $leaf -\n <i32.const 1 drop *30>\n"
		recurse = "local.get 0 if local.get 0 i32.const 1 i32.sub call $f end\n"
		line    = 2*shortStretch + 100 // with a few instructions, and the prices of calls
	)
	for _, c := range []struct {
		name, text string
		most       int64
	}{
		{"a long line", "func $run run\n <i32.const 1 drop *10000>", line},
		{"long lines after loops", "func $run run\n <loop end <i32.const 1 drop *300> *30>", line},
		{"leaves in a row", leaf + "func $run run\n <call $leaf *1000>", line},
		{"leaves through a table", leaf + "type ->\ntable 1\nelem 0 $leaf\nfunc $run run\n <i32.const 0 call_indirect 0 *1000>", shortTail + line},
		{"lines that jump over each other's ends",
			"func $run run : i32\n <block local.get 0 i32.eqz br_if 0 <i32.const 1 drop *600> end <i32.const 1 drop *400> *20>", line},
		{"branches of ifs", "func $run run : i32\n <local.get 0 if <i32.const 1 drop *9> else <i32.const 1 drop *300> end *50>", line},
		{"long ends of a recursion", "func $f - i32\n" + recurse + "<i32.const 1 drop *2000>\nfunc $run run\n i32.const 500 call $f", line},
		{"long ends with leaves", leaf + "func $f - i32\n" + recurse + "<call $leaf *100>\nfunc $run run\n i32.const 500 call $f", line},
		{"long ends behind blocks",
			"func $f - i32\n" + recurse + "<block <i32.const 1 drop *30> end *300>\nfunc $run run\n i32.const 500 call $f", line},
		{"short ends of a recursion", "func $f - i32\n" + recurse + "<i32.const 1 drop *40>\nfunc $run run\n i32.const 500 call $f", 500*shortTail + line},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mostBetweenLooks(t, wasmtest.Assemble(t, wasmtest.Expand(c.text))); got > c.most || got == 0 {
				t.Errorf("it spends %d between two looks, want at most %d", got, c.most)
			}
		})
	}
}

// TestWhatFollowsACallIsChargedThen holds the pass to charging it late: what is
// paid in advance would be spent without a look at the deadline.
func TestWhatFollowsACallIsChargedThen(t *testing.T) {
	for name, end := range map[string]string{
		"a long line": "<i32.const 1 drop *1000>",
		"short lines between calls of what looks": "<<i32.const 1 drop *40> i32.const 0 call $g *25>",
	} {
		t.Run(name, func(t *testing.T) {
			begun, all := paidInnermost(t, wasmtest.Assemble(t, wasmtest.Expand(`
				import other see as $see
				func $g - i32
				  local.get 0 if i32.const 0 call $g end
				func $h -
				  call $see
				func $f - i32
				  local.get 0 if local.get 0 i32.const 1 i32.sub call $f else call $h end
				  `+end+`
				func $run run
				  i32.const 100 call $f`)))
			if begun == 0 || begun > all/20 {
				t.Errorf("at the innermost call %d of %d are paid, and what follows a hundred calls is still to come", begun, all)
			}
		})
	}
}

// paidInnermost calls run, and returns what is paid when it calls see, and in the
// end.
func paidInnermost(t *testing.T, wasm []byte) (seen, spent int64) {
	t.Helper()
	p, err := Prepare(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t, func(_ context.Context, stack []uint64) {
		spent -= int64(stack[0])
		stack[0] = 0
	})
	if _, err := r.NewHostModuleBuilder("other").NewFunctionBuilder().WithFunc(func() { seen = spent }).Export("see").Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	mod, err := r.InstantiateWithConfig(context.Background(), p.Wasm, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mod.ExportedFunction("run").Call(context.Background()); err != nil {
		t.Fatal(err)
	}
	return seen, spent
}
