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

// Import modules that decide what kind of plugin a module is.
const (
	wasiModule   = "wasi_snapshot_preview1"
	importPrefix = "agenthost_v"
)

// Convention is the calling convention of a module, as its imports tell.
type Convention string

// The calling conventions.
const (
	Native Convention = "agenthost"
	Extism Convention = "extism"
	None   Convention = "none"
)

// Module is a module as the calling conventions see it: which of them it has, and
// why no call can be made to it.
type Module struct {
	Wasm *wasmmeter.Module
	User []extism.Function // that this host offers to Extism plugins; nil: the contract's
}

// Convention returns the module's calling convention.
func (m Module) Convention() Convention {
	kind := None
	for _, i := range m.Wasm.Imports {
		switch {
		case i.Module == extism.EnvModule, i.Module == extism.UserModule:
			return Extism
		case strings.HasPrefix(i.Module, importPrefix):
			kind = Native
		}
	}
	if kind == None && (m.Wasm.Manifest() != nil || m.HasFunction(abi.Describe.String())) {
		return Native // a linker has dropped the imports it does not use
	}
	return kind
}

// HasFunction reports whether the module exports a function of that name.
func (m Module) HasFunction(name string) bool {
	for _, e := range m.Wasm.Exports {
		if e.Name == name && e.Kind == wasmmeter.ExternFunc {
			return true
		}
	}
	return false
}

// Check refuses a module that no call could be made to.
func (m Module) Check() error {
	return refusal.First(m.Problems())
}

// Problems lists why no call could be made to a module.
func (m Module) Problems() (list []error) {
	for _, i := range m.Wasm.Imports {
		if err := checkImport(i); err != nil {
			list = append(list, err)
		}
	}
	list = append(list, m.importProblems()...)
	if m.Convention() == None {
		return append(list, refusal.Unsupported("it is not a plugin: it has neither the imports of %s nor a manifest", abi.ImportModule).
			WithHint("%s", m.pluginHint()))
	}
	if !m.exportsMemory() {
		list = append(list, refusal.Invalid("it exports no memory").WithHint("export its linear memory under the name memory"))
	}
	if m.Convention() == Extism {
		return append(list, m.extismProblems()...)
	}
	return append(list, m.signatureProblems()...)
}

func (m Module) exportsMemory() bool {
	return slices.ContainsFunc(m.Wasm.Exports, func(e wasmmeter.Export) bool { return e.Name == "memory" && e.Kind == wasmmeter.ExternMemory })
}

// OfferProblems holds a manifest to what the module exports.
func (m Module) OfferProblems(manifest *abi.Manifest) (list []error) {
	for _, t := range manifest.Tools {
		switch {
		case t.Export != "" && m.Convention() != Extism:
			list = append(list, refusal.Invalid("its manifest names a function for tool %q, which only an Extism plugin can", guesttext.Clean(t.Name)).
				WithHint("answer agenthost_tool, and leave export out of the manifest"))
		case t.Export != "" && !slices.Contains(m.Functions(), t.Export):
			list = append(list, refusal.Invalid("its manifest offers the function %q as a tool, which it does not export, or with parameters", guesttext.Clean(t.Export)).
				WithHint("export it, or leave that out of the manifest"))
		}
	}
	for _, e := range manifest.Needs() {
		if !m.HasFunction(e.String()) {
			list = append(list, refusal.Invalid("its manifest offers what is called through %s, which it does not export", e).
				WithHint("export it, or leave that out of the manifest"))
		}
	}
	return list
}

// signatureProblems holds the exports that a host calls to their types.
func (m Module) signatureProblems() (list []error) {
	check := func(name, params, results string) {
		if sig, ok := m.signature(name); ok && (wasmmeter.TypeNames(sig.Params) != params || wasmmeter.TypeNames(sig.Results) != results) {
			list = append(list, refusal.Invalid("its export %s is of type %s, not (%s) -> (%s)", name, sig, params, results))
		}
	}
	check(abi.Initialize, "", "")
	check(abi.Describe.String(), "", "i32")
	for e := abi.Tool; e < abi.ExportCount; e++ {
		check(e.String(), "i32", "i32")
	}
	return list
}

func (m Module) signature(name string) (wasmmeter.FuncType, bool) {
	for _, e := range m.Wasm.Exports {
		if e.Name == name && e.Kind == wasmmeter.ExternFunc {
			return m.Wasm.Signature(e.Index), true
		}
	}
	return wasmmeter.FuncType{}, false
}

// checkImport checks an import from a module that this host knows. Those from
// others are for importProblems.
func checkImport(i wasmmeter.Import) error {
	name := fmt.Sprintf("%q %q", i.Module, i.Name)
	switch {
	case i.Module == abi.ImportModule, i.Module == wasiModule, i.Module == extism.EnvModule, strings.HasPrefix(i.Module, "extism:"):
		if i.Kind != wasmmeter.ExternFunc {
			return refusal.Invalid("it imports the %s %s; only functions can be imported", i.Kind, name)
		}
		if i.Module == abi.ImportModule && !slices.Contains(nativeFunctions, i.Name) {
			return refusal.Unsupported("it imports %s, a function that this host does not have; it has %s", name, strings.Join(nativeFunctions, ", ")).
				WithHint("update the host, or build the plugin without it")
		}
		return nil
	case strings.HasPrefix(i.Module, importPrefix):
		return refusal.Unsupported("it imports %s, a later version of the ABI; this host speaks %s", name, abi.ImportModule).
			WithHint("update the host, or build the plugin for %s", abi.ImportModule)
	}
	return nil
}

// ABI returns the calling convention with its version.
func (m Module) ABI() string {
	kind := m.Convention()
	if kind != Native {
		return string(kind)
	}
	for _, i := range m.Wasm.Imports {
		if strings.HasPrefix(i.Module, importPrefix) {
			return guesttext.Clean(i.Module)
		}
	}
	return abi.ImportModule
}
