package plugin

import (
	"context"
	"encoding/hex"
	"slices"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Inspection describes a module without running it.
type Inspection struct {
	Digest string `json:"digest"` // "sha256:" and hex
	Size   int    `json:"size_bytes"`

	// ABI is the calling convention: agenthost_v1 or a later version, extism, or
	// none for a module that is no plugin.
	ABI string `json:"abi"`

	Imports []Extern `json:"imports"`
	Exports []Extern `json:"exports"`

	// Interpreter is the digest of the module that interprets the plugin, if it is a
	// script: what it imports and exports is that one's.
	Interpreter string `json:"interpreter,omitempty"`

	Functions int `json:"functions"` // defined, without imported ones
	Globals   int `json:"globals"`
	DataBytes int `json:"data_bytes"`

	// Manifest is read from the module's custom section. It is nil without that
	// section, and if the section is invalid: then ManifestError says why.
	Manifest      *Manifest `json:"-"`
	ManifestError error     `json:"-"`
}

// Extern is an import or an export.
type Extern struct {
	Module string `json:"module,omitempty"` // of an import
	Name   string `json:"name"`
	Kind   string `json:"kind"` // func, table, memory or global
	Type   string `json:"type"` // such as (i32, i32) -> (i64), i32 mut, 1..16 pages; of a long signature the first 64 types
}

// The values of [Inspection.ABI], apart from later versions of the native one.
const (
	ABINative = abi.ImportModule
	ABIExtism = string(guestmodule.Extism)
	ABINone   = string(guestmodule.None)
)

// Inspect reads a module's structure. It runs no code and compiles nothing. It
// refuses only bytes that are no module or a damaged one, with code invalid_argument,
// and modules for another kind of host, with failed_precondition; [Runtime.Check]
// says whether a plugin can be loaded.
func Inspect(wasm []byte) (*Inspection, error) {
	m, err := wasmmeter.Read(wasm)
	if err != nil {
		return nil, err
	}
	in := &Inspection{
		Digest: digestName(m.Digest[:]), Size: m.Size(), ABI: guestmodule.Module{Wasm: m}.ABI(),
		Imports: externs(m.ImportTypes()), Exports: externs(m.ExportTypes()),
		Functions: m.Functions(), Globals: len(m.Globals), DataBytes: m.DataBytes,
	}
	if in.Interpreter, _ = m.Script(); in.Interpreter != "" {
		in.ABI = ABINative
	}
	if m.Manifest() != nil {
		in.Manifest, in.ManifestError = abi.ReadManifest(m.Manifest())
	}
	return in, nil
}

// HasExport reports whether the module exports a function of that name.
func (in *Inspection) HasExport(name string) bool {
	for _, e := range in.Exports {
		if e.Name == name && e.Kind == wasmmeter.ExternFunc.String() {
			return true
		}
	}
	return false
}

func digestName(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func externs(list []wasmmeter.Extern) []Extern {
	out := make([]Extern, len(list))
	for i, e := range list {
		out[i] = Extern{Module: clean(e.Module), Name: clean(e.Name), Kind: e.Kind.String(), Type: e.Type}
	}
	return out
}

// Check returns everything that this host would refuse the module for: when
// loading it under that id, and when making tools, processors, routers and
// providers of it. None means that it is accepted. One reason can hide another:
// a module that is damaged is looked at no further.
//
// Check compiles the module, and runs it if it has no manifest section: then it
// describes itself, with nothing granted.
func (rt *Runtime) Check(ctx context.Context, id string, wasm []byte, opts *LoadOptions) []error {
	if opts != nil {
		if err := opts.Limits.check(); err != nil {
			return []error{err}
		}
	}
	if opts != nil && opts.Engine != "" || wasmmeter.IsScript(wasm) {
		return rt.checkByLoading(ctx, id, wasm, opts)
	}
	if err := rt.startLoad(); err != nil {
		return []error{err}
	}
	defer rt.loads.Done()
	p := newPlugin(rt, id, opts)
	problems := wasmmeter.Check(wasm, p.limits.structure())
	structure, err := wasmmeter.Read(wasm)
	if err != nil {
		return problems
	}
	m := guestmodule.Module{Wasm: structure, User: rt.userFunctions()}
	problems = append(problems, m.Problems()...)
	if opts == nil {
		opts = &LoadOptions{}
	}
	p.module.setExtism(m, opts, &p.limits)
	loadable := len(problems) == 0
	if loadable {
		prepared, err := rt.compiler.prepare(wasm, p.limits.structure())
		if err == nil {
			p.module.code, err = rt.compiler.compile(ctx, prepared, p, nil)
		}
		if err != nil {
			problems, loadable = append(problems, err), false
		}
		defer p.Close()
	}
	return append(problems, p.manifestProblems(ctx, m, loadable)...)
}

// checkByLoading is Check for a plugin of a named engine, which defines its own module
// format, and for a script.
func (rt *Runtime) checkByLoading(ctx context.Context, id string, wasm []byte, opts *LoadOptions) []error {
	p, err := rt.load(ctx, id, wasm, opts)
	if err != nil {
		return []error{err}
	}
	p.Close()
	return nil
}

// manifestProblems checks the plugin's manifest, also against the module's exports.
func (p *Plugin) manifestProblems(ctx context.Context, module guestmodule.Module, loadable bool) []error {
	raw := module.Wasm.Manifest()
	switch {
	case raw != nil:
	case !module.HasFunction(abi.Describe.String()):
		if p.module.extism == nil {
			return []error{noManifest()}
		}
		m, err := p.module.extism.plainManifest(p.id)
		if err != nil {
			return []error{err}
		}
		raw = m.JSON()
	case !loadable:
		return nil // it cannot be asked
	default:
		_, err := p.call(ctx, describeTenant, abi.Describe, nil, nil, func(_ context.Context, out []byte) error {
			raw = out
			return nil
		})
		if err != nil {
			return []error{err}
		}
	}
	m, err := abi.DecodeManifest(raw)
	if err != nil {
		return []error{err}
	}
	problems := slices.Concat(m.Problems(), module.OfferProblems(m), p.runtime.missingOperations(m, ""))
	p.manifest = m
	_, schemaProblems := abi.CompileSchemas(ctx, m)
	return append(problems, schemaProblems...)
}
