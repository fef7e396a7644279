package guestmodule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Modules that were built for another host. Their imports tell which toolchain and
// target they come from, and then the author needs one sentence: the target or the
// flag that makes a plugin of the same source.

// importGroup are the functions that a module imports from the names of one
// toolchain, and that no plugin host provides.
type importGroup struct {
	modules []string // in the order of the module
	imports []wasmmeter.Import
	from    *toolchain
}

// toolchain identifies modules for other hosts.
type toolchain struct {
	built string // "built for Emscripten"
	next  string // what its author does
}

const (
	nextClang = "clang --target=wasm32-wasip1 -mexec-model=reactor and wasi-libc"
	nextRust  = "a cdylib with cargo build --target wasm32-wasip1"
)

var (
	forEmscripten = &toolchain{"built for Emscripten, whose functions are JavaScript",
		"build it with " + nextClang + ", or with emcc -sSTANDALONE_WASM --no-entry"}
	forStandalone = &toolchain{"built for Emscripten, standalone",
		"build it with emcc -sALLOW_MEMORY_GROWTH=0 --no-entry and an -sINITIAL_MEMORY that is enough, or with " + nextClang}
	forBindgen = &toolchain{"built with wasm-bindgen, for JavaScript",
		"build " + nextRust + " instead of wasm-pack, and without wasm-bindgen and the js features of its crates"}
	forGoJS = &toolchain{"built with GOOS=js, for JavaScript",
		"build it with: agenthost plugin build, or GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared"}
	forTinyGoJS = &toolchain{"built with TinyGo's target wasm, for JavaScript",
		"build it with: tinygo build -target=wasip1 -buildmode=c-shared"}
	forAssemblyScript = &toolchain{"built with AssemblyScript, for JavaScript",
		"compile it with asc --use abort=FILE/FUNCTION, naming an abort of your own, and without console, Date, trace and seed"}
	forPreview2 = &toolchain{"built for WASI preview 2 or the component model",
		"build a core module for WASI preview 1: Rust --target wasm32-wasip1, TinyGo -target=wasip1, C --target=wasm32-wasip1; JavaScript and Python componentizers make no core modules"}
	forPreview0 = &toolchain{"built for WASI before preview 1",
		"build it with a later toolchain, for " + wasiModule}
	forWASIX = &toolchain{"built for WASIX",
		"build it for plain WASI preview 1, as with " + nextClang}
	forOldExtism = &toolchain{"built for Extism before 1.0",
		"build it with an Extism kit of version 1, which imports from " + extism.EnvModule}
	withoutModule = &toolchain{"functions of " + abi.ImportModule + " that were declared without their module", ""}
	unknownOrigin = &toolchain{"which no plugin host provides", ""}
)

// importProblems lists the imports that no plugin host provides: one problem for
// each toolchain, however many functions it is. nameProblems reports imports that
// are no functions.
func (m Module) importProblems() (list []error) {
	for _, g := range m.refusedImports() {
		list = append(list, g.problem(m))
	}
	return list
}

func (m Module) refusedImports() (groups []*importGroup) {
	byModule := map[string]*importGroup{}
	for _, i := range m.Wasm.Imports {
		if i.Kind != wasmmeter.ExternFunc || knownImport(i.Module) {
			continue
		}
		g := byModule[i.Module]
		if g == nil {
			g = &importGroup{modules: []string{i.Module}}
			byModule[i.Module] = g
			groups = append(groups, g)
		}
		g.imports = append(g.imports, i)
	}
	byToolchain := map[*toolchain]*importGroup{}
	merged := groups[:0]
	for _, g := range groups {
		g.from = m.toolchainOf(g)
		same := byToolchain[g.from]
		if same == nil {
			byToolchain[g.from] = g
			merged = append(merged, g)
			continue
		}
		same.modules = append(same.modules, g.modules...)
		same.imports = append(same.imports, g.imports...)
	}
	return merged
}

// knownImport reports whether functions of a module name are checked one by one.
func knownImport(module string) bool {
	return module == wasiModule || strings.HasPrefix(module, importPrefix) || strings.HasPrefix(module, "extism:")
}

// Bounds of a problem's text: how many names of a list are shown, and how many bytes
// of each.
const (
	maxShownImports = 3
	maxShownName    = 80
)

// problem names the origin of the functions and the remedy.
func (g *importGroup) problem(m Module) error {
	n := "1 function"
	if len(g.imports) > 1 {
		n = fmt.Sprintf("%d functions", len(g.imports))
	}
	var names []string
	for _, i := range g.imports {
		names = append(names, guesttext.Clean(i.Name))
	}
	err := refusal.Invalid("it imports from %s: %s: %s (%s)", shortList(g.modules), n, g.from.built, shortList(names))
	if g.from.next != "" {
		return err.WithHint("%s", g.from.next)
	}
	return err.WithHint("%s", m.importHint())
}

// shortList names the first few of a list.
func shortList(names []string) string {
	shown := make([]string, 0, maxShownImports)
	for _, name := range names[:min(len(names), maxShownImports)] {
		if len(name) > maxShownName {
			name = name[:maxShownName] + "..."
		}
		shown = append(shown, guesttext.Clean(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// toolchainOf recognises the origin of functions of one module name.
func (m Module) toolchainOf(g *importGroup) *toolchain {
	module := g.modules[0]
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(g.imports, func(i wasmmeter.Import) bool { return hasAnyPrefix(i.Name, prefixes...) })
	}
	switch {
	case hasAnyPrefix(module, "wasi:", "cm32p2", "[export]", "$root"):
		return forPreview2
	case module == "wasi_unstable":
		return forPreview0
	case strings.HasPrefix(module, "wasix_"):
		return forWASIX
	case hasAnyPrefix(module, "__wbindgen_", "wbg") || strings.HasSuffix(module, "_bg.js") || has("__wbindgen_", "__wbg_"):
		return forBindgen
	case (module == "gojs" || module == "go") && has("runtime.wasm"):
		return forGoJS
	case module == "gojs" || has("syscall/js."):
		return forTinyGoJS
	case module == "env":
		return m.toolchainOfEnv(g, has)
	case module == "a" && !slices.ContainsFunc(g.imports, func(i wasmmeter.Import) bool { return len(i.Name) > 2 }):
		return forEmscripten // its names are minified at -O2 and above
	}
	return unknownOrigin
}

// toolchainOfEnv recognises the origin of functions of env, where linkers look for
// whatever was declared and has no other module.
func (m Module) toolchainOfEnv(g *importGroup, has func(...string) bool) *toolchain {
	all := func(is func(wasmmeter.Import) bool) bool {
		return !slices.ContainsFunc(g.imports, func(i wasmmeter.Import) bool { return !is(i) })
	}
	switch {
	case all(func(i wasmmeter.Import) bool { return i.Name == "emscripten_notify_memory_growth" }):
		return forStandalone
	case has("emscripten_", "_emscripten_", "invoke_", "__syscall_", "_embind_", "_emval_", "__cxa_", "_abort_js", "_mmap_js", "_tzset_js"):
		return forEmscripten
	case has("extism_"):
		return forOldExtism
	case all(m.fromAssemblyScript):
		return forAssemblyScript
	case all(func(i wasmmeter.Import) bool { return slices.Contains(nativeFunctions, i.Name) }):
		return withoutModule
	}
	return unknownOrigin
}

// nativeFunctions are the functions of our own ABI.
var nativeFunctions = []string{"input_read", "output_write", "output_reset", "host_call", "host_call_bytes", "host_read", "log"}

// fromAssemblyScript reports whether its compiler imports such a function by itself.
func (m Module) fromAssemblyScript(i wasmmeter.Import) bool {
	switch {
	case i.Name == "abort": // of C it has no parameters
		return len(m.Wasm.Types[i.TypeIndex].Params) == 4
	case i.Name == "seed", i.Name == "trace":
		return true
	}
	return hasAnyPrefix(i.Name, "console.", "Date.", "performance.", "process.", "crypto.")
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// importHint says how a function is imported from our ABI in the module's language.
func (m Module) importHint() string {
	how := ""
	switch m.language() {
	case "Rust":
		how = `; in Rust by #[link(wasm_import_module = "` + abi.ImportModule + `")]`
	case "C":
		how = `; in C by __attribute__((import_module("` + abi.ImportModule + `"), import_name("...")))`
	case "Go":
		how = "; in Go by //go:wasmimport " + abi.ImportModule + " NAME"
	case "Zig":
		how = `; in Zig by extern "` + abi.ImportModule + `" fn`
	}
	return fmt.Sprintf("plugins import from %s and %s only: define other functions, or name the module that they are of%s", abi.ImportModule, wasiModule, how)
}

// pluginHint says what makes a plugin of a module that is none.
func (m Module) pluginHint() string {
	const ask = "see pdk/ABI.md for what a plugin is"
	if m.HasFunction(CommandExport) {
		return "a command runs once, and a plugin is called: build a reactor that exports its functions (Go -buildmode=c-shared, Rust a cdylib, C -mexec-model=reactor, Zig -fno-entry); " + ask
	}
	switch m.language() {
	case "Rust":
		return `import the functions that you use by #[link(wasm_import_module = "` + abi.ImportModule + `")], and put the manifest into a static with #[link_section = "` + wasmmeter.ManifestSection + `"]; wasm32-unknown-unknown and wasm32-wasip1 both do; ` + ask
	case "C":
		return "import the functions that you use with the attribute import_module, and put the manifest into the section " + wasmmeter.ManifestSection + "; " + ask
	case "Go":
		return "build it with: agenthost plugin build; " + ask
	}
	return ask
}

// CommandExport is the entry point of a WASI command.
const CommandExport = "_start"

// language returns the language that the module's producers section names first;
// "C" for its relatives, "" for none that there is something to say about.
func (m Module) language() string {
	for field, name := range m.Wasm.Producers() {
		switch {
		case field == "processed-by" && name == "TinyGo":
			return "Go"
		case field != "language":
		case name == "Rust", name == "Go", name == "Zig":
			return name
		case strings.HasPrefix(name, "C"): // C11, C_plus_plus_14
			return "C"
		}
	}
	return ""
}
