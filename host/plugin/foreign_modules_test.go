package plugin

// Scenario: modules that were built for other hosts are refused with their origin and a
// remedy.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// producers is a producers section, of which each field has one value.
func producers(fields ...[2]string) string {
	text := func(s string) string { return string(rune(len(s))) + s }
	b := string(rune(len(fields)))
	for _, f := range fields {
		b += text(f[0]) + "\x01" + text(f[1]) + text("1")
	}
	return fmt.Sprintf("custom producers %q\n", b)
}

func TestForeignModulesAreRefusedWithOriginAndRemedy(t *testing.T) {
	var many strings.Builder
	many.WriteString("import env emscripten_resize_heap i32 -> i32\nimport env abort\n")
	for i := range 53 {
		fmt.Fprintf(&many, "import env invoke_%d i32\n", i)
	}
	for _, c := range []struct{ name, module, says, next string }{
		{"Emscripten", many.String(), `env: 55 functions: built for Emscripten, whose functions are JavaScript (emscripten_resize_heap, abort, invoke_0 and 52 more)`, "emcc -sSTANDALONE_WASM --no-entry"},
		{"minified Emscripten", "import a a i32\nimport a b\n", "a: 2 functions: built for Emscripten", "-mexec-model=reactor"},
		{"standalone Emscripten", "import env emscripten_notify_memory_growth i32\nimport wasi_snapshot_preview1 proc_exit i32\n", "env: 1 function: built for Emscripten, standalone", "-sALLOW_MEMORY_GROWTH=0"},
		{"wasm-bindgen", "import __wbindgen_placeholder__ __wbindgen_throw i32 i32\nimport __wbindgen_externref_xform__ __wbindgen_externref_table_grow i32 -> i32\n",
			"__wbindgen_placeholder__, __wbindgen_externref_xform__: 2 functions: built with wasm-bindgen", "cargo build --target wasm32-wasip1"},
		{"wasm-bindgen's output", "import wbg __wbg_log_1 i32\n", "wbg: 1 function: built with wasm-bindgen", "instead of wasm-pack"},
		{"wasm-bindgen for bundlers", "import ./greet_bg.js __wbg_log_1 i32\n", "./greet_bg.js: 1 function: built with wasm-bindgen", "instead of wasm-pack"},
		{"Go for JavaScript", "import gojs runtime.wasmExit i32\nimport gojs syscall/js.valueGet i32\n", "gojs: 2 functions: built with GOOS=js", "agenthost plugin build"},
		{"Go before 1.21", "import go runtime.wasmExit i32\n", "go: 1 function: built with GOOS=js", "GOOS=wasip1"},
		{"TinyGo", "import gojs syscall/js.valueGet i64\nimport gojs runtime.ticks -> f64\n", "gojs: 2 functions: built with TinyGo's target wasm", "tinygo build -target=wasip1 -buildmode=c-shared"},
		{"TinyGo of old", "import env syscall/js.valueGet i64\n", "env: 1 function: built with TinyGo's target wasm", "-target=wasip1"},
		{"AssemblyScript", "import env abort i32 i32 i32 i32\nimport env console.log i32\n", "env: 2 functions: built with AssemblyScript", "asc --use abort="},
		{"AssemblyScript's dates", "import env Date.now -> f64\n", "env: 1 function: built with AssemblyScript", "without console, Date"},
		{"an abort of C", "import env abort\n", "env: 1 function: which no plugin host provides", "define other functions"},
		{"WASI preview 2", "import wasi:cli/environment@0.2.0 get-environment i32\nimport wasi:io/streams@0.2.0 drop i32\nimport wasi:io/poll@0.2.0 poll i32\nimport wasi:clocks/wall-clock@0.2.0 now i32\n",
			"wasi:cli/environment@0.2.0, wasi:io/streams@0.2.0, wasi:io/poll@0.2.0 and 1 more: 4 functions: built for WASI preview 2", "wasm32-wasip1"},
		{"WASI preview 0", "import wasi_unstable fd_write i32 i32 i32 i32 -> i32\n", "built for WASI before preview 1", "wasi_snapshot_preview1"},
		{"WASIX", "import wasix_32v1 thread_spawn i32 -> i32\n", "built for WASIX", "WASI preview 1"},
		{"Extism before 1.0", "import env extism_alloc i64 -> i64\n", "env: 1 function: built for Extism before 1.0", "extism:host/env"},
		{"our functions of env", "import env input_read i32 i32 i32 -> i32\n", "env: 1 function: functions of agenthost_v1 that were declared without their module", "name the module"},
		{"the same from Rust", "import env host_call i32\n" + producers([2]string{"language", "Rust"}, [2]string{"processed-by", "rustc"}), "declared without their module", `#[link(wasm_import_module = "agenthost_v1")]`},
		{"the same from C", "import env host_call i32\n" + producers([2]string{"processed-by", "clang"}, [2]string{"language", "C11"}), "declared without their module", `import_module("agenthost_v1")`},
		{"functions of nowhere", "import env frobnicate i32\nimport mathlib sin f64 -> f64\n", `env, mathlib: 2 functions: which no plugin host provides (frobnicate, sin)`, "plugins import from agenthost_v1"},
		{"Rust for unknown-unknown", producers([2]string{"language", "Rust"}), "it is not a plugin", "wasm32-unknown-unknown and wasm32-wasip1 both do"},
		{"C without the ABI", producers([2]string{"language", "C_plus_plus_14"}), "it is not a plugin", "attribute import_module"},
		{"a command", "import wasi_snapshot_preview1 proc_exit i32\nfunc $main _start\nnop", "it is not a plugin", "Go -buildmode=c-shared"},
		{"damaged producers", `custom producers "\x05\x7f"` + "\n", "it is not a plugin", "see pdk/ABI.md"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wasm := wasmtest.Assemble(t, c.module)
			rt := startRuntime(t, nil)
			var found *host.Error
			for _, p := range rt.Check(context.Background(), "x", wasm, nil) {
				if e := fault.AsError(p); strings.Contains(e.Message, c.says) {
					if found != nil {
						t.Errorf("said twice: %q and %q", found.Message, e.Message)
					}
					found = e
				}
			}
			if found == nil {
				t.Fatalf("nothing says %q: %v", c.says, rt.Check(context.Background(), "x", wasm, nil))
			}
			if !strings.Contains(found.Hint, c.next) {
				t.Errorf("next is %q, want %q in it", found.Hint, c.next)
			}
			if _, err := rt.Load(context.Background(), "x", wasm, nil); err == nil {
				t.Error("it is loaded")
			}
		})
	}
}

func TestImportsOfAnotherKindAreOneProblemOfEachModule(t *testing.T) {
	wasm := wasmtest.Assemble(t, `
		import env memory memory 1 extern
		import env __memory_base global i32 extern
		import env __table_base global i32 extern
		import agenthost_v1 log i32 i32 i32`)
	var said []string
	for _, p := range startRuntime(t, nil).Check(context.Background(), "x", wasm, nil) {
		if strings.Contains(p.Error(), "functions only") {
			said = append(said, p.Error())
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], `imports the memory "env" "memory" and 2 more that are no functions`) {
		t.Errorf("%q", said)
	}
}
