package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Short names of the contract's entry points.
type export = abi.Export

const (
	exportDescribe = abi.Describe
	exportTool     = abi.Tool
	exportProcess  = abi.Process
	exportRoute    = abi.Route
	exportProvide  = abi.Provide
	exportObserve  = abi.Observe
	exportCount    = abi.ExportCount

	exportPrefix     = abi.ExportPrefix
	initializeExport = abi.Initialize
	importModule     = abi.ImportModule
)

// Import modules that decide what kind of plugin a module is.
const (
	wasiModule = "wasi_snapshot_preview1"
	abiPrefix  = "agenthost_v"
)

// abiKind is the calling convention of a module, as its imports tell.
type abiKind string

const (
	abiNative abiKind = "agenthost"
	abiExtism abiKind = "extism"
	abiNone   abiKind = "none"
)

// guestModule is a module as the calling conventions see it: which of them it has, and
// why no call can be made to it.
type guestModule struct{ wasm *wasmmeter.Module }

// abi returns the module's calling convention.
func (m guestModule) abi() abiKind {
	kind := abiNone
	for _, i := range m.wasm.Imports {
		switch {
		case i.Module == extism.EnvModule, i.Module == extism.UserModule:
			return abiExtism
		case strings.HasPrefix(i.Module, abiPrefix):
			kind = abiNative
		}
	}
	if kind == abiNone && (m.wasm.Manifest() != nil || m.exportsFunc(exportDescribe.String())) {
		return abiNative // a linker has dropped the imports it does not use
	}
	return kind
}

func (m guestModule) exportsFunc(name string) bool {
	for _, e := range m.wasm.Exports {
		if e.Name == name && e.Kind == wasmmeter.ExternFunc {
			return true
		}
	}
	return false
}

// checkABI refuses a module that no call could be made to.
func (m guestModule) checkABI() error {
	return first(m.abiProblems())
}

// abiProblems lists why no call could be made to a module.
func (m guestModule) abiProblems() (list []error) {
	for _, i := range m.wasm.Imports {
		if err := checkImport(i); err != nil {
			list = append(list, err)
		}
	}
	list = append(list, m.importProblems()...)
	if m.abi() == abiNone {
		return append(list, unsupported("it is not a plugin: it has neither the imports of %s nor a manifest", importModule).
			WithHint("%s", m.pluginHint()))
	}
	if !m.exportsMemory() {
		list = append(list, refuse("it exports no memory").WithHint("export its linear memory under the name memory"))
	}
	if m.abi() == abiExtism {
		return append(list, m.extismProblems()...)
	}
	return append(list, m.signatureProblems()...)
}

func (m guestModule) exportsMemory() bool {
	return slices.ContainsFunc(m.wasm.Exports, func(e wasmmeter.Export) bool { return e.Name == "memory" && e.Kind == wasmmeter.ExternMemory })
}

// exportProblems holds a manifest to what the module exports.
func (m guestModule) exportProblems(manifest *Manifest) (list []error) {
	for _, t := range manifest.Tools {
		switch {
		case t.Export != "" && m.abi() != abiExtism:
			list = append(list, refuse("its manifest names a function for tool %q, which only an Extism plugin can", clean(t.Name)).
				WithHint("answer agenthost_tool, and leave export out of the manifest"))
		case t.Export != "" && !slices.Contains(m.plainFunctions(), t.Export):
			list = append(list, refuse("its manifest offers the function %q as a tool, which it does not export, or with parameters", clean(t.Export)).
				WithHint("export it, or leave that out of the manifest"))
		}
	}
	for _, e := range manifest.Needs() {
		if !m.exportsFunc(e.String()) {
			list = append(list, refuse("its manifest offers what is called through %s, which it does not export", e).
				WithHint("export it, or leave that out of the manifest"))
		}
	}
	return list
}

// signatureProblems holds the exports that a host calls to their types.
func (m guestModule) signatureProblems() (list []error) {
	check := func(name, params, results string) {
		if sig, ok := m.exportedSignature(name); ok && (wasmmeter.TypeNames(sig.Params) != params || wasmmeter.TypeNames(sig.Results) != results) {
			list = append(list, refuse("its export %s is of type %s, not (%s) -> (%s)", name, sig, params, results))
		}
	}
	check(initializeExport, "", "")
	check(exportDescribe.String(), "", "i32")
	for e := exportTool; e < exportCount; e++ {
		check(e.String(), "i32", "i32")
	}
	return list
}

func (m guestModule) exportedSignature(name string) (wasmmeter.FuncType, bool) {
	for _, e := range m.wasm.Exports {
		if e.Name == name && e.Kind == wasmmeter.ExternFunc {
			return m.wasm.Signature(e.Index), true
		}
	}
	return wasmmeter.FuncType{}, false
}

// checkImport checks an import from a module that this host knows. Those from
// others are for importProblems.
func checkImport(i wasmmeter.Import) error {
	name := fmt.Sprintf("%q %q", i.Module, i.Name)
	switch {
	case i.Module == importModule, i.Module == wasiModule, i.Module == extism.EnvModule, strings.HasPrefix(i.Module, "extism:"):
		if i.Kind != wasmmeter.ExternFunc {
			return refuse("it imports the %s %s; only functions can be imported", i.Kind, name)
		}
		return nil
	case strings.HasPrefix(i.Module, abiPrefix):
		return unsupported("it imports %s, a later version of the ABI; this host speaks %s", name, importModule).
			WithHint("update the host, or build the plugin for %s", importModule)
	}
	return nil
}
