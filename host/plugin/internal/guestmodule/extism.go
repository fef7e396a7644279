package guestmodule

import (
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// extismProblems lists why an Extism module cannot be run.
func (m Module) extismProblems() (list []error) {
	for _, imp := range m.Wasm.Imports {
		if err := m.extismImportProblem(imp); err != nil {
			list = append(list, err)
		}
	}
	for e := range abi.ExportCount {
		sig, ok := m.signature(e.String())
		if ok && (len(sig.Params) > 0 || len(sig.Results) > 1) {
			list = append(list, refusal.Invalid("its export %s is of type %s; in an Extism plugin it is () -> (i32)", e, sig))
		}
	}
	return list
}

func (m Module) extismImportProblem(imp wasmmeter.Import) error {
	offered := extism.Functions()
	switch imp.Module {
	case extism.EnvModule:
	case extism.UserModule:
		if offered = m.User; offered == nil {
			offered = extism.UserFunctions()
		}
	case abi.ImportModule:
		return refusal.Invalid("it imports from both %s and %s", abi.ImportModule, extism.EnvModule).WithHint("build it for one of them")
	default:
		if !strings.HasPrefix(imp.Module, "extism:") {
			return nil
		}
		offered = nil
	}
	i := slices.IndexFunc(offered, func(f extism.Function) bool { return f.Name == imp.Name })
	switch {
	case i < 0 && imp.Module == extism.UserModule:
		return refusal.Unsupported("it imports %q %q, a function of another host", imp.Module, guesttext.Clean(imp.Name)).
			WithHint("this host offers %s; see pdk/ABI.md", functionNames(offered))
	case i < 0:
		return refusal.Unsupported("it imports %q %q, which this host does not offer to plugins", imp.Module, guesttext.Clean(imp.Name)).
			WithHint("it is for hosts, or of another version of Extism; 1.x is known here")
	}
	if imp.Kind != wasmmeter.ExternFunc {
		return nil // checkImport has said so
	}
	if sig, want := m.Wasm.Types[imp.TypeIndex].String(), extismSignature(offered[i]); sig != want {
		return refusal.Invalid("it imports %q %q with the type %s, not %s", imp.Module, imp.Name, sig, want).WithHint("update its Extism kit")
	}
	return nil
}

func functionNames(list []extism.Function) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func extismSignature(f extism.Function) string {
	return wasmmeter.FuncType{Params: f.Params, Results: f.Results}.String()
}

// Functions lists the exported functions that a host may call by Extism's
// convention, but for those of our contract and of start-up code. The entry point
// of a command is one of them, which is a tool only where Tools names it.
func (m Module) Functions() (list []string) {
	for _, e := range m.Wasm.Exports {
		if e.Kind != wasmmeter.ExternFunc || strings.HasPrefix(e.Name, abi.ExportPrefix) || startUp(e.Name) && e.Name != CommandExport {
			continue
		}
		if sig := m.Wasm.Signature(e.Index); len(sig.Params) == 0 && len(sig.Results) <= 1 && !strings.ContainsFunc(e.Name, guesttext.IsUnsafe) {
			list = append(list, e.Name)
		}
	}
	return list
}

// startUp reports whether a name is one that toolchains give to what starts or
// ends a module.
func startUp(name string) bool {
	return strings.HasPrefix(name, "_") || strings.HasPrefix(name, "hs_")
}

// IsTool reports whether a function of that name is offered as a tool without being
// asked for.
func IsTool(name string) bool {
	return abi.ValidToolName(name) && name != CommandExport && !ofToolchain(name)
}

// ofToolchain reports whether a name is that of a helper which toolchains export for
// their own use: Binaryen's asyncify, the allocators of C and of component tools,
// Emscripten's stack, Go's scheduler for JavaScript. Such a function is no tool
// unless the operator says so.
func ofToolchain(name string) bool {
	switch name {
	case "malloc", "calloc", "realloc", "free", "allocate", "deallocate", "abort", "resume", "getsp", "go_scheduler",
		"stackSave", "stackRestore", "stackAlloc":
		return true
	}
	for _, prefix := range []string{"asyncify_", "cabi_", "canonical_abi_", "emscripten_", "dynCall_", "tinygo_", "wbindgen_", "wizer"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
