package plugin

import (
	"fmt"
	"slices"
	"strings"
)

// Import modules that decide what kind of plugin a module is.
const (
	extismModule = "extism:host/env"
	wasiModule   = "wasi_snapshot_preview1"
	abiPrefix    = "agenthost_v"
)

// abiKind is the calling convention of a module, as its imports tell.
type abiKind string

const (
	abiNative abiKind = "agenthost"
	abiExtism abiKind = "extism"
	abiNone   abiKind = "none"
)

// abi returns the module's calling convention.
func (m *wasmModule) abi() abiKind {
	kind := abiNone
	for _, i := range m.imports {
		switch {
		case i.module == extismModule, i.module == extismUserModule:
			return abiExtism
		case strings.HasPrefix(i.module, abiPrefix):
			kind = abiNative
		}
	}
	if kind == abiNone && (m.manifest != nil || m.exportsFunc(exportDescribe.String())) {
		return abiNative // a linker has dropped the imports it does not use
	}
	return kind
}

func (m *wasmModule) exportsFunc(name string) bool {
	for _, e := range m.exports {
		if e.name == name && e.kind == externFunc {
			return true
		}
	}
	return false
}

// checkABI refuses a module that no call could be made to.
func (s *structure) checkABI() error {
	return first(s.abiProblems())
}

// abiProblems lists why no call could be made to a module.
func (s *structure) abiProblems() (list []error) {
	m := s.module
	for _, i := range m.imports {
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

func (m *wasmModule) exportsMemory() bool {
	return slices.ContainsFunc(m.exports, func(e exportEntry) bool { return e.name == "memory" && e.kind == externMemory })
}

// exportProblems holds a manifest to what the module exports.
func (m *wasmModule) exportProblems(manifest *Manifest) (list []error) {
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
	for _, e := range manifest.needs() {
		if !m.exportsFunc(e.String()) {
			list = append(list, refuse("its manifest offers what is called through %s, which it does not export", e).
				WithHint("export it, or leave that out of the manifest"))
		}
	}
	return list
}

// signatureProblems holds the exports that a host calls to their types.
func (m *wasmModule) signatureProblems() (list []error) {
	check := func(name, params, results string) {
		if sig, ok := m.exportedSignature(name); ok && (typeNames(sig.params) != params || typeNames(sig.results) != results) {
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

func (m *wasmModule) exportedSignature(name string) (funcType, bool) {
	for _, e := range m.exports {
		if e.name == name && e.kind == externFunc {
			return m.signature(e.index), true
		}
	}
	return funcType{}, false
}

// checkImport checks an import from a module that this host knows. Those from
// others are for importProblems.
func checkImport(i importEntry) error {
	name := fmt.Sprintf("%q %q", i.module, i.name)
	switch {
	case i.module == importModule, i.module == wasiModule, i.module == extismModule, strings.HasPrefix(i.module, "extism:"):
		if i.kind != externFunc {
			return refuse("it imports the %s %s; only functions can be imported", i.kind, name)
		}
		return nil
	case strings.HasPrefix(i.module, abiPrefix):
		return unsupported("it imports %s, a later version of the ABI; this host speaks %s", name, importModule).
			WithHint("update the host, or build the plugin for %s", importModule)
	}
	return nil
}
