package plugin

import (
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
)

// loadedModule runs the calls of a plugin: compiled code in the sandbox, or an
// engine that the options name. It does not change once the plugin is loaded.
type loadedModule struct {
	digest    string                // "sha256:" and the hex digest of the file
	code      *code                 // nil with an engine
	engine    Engine                // nil: the sandbox
	offers    [abi.ExportCount]bool // functions of the contract; set with engine
	extism    *extismPlugin         // nil for a native plugin
	script    *script               // what the code interprets; nil: nothing
	isolation Isolation
}

// images returns the images of instances that have started as the plugin's do.
func (m *loadedModule) images() *images {
	if m.script != nil {
		return &m.script.images
	}
	return &m.code.images
}

// manifestOf returns the contents of the plugin's manifest section, nil if absent; g is
// its module, or that of its interpreter.
func (m *loadedModule) manifestOf(g guestmodule.Module) []byte {
	if m.script != nil {
		return m.script.manifest
	}
	return g.Wasm.Manifest()
}

// exportsFunc reports whether a function of the contract can be called.
func (m *loadedModule) exportsFunc(e abi.Export) bool {
	if m.engine != nil {
		return m.offers[e]
	}
	return m.code.exports(e.String())
}

func (m *loadedModule) exportNamed(name string) (abi.Export, error) {
	if e, ok := abi.ExportNamed(name); ok {
		return e, nil
	}
	if e, ok := m.exportOf(name); ok {
		return e, nil
	}
	return 0, host.Errorf(host.InvalidArgument, "there is no export %q", name).
		WithHint("use describe, tool, process, route, provide or observe")
}

// exportName returns the name that the module has for an export: one of the
// contract's, or one of an Extism plugin's own functions, which are counted on
// from there.
func (m *loadedModule) exportName(e abi.Export) string {
	if e < abi.ExportCount {
		return e.String()
	}
	return m.extism.exports[e-abi.ExportCount]
}

// exportOf finds an Extism plugin's own function.
func (m *loadedModule) exportOf(name string) (abi.Export, bool) {
	i := slices.Index(m.plainExports(), name)
	return abi.ExportCount + abi.Export(i), i >= 0
}

func (m *loadedModule) plainExports() []string {
	if m.extism == nil {
		return nil
	}
	return m.extism.exports
}

// setExtism sets extism if g is a module of an Extism plugin.
func (m *loadedModule) setExtism(g guestmodule.Module, opts *LoadOptions, limits *Limits) {
	if g.Convention() == guestmodule.Extism {
		m.extism = &extismPlugin{ExtismOptions: opts.Extism,
			options: extism.Options{Config: opts.Extism.Config, HTTPBytes: opts.Extism.HTTPBytes, BlockBytes: limits.BlockBytes}, asks: opts.Extism.asks(opts.Granted), exports: g.Functions()}
	}
}

// startsFresh reports whether a call of an export begins with the state after
// start-up. A command's does, whatever the isolation, because it ends its instance.
func (m *loadedModule) startsFresh(e abi.Export) bool {
	return m.isolation.fresh(e) || e >= abi.ExportCount && m.exportName(e) == guestmodule.CommandExport
}

// hasImages reports whether instances of the plugin can be restored.
func (m *loadedModule) hasImages() bool { return m.code.keeps.restorable }
