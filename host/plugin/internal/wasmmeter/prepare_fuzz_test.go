package wasmmeter

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// everything is a module with an example of every section and of most
// instructions.
const everything = `
	import env join i32 i32 -> i32 as $join
	import agenthost_v1 log i32 i32 i32
	type -> i32 i64
	memory 1 4
	table 4 8
	table 2 externref
	global i32 mut 5
	global i64 9
	global i64 mut -1
	global funcref $first
	data 100 "hello"
	passive "there"
	elem 0 $first $second $join
	declare $first $second
	start $init
	export memory memory 0
	export counter global 0
	export functions table 0
	custom agenthost.manifest "{\"abi\":1}"
	custom name "\x00\x02\x01m\x01\x08\x01\x02\x05first"
	custom producers "somebody"
	func $first first i32 i32 -> i32 : 2*i64 v128 f64
	  local.get 0 i32.const 100 i32.mul local.get 1 i32.add
	func $second - i32 i32 -> i32
	  local.get 0 local.get 1 call $first i32.const 1 i32.add return
	func $init -
	  i32.const 77 global.set 0 ref.func $second drop
	func $control - i32 -> i32 i64
	  block block block local.get 0 br_table 2 0 1 2 end end end
	  loop local.get 0 i32.eqz if br 1 else nop end end
	  block type=2 local.get 0 i64.const 5 br 0 end
	func $bulk -
	  i32.const 0 i32.const 0 i32.const 2 memory.init 1 data.drop 1
	  i32.const 0 i32.const 0 i32.const 2 memory.copy i32.const 0 i32.const 0 i32.const 2 memory.fill
	  i32.const 0 i32.const 0 i32.const 2 table.init 0 0 elem.drop 0
	  i32.const 0 i32.const 0 i32.const 2 table.copy 0 0
	  ref.null funcref i32.const 1 table.grow 0 drop table.size 0 drop
	  i32.const 0 ref.null funcref i32.const 2 table.fill 0
	  i32.const 0 i32.const 0 table.get 0 table.set 0
	  memory.size drop i32.const 1 memory.grow drop
	func $numbers - i32 -> i32
	  f64.const 1.5 f64.const 2 f64.add 0xfc 0x02 local.get 0 i32.div_s
	  v128.const v128.const i8x16.shuffle i16x8.abs i32x4.extract_lane i32.add
	  i32.const 8 v128.load drop unreachable
	func $straight - i32
	  loop block block local.get 0 br_table 1 0 1
	  end i32.const 1 local.set 0 br 1
	  end i32.const 0 local.set 0 br 0
	  end`

// FuzzPrepare checks what must hold of prepare for any bytes: it does not
// panic; its errors are errors; what it accepts compiles after the pass if and
// only if it compiles before; and it gives the same result twice.
func FuzzPrepare(f *testing.F) {
	f.Add(wasmtest.Assemble(f, everything))
	for _, text := range []string{
		"", "func $f run\n  loop br 0 end", "memory 1\ndata 0 \"x\"\ndata 1 \"y\"",
		"import env x memory 1 extern", "import env x global i32 extern\nfunc $f run\n  global.get 0 drop",
		"func $f run\n  i64.const 1 global.set 0", "func $f run\n  call 1", "table 1\nelem 0 1\nfunc $f run\n  nop",
		"func $g -\n  nop\nfunc $f run\n  call $g return block br 2 end",
	} {
		f.Add(wasmtest.Assemble(f, text))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		choices := make([]byte, 200)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(program(choices, false))
	}
	for _, file := range specFiles(f) {
		f.Add(file)
	}
	f.Fuzz(checkPrepare)
}

// FuzzPrepareMutations does the same to good modules in which single bytes are
// replaced, so that sizes stay right and more than the first byte is looked at.
func FuzzPrepareMutations(f *testing.F) {
	modules := mutationSeeds(f)
	for i := range modules {
		f.Add(uint16(i), []byte{0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, which uint16, changes []byte) {
		if len(changes) <= 12 {
			checkPrepare(t, mutate(modules[int(which)%len(modules)], changes))
		}
	})
}

// TestPrepareMutations is FuzzPrepareMutations with random changes.
func TestPrepareMutations(t *testing.T) {
	modules := mutationSeeds(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 4000 {
		changes := make([]byte, 3*(1+random.IntN(3)))
		for i := range changes {
			changes[i] = byte(random.Uint32())
		}
		checkPrepare(t, mutate(modules[random.IntN(len(modules))], changes))
	}
}

func mutationSeeds(t testing.TB) [][]byte {
	modules := [][]byte{wasmtest.Assemble(t, everything)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		choices := make([]byte, 100)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		modules = append(modules, program(choices, false))
	}
	for _, b := range specFiles(t) {
		if _, err := Prepare(b, nil); err == nil {
			modules = append(modules, b)
		}
	}
	return modules
}

// mutate replaces a byte for every three of changes: two for where, one for what.
func mutate(wasm, changes []byte) []byte {
	wasm = bytes.Clone(wasm)
	for ; len(changes) >= 3; changes = changes[3:] {
		at := 8 + (int(changes[0])<<8|int(changes[1]))%(len(wasm)-7)
		if at < len(wasm) {
			wasm[at] = changes[2]
		}
	}
	return wasm
}

func checkPrepare(t *testing.T, wasm []byte) {
	original := bytes.Clone(wasm)
	l := &Limits{ModuleBytes: 100_000}
	p, err := Prepare(wasm, l)
	if !bytes.Equal(wasm, original) {
		t.Fatal("prepare changed its argument")
	}
	if problems := Check(wasm, l); (err == nil) != (len(problems) == 0) {
		t.Fatalf("prepare: %v, check: %v", err, problems)
	}
	if err != nil {
		var e *fault.Error
		if !errors.As(err, &e) || e.Message == "" || e.Hint == "" {
			t.Fatalf("prepare: %#v is not an error with a message and a hint", err)
		}
		return
	}
	plain, metered := compiles(t, wasm), compiles(t, p.Wasm)
	if (plain == nil) != (metered == nil) {
		t.Fatalf("plain: %v, metered: %v", plain, metered)
	}
	again, err := Prepare(wasm, l)
	if err != nil || !bytes.Equal(again.Wasm, p.Wasm) {
		t.Fatalf("prepare gives another result the second time (%v)", err)
	}
	named, err := WithManifest(wasm, []byte("{}"))
	if err != nil {
		t.Fatalf("withManifest: %v", err)
	}
	if s, err := Read(named); err != nil || string(s.Manifest()) != "{}" || len(s.ExportTypes()) != len(p.Module.ExportTypes()) {
		t.Fatalf("inspect a module with a manifest: %v", err)
	}
}

// specFiles returns some modules of the WebAssembly test suite, if it is there.
func specFiles(t testing.TB) (files [][]byte) {
	names, _ := filepath.Glob(filepath.Join(wazeroDir(t), "internal/integration_test/spectest/v2/testdata/*.wasm"))
	slices.Sort(names)
	for i, name := range names {
		if i%20 > 0 {
			continue
		}
		if b, err := os.ReadFile(name); err == nil && len(b) < 4000 {
			files = append(files, b)
		}
	}
	return files
}
