package wasmmeter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func TestPrepareRefuses(t *testing.T) {
	good := wasmtest.Assemble(t, everything)
	section := func(id byte, contents string) []byte {
		return appendSection([]byte("\x00asm\x01\x00\x00\x00"), id, []byte(contents))
	}
	for _, c := range []struct {
		name string
		wasm []byte
		want string // part of the message
		code fault.Code
	}{
		{"an empty file", nil, "the file is empty", fault.InvalidArgument},
		{"two bytes of a module", good[:2], "cut off after 2 bytes", fault.InvalidArgument},
		{"half a preamble", good[:6], "cut off after 6 bytes", fault.InvalidArgument},
		{"half a module", good[:len(good)/2], "damaged at byte", fault.InvalidArgument},
		{"a module without its last byte", good[:len(good)-1], "damaged at byte", fault.InvalidArgument},
		{"a module with a byte too many", append(bytes.Clone(good), 1), "damaged at byte", fault.InvalidArgument},
		{"an executable", []byte("\x7fELF\x02\x01\x01\x00"), "not a WebAssembly module: it begins with \"\\x7fELF\\x02\\x01\\x01\\x00\", as an ELF executable does", fault.InvalidArgument},
		{"text", []byte("(module)"), "as WebAssembly text does", fault.InvalidArgument},
		{"Go source", []byte("package main"), "as Go source does", fault.InvalidArgument},
		{"something else", []byte("hello, hello"), "not a WebAssembly module: it begins with \"hello, h\"", fault.InvalidArgument},
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), "a WebAssembly component, and this host runs core modules", fault.FailedPrecondition},
		{"a later version", []byte("\x00asm\x02\x00\x00\x00"), "WebAssembly version 2", fault.FailedPrecondition},
		{"an unknown section", section(42, ""), "section 42 is unknown", fault.InvalidArgument},
		{"exception tags", section(13, "\x00"), "exception tags", fault.FailedPrecondition},
		{"a section that is longer than the file", []byte("\x00asm\x01\x00\x00\x00\x01\x7f"), "said to have 127 bytes, but 0 are left", fault.InvalidArgument},
		{"more types than fit", section(1, "\xff\xff\xff\xff\x0f"), "announces 4294967295 type entries", fault.InvalidArgument},
		{"a number of 33 bits", section(1, "\xff\xff\xff\xff\x1f"), "not a 32-bit number", fault.InvalidArgument},
		{"bytes after a section's contents", section(1, "\x00\x00"), "1 bytes are left over in the type section", fault.InvalidArgument},
		{"a name that is not UTF-8", section(0, "\x02\xff\xff"), "not UTF-8", fault.InvalidArgument},
		{"two memories", section(5, "\x02\x00\x01\x00\x01"), "2 memories", fault.FailedPrecondition},
		{"a 64-bit memory", section(5, "\x01\x04\x01"), "64-bit memory", fault.FailedPrecondition},
		{"a shared memory", section(5, "\x01\x03\x01\x02"), "shared memory", fault.FailedPrecondition},
		{"a memory with minimum above maximum", section(5, "\x01\x01\x05\x02"), "minimum 5 above its maximum 2", fault.InvalidArgument},
		{"an impossible memory", section(5, "\x01\x00\x81\x80\x04"), "more than 65536 pages", fault.InvalidArgument},
		{"a typed reference", section(1, "\x01\x60\x01\x64\x00"), "no value type of WebAssembly 2.0", fault.InvalidArgument},
		{"a struct type", section(1, "\x01\x5f\x00\x00"), "function types (0x60) only", fault.InvalidArgument},
		{"a memory that is too large", wasmtest.Assemble(t, "memory 2000"), "begins with 2000 pages (125 MiB), and the limit is 1024 pages (64 MiB)", fault.InvalidArgument},
		{"a table that is too large", wasmtest.Assemble(t, "table 100001"), "table 0 begins with 100001 entries, and the limit is 100000", fault.InvalidArgument},
		{"an imported memory", wasmtest.Assemble(t, "import env memory memory 1 extern"), "imports the memory \"env\" \"memory\", and this host provides functions only", fault.FailedPrecondition},
		{"an imported table", wasmtest.Assemble(t, "import env t table 1 extern"), "imports the table", fault.FailedPrecondition},
		{"an imported global", wasmtest.Assemble(t, "import env g global i32 extern"), "imports the global", fault.FailedPrecondition},
		{"the meter's import", wasmtest.Assemble(t, "import agenthost_meter tick i64 i64 -> i64"), "belong to the host's meter", fault.InvalidArgument},
		{"an import like the meter's", wasmtest.Assemble(t, "import agenthost_meter.x y"), "belong to the host's meter", fault.InvalidArgument},
		{"the meter's export", wasmtest.Assemble(t, "global i64 mut 5\nexport agenthost_meter.fuel global 0"), "exports \"agenthost_meter.fuel\", and names", fault.InvalidArgument},
		{"an export twice", wasmtest.Assemble(t, "memory 1\nexport m memory 0\nexport m memory 0"), "exports \"m\" twice", fault.InvalidArgument},
		{"a start function with a result", wasmtest.Assemble(t, "start $f\nfunc $f - -> i32\n  i32.const 1"), "start function 0 has parameters or results", fault.InvalidArgument},
		{"two manifests", wasmtest.Assemble(t, "custom agenthost.manifest \"{}\"\ncustom agenthost.manifest \"{}\""), "two sections \"agenthost.manifest\"", fault.InvalidArgument},
		{"a damaged name section", wasmtest.Assemble(t, "custom name \"\\x01\\x7f\""), "damaged at byte", fault.InvalidArgument},
		{"an atomic instruction", wasmtest.Assemble(t, "func $f -\n  0xfe 0x03 0x00"), "function 0 uses threads", fault.FailedPrecondition},
		{"an exception", wasmtest.Assemble(t, "func $f -\n  0x08 0x00"), "function 0 uses exceptions", fault.FailedPrecondition},
		{"a tail call", wasmtest.Assemble(t, "func $f -\n  0x12 0x00"), "function 0 uses tail calls", fault.FailedPrecondition},
		{"a call of a typed reference", wasmtest.Assemble(t, "func $f -\n  0x14 0x00"), "typed references", fault.FailedPrecondition},
		{"an unknown instruction", wasmtest.Assemble(t, "func $f -\n  0x27"), "unknown instruction 0x27", fault.InvalidArgument},
		{"an unknown instruction after 0xfc", wasmtest.Assemble(t, "func $f -\n  0xfc 0x12"), "unknown instruction 0xfc 18", fault.InvalidArgument},
		{"an unknown vector instruction", wasmtest.Assemble(t, "func $f -\n  0xfd 0x9a 0x01"), "unknown vector instruction", fault.InvalidArgument},
		{"a vector instruction in a long form", wasmtest.Assemble(t, "func $f -\n  0xfd 0x8c 0x00"), "unknown vector instruction", fault.InvalidArgument},
		{"a relaxed vector instruction", wasmtest.Assemble(t, "func $f -\n  0xfd 0x80 0x02"), "unknown vector instruction", fault.InvalidArgument},
		{"an else without an if", wasmtest.Assemble(t, "func $f -\n  block else end"), "else without an if", fault.InvalidArgument},
		{"a function that ends early", wasmtest.Assemble(t, "func $f -\n  end nop"), "goes on after its end", fault.InvalidArgument},
		{"a function that does not end", wasmtest.Assemble(t, "func $f -\n  block"), "has no end", fault.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Prepare(c.wasm, nil)
			var e *fault.Error
			if !errors.As(err, &e) {
				t.Fatalf("prepare = %v, want an error", err)
			}
			if e.Code != c.code || !strings.Contains(e.Message, c.want) || e.Hint == "" {
				t.Errorf("prepare = %s: %q, hint %q; want %s and %q in it, and a hint", e.Code, e.Message, e.Hint, c.code, c.want)
			}
		})
	}
}

func TestPrepareLimits(t *testing.T) {
	wasm := wasmtest.Assemble(t, everything)
	if _, err := Prepare(wasm, nil); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	for _, c := range []struct {
		limits Limits
		want   string
	}{
		{Limits{ModuleBytes: 100}, "bytes, and the limit is 100"},
		{Limits{CustomBytes: 20}, "bytes in custom sections, and the limit is 20"},
		{Limits{Types: 3}, "types, and the limit is 3"},
		{Limits{Values: 2}, "passes 3 values, and the limit is 2"},
		{Limits{Imports: 1}, "has 2 imports, and the limit is 1"},
		{Limits{Exports: 3}, "has 4 exports, and the limit is 3"},
		{Limits{NameBytes: 8}, "name has 12 bytes, and the limit is 8"},
		{Limits{Globals: 3}, "has 4 globals, and the limit is 3"},
		{Limits{Tables: 1}, "has 2 tables, and the limit is 1"},
		{Limits{ElementSegments: 1}, "has 2 element segments, and the limit is 1"},
		{Limits{Elements: 4}, "has 5 elements, and the limit is 4"},
		{Limits{DataSegments: 1}, "has 2 data segments, and the limit is 1"},
		{Limits{Functions: 5}, "has 7 functions, and the limit is 5"},
		{Limits{BodyBytes: 50}, "bytes of code, and the limit is 50"},
		{Limits{Locals: 5}, "has 6 locals and parameters, and the limit is 5"},
		{Limits{Nesting: 3}, "nests 4 blocks, and the limit is 3"},
		{Limits{TableLabels: 2}, "entries in jump tables, and the limit is 2"},
		{Limits{MemoryPages: 1, TableEntries: 3}, "table 0 begins with 4 entries, and the limit is 3"},
		{Limits{CompileTime: 1000}, "to compile, and the limit CompileWork allows 0s"},
	} {
		if _, err := Prepare(wasm, &c.limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %+v: prepare = %v, want %q in it", c.limits, err, c.want)
		}
	}
}

// TestAModuleBeyondALimitIsNotRead refuses modules of a few megabytes whose structure would
// take a hundred times as much.
func TestAModuleBeyondALimitIsNotRead(t *testing.T) {
	const n = 1_000_000
	section := func(id byte, content ...[]byte) []byte {
		all := bytes.Join(content, nil)
		return append(binary.AppendUvarint([]byte{id}, uint64(len(all))), all...)
	}
	count, preamble := binary.AppendUvarint(nil, n), []byte("\x00asm\x01\x00\x00\x00")
	oneType := section(secType, []byte{1, 0x60, 0, 0})
	for what, sections := range map[string][][]byte{
		"functions":        {oneType, section(secFunction, count, make([]byte, n)), section(secCode, count, bytes.Repeat([]byte{2, 0, 0x0b}, n))},
		"elements":         {oneType, section(secFunction, []byte{1, 0}), section(secElement, []byte{1, 1, 0}, count, make([]byte, n)), section(secCode, []byte{1, 2, 0, 0x0b})},
		"element segments": {section(secElement, count, bytes.Repeat([]byte{1, 0, 0}, n))},
	} {
		wasm := bytes.Join(append([][]byte{preamble}, sections...), nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Prepare(wasm, nil)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "has 1000000 "+what+", and the limit is") {
			t.Errorf("Prepare of too many %s = %v", what, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
			t.Errorf("a module of %d bytes with too many %s takes %d bytes until it is refused", len(wasm), what, took)
		}
	}
}

func TestCheckListsEveryProblem(t *testing.T) {
	wasm := wasmtest.Assemble(t, `
		import env memory memory 5000 extern
		import agenthost_meter tick
		table 1000000
		global i32 1
		export agenthost_meter.x global 0`)
	var got []string
	for _, err := range Check(wasm, nil) {
		got = append(got, err.Error())
	}
	if len(got) != 5 {
		t.Errorf("check lists %d problems, want 5:\n%s", len(got), strings.Join(got, "\n"))
	}
	if problems := Check(wasmtest.Assemble(t, everything), nil); problems != nil {
		t.Errorf("check = %v for a good module", problems)
	}
	if problems := Check(wasmtest.Assemble(t, "func $f -\n  0x27"), nil); len(problems) != 1 {
		t.Errorf("check = %v for an unknown instruction", problems)
	}
}

// TestPrepareRefusesCompileBombs has modules that take wazero from several
// seconds to minutes.
func TestPrepareRefusesCompileBombs(t *testing.T) {
	nest := func(n int) string {
		var open, shut strings.Builder
		for i := range n {
			fmt.Fprintf(&open, "loop local.get %d i32.const 1 i32.add local.set %d ", i, i)
			fmt.Fprintf(&shut, "local.get %d br_if 0 end ", i)
		}
		return fmt.Sprintf("func $f - : %d*i32\n  %s%s", n, open.String(), shut.String())
	}
	use := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "local.get %d i32.const 1 i32.add local.set %d ", i, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"400 loops in one another with a local each":  nest(400),
		"1000 loops in one another with a local each": nest(1000),
		"1000 locals, 10,000 loops":                   "func $f - : 1000*i32\n  " + use(1000) + strings.Repeat("loop local.get 0 br_if 0 end ", 10_000) + use(1000),
		"1000 locals, 2000 loops":                     "func $f - : 1000*i32\n  " + use(1000) + strings.Repeat("loop local.get 0 br_if 0 end ", 2000) + use(1000),
		"20,000 branches out of a block":              "func $f - i32\n  block " + strings.Repeat("local.get 0 br_if 0 ", 20_000) + "end",
		"50 jump tables of 60,000":                    "func $f - i32\n  " + strings.Repeat("block local.get 0 br_table 60000"+strings.Repeat(" 0", 60_001)+" end ", 50),
		"1000 globals, 40,000 calls":                  strings.Repeat("global i32 mut 1\n", 1000) + "func $g -\n  nop\nfunc $f -\n  " + strings.Repeat("call $g ", 40_000),
		"50,000 locals":                               "func $f - : 50000*i32\n  nop",
		"4,000,000,000 locals":                        "func $f - : 4000000000*i32 4000000000*i32\n  nop",
		"30,000 blocks in one another":                "func $f -\n  " + strings.Repeat("block ", 30_000) + strings.Repeat("end ", 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prepare(wasmtest.Assemble(t, text), nil)
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("prepare = %v, want it refused", err)
			}
			t.Log(err)
		})
	}
}

func TestPrepareBoundsMemoryAndTables(t *testing.T) {
	l := &Limits{MemoryPages: 10, TableEntries: 20}
	for _, c := range []struct {
		text string
		want string
	}{
		{"memory 1\ntable 2", "1..10 2..20"},
		{"memory 1 5\ntable 2 6", "1..5 2..6"},
		{"memory 1 50\ntable 2 60", "1..10 2..20"},
		{"memory 10\ntable 20", "10..10 20..20"},
	} {
		p, err := Prepare(wasmtest.Assemble(t, c.text), l)
		if err != nil {
			t.Fatalf("prepare: %v", err)
		}
		m, err := parse(p.Wasm, nil)
		if err != nil {
			t.Fatalf("parse the result: %v", err)
		}
		if got := m.memories[0].String() + " " + m.Tables[0].Bounds.String(); got != c.want {
			t.Errorf("%q becomes %s, want %s", c.text, got, c.want)
		}
	}
}

func TestInspect(t *testing.T) {
	s, err := Read(wasmtest.Assemble(t, everything))
	if err != nil {
		t.Fatalf("inspect: %v", err)
	}
	var got []string
	for _, e := range s.ImportTypes() {
		got = append(got, fmt.Sprintf("import %s %s %s %s", e.Module, e.Name, e.Kind, e.Type))
	}
	for _, e := range s.ExportTypes() {
		got = append(got, fmt.Sprintf("export %s %s %s", e.Name, e.Kind, e.Type))
	}
	want := []string{
		"import env join func (i32, i32) -> (i32)",
		"import agenthost_v1 log func (i32, i32, i32) -> ()",
		"export memory memory 1..4 pages",
		"export counter global i32 mut",
		"export functions table 4..8 funcref",
		"export first func (i32, i32) -> (i32)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("inspect lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if string(s.Manifest()) != `{"abi":1}` {
		t.Errorf("the manifest is %q", s.Manifest())
	}
	foreign, err := Read(wasmtest.Assemble(t, "import env memory memory 1 extern\nimport env g global i32 extern"))
	if err != nil {
		t.Fatalf("inspect a module that cannot be loaded: %v", err)
	}
	if n := len(foreign.ImportTypes()); n != 2 {
		t.Errorf("it has %d imports, want 2", n)
	}
}

func TestWithManifest(t *testing.T) {
	for _, text := range []string{
		"func $f run\n  nop",
		"custom producers \"x\"\nfunc $f run\n  nop",
		"custom agenthost.manifest \"old\"\ncustom producers \"x\"\nfunc $f run\n  nop",
	} {
		wasm := wasmtest.Assemble(t, text)
		original := bytes.Clone(wasm)
		a, err := WithManifest(wasm, []byte("first"))
		if err != nil {
			t.Fatalf("withManifest: %v", err)
		}
		b, err := WithManifest(a, []byte("second, which is longer"))
		if err != nil {
			t.Fatalf("withManifest again: %v", err)
		}
		c, err := WithManifest(b, []byte("first"))
		if err != nil || !bytes.Equal(a, c) {
			t.Errorf("putting the first manifest back gives other bytes (%v)", err)
		}
		if s, err := Read(b); err != nil || string(s.Manifest()) != "second, which is longer" || s.custom.count != strings.Count(text, "custom")+1-strings.Count(text, "manifest") {
			t.Errorf("inspect: %v; manifest %q in %d custom sections", err, s.Manifest(), s.custom.count)
		}
		if !bytes.Equal(wasm, original) {
			t.Errorf("withManifest changed its argument")
		}
	}
	if _, err := WithManifest([]byte("\x00asm\x0d\x00\x01\x00"), nil); err == nil {
		t.Errorf("withManifest accepts a component")
	}
}

// TestPrepareNames checks that stack traces show the functions' own names, also
// of the one that the pass moves.
func TestPrepareNames(t *testing.T) {
	g := mustMeteredGuest(t, wasmtest.Assemble(t, `
		import env nothing
		custom name "\x00\x02\x01m\x01\x0e\x03\x00\x01i\x01\x02f1\x02\x04last\x02\x01\x00"
		func $first run
		  call $last
		func $last -
		  call $stop
		func $stop -
		  unreachable`), nil, 1<<40)
	_, _, err := g.call("run")
	if err == nil || !strings.Contains(err.Error(), "m.f1()") || !strings.Contains(err.Error(), "m.last()") {
		t.Errorf("the trap is %v, want the names f1 and last in it", err)
	}
	g.budget = 0
	if _, _, err := g.call("run"); err == nil || !strings.Contains(err.Error(), "m.agenthost_meter.check()") {
		t.Errorf("the stop is %v, want the name of the check in it", err)
	}
}

func TestPrepareMergesData(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want int // segments
	}{
		{"close together", "memory 1\ndata 10 \"ab\"\ndata 12 \"cd\"\ndata 20 \"ef\"", 1},
		{"far apart", "memory 1\ndata 10 \"ab\"\ndata 1000 \"cd\"", 2},
		{"out of order", "memory 1\ndata 20 \"ab\"\ndata 10 \"cd\"\ndata 30000 \"x\"", 2},
		{"empty ones", "memory 1\ndata 20 \"\"\ndata 20 \"cd\"\ndata 22 \"\"", 1},
		{"overlapping", "memory 1\ndata 10 \"abcd\"\ndata 12 \"xy\"", 2},
		{"the same place", "memory 1\ndata 10 \"ab\"\ndata 10 \"cd\"", 2},
		{"outside memory", "memory 1\ndata 10 \"ab\"\ndata 65535 \"cd\"", 2},
		{"outside every memory", "memory 1\ndata 10 \"ab\"\ndata -1 \"cd\"", 2},
		{"used by code", "memory 1\npassive \"ab\"\ndata 10 \"ab\"\ndata 12 \"cd\"\nfunc $f -\n  data.drop 1", 3},
		{"passive", "memory 1\npassive \"ab\"\ndata 10 \"ab\"\ndata 12 \"cd\"", 3},
		{"counted", "memory 1\npassive \"ab\"", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			wasm := wasmtest.Assemble(t, c.text+"\nexport memory memory 0")
			p, err := Prepare(wasm, nil)
			if err != nil {
				t.Fatalf("prepare: %v", err)
			}
			m, err := parse(p.Wasm, nil)
			if err != nil {
				t.Fatalf("parse the result: %v", err)
			}
			if len(m.Data) != c.want {
				t.Errorf("%d segments, want %d", len(m.Data), c.want)
			}
			plain, plainErr := instantiate(specRuntime(t), wasm)
			metered, meteredErr := instantiate(specRuntime(t), p.Wasm)
			if trap(plainErr) != trap(meteredErr) {
				t.Fatalf("instantiate plain: %v, metered: %v", plainErr, meteredErr)
			}
			if plainErr != nil {
				return
			}
			a, _ := plain.Memory().Read(0, 1<<16)
			b, _ := metered.Memory().Read(0, 1<<16)
			if !bytes.Equal(a, b) {
				t.Errorf("memory begins with other contents")
			}
		})
	}
}

func TestPrepareSaysWhatIsRestorable(t *testing.T) {
	for text, want := range map[string]bool{
		"global i32 mut 1\nmemory 1\nfunc $f -\n  i32.const 0 i32.const 0 i32.const 0 memory.fill": true,
		"table 1\nfunc $f -\n  i32.const 0 ref.null funcref table.set 0":                           false,
		"table 1\nfunc $f -\n  ref.null funcref i32.const 1 table.grow 0 drop":                     false,
		"passive \"x\"\nmemory 1\nfunc $f -\n  data.drop 0":                                        false,
		"table 1\nelem 0 $f\nfunc $f -\n  elem.drop 0":                                             false,
		"global funcref mut $f\nfunc $f -\n  nop":                                                  false,
	} {
		p, err := Prepare(wasmtest.Assemble(t, text), nil)
		if err != nil {
			t.Fatalf("prepare: %v", err)
		}
		if p.Restorable != want {
			t.Errorf("restorable is %t for %q, want %t", p.Restorable, text, want)
		}
	}
}
