package wasmmeter

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Version changes whenever Prepare makes a different module from the same bytes. It is
// part of the cache key of metered modules, so that a host never runs a module of an
// older version. TestMeterVersion fails when it must be raised.
const Version = 5

// Metered is a module that passed the checks, and its metered form.
type Metered struct {
	Module *Module           // the original
	Wasm   []byte            // the metered module, to be compiled
	Key    [sha256.Size]byte // the digest of Wasm

	// Restorable says that calls change no state but linear memory and the globals
	// that the pass exports, so that an image of both restores an instance. It is
	// false if the code writes a table, drops a segment, or has a mutable global of
	// another type.
	Restorable bool
}

// Prepare checks a module against the limits and meters it; nil limits are the
// defaults. It is a pure function: the same bytes and limits give the same
// bytes, on every machine. Its time is proportional to the module's size, about
// 10 ms for a megabyte. An error is a *host.Error with the finding, the bound and the
// remedy: invalid_argument for a module that is damaged or beyond a limit,
// failed_precondition for one that needs another kind of host.
func Prepare(wasm []byte, l *Limits) (*Metered, error) {
	l = l.WithDefaults()
	m, err := Survey(wasm, l)
	if err != nil {
		return nil, err
	}
	return m.Meter(l)
}

// Survey reads a module's structure and checks it against the limits. It reads no
// instructions. Errors are those of [Prepare].
func Survey(wasm []byte, l *Limits) (*Module, error) {
	l = l.WithDefaults()
	if len(wasm) > l.ModuleBytes {
		return nil, tooMany("the module has", len(wasm), "bytes", l.ModuleBytes)
	}
	m, err := read(wasm, l)
	if err != nil {
		return nil, err
	}
	if problems := m.problems(l); len(problems) > 0 {
		return nil, problems[0]
	}
	return m, nil
}

// Meter meters a module that [Survey] has returned for the same limits.
func (m *Module) Meter(l *Limits) (*Metered, error) {
	t := newMeter(m, l.WithDefaults())
	metered, err := t.write()
	if err != nil {
		return nil, err
	}
	return &Metered{Module: m, Wasm: metered, Key: sha256.Sum256(metered), Restorable: t.restorable()}, nil
}

// Read reads a module's structure. It refuses a module that is damaged or not a core
// module, but not one beyond a limit, and reads no instructions.
func Read(wasm []byte) (*Module, error) { return read(wasm, nil) }

func read(wasm []byte, l *Limits) (*Module, error) {
	m, err := parse(wasm, l)
	if err != nil {
		return nil, err
	}
	m.Digest = sha256.Sum256(wasm)
	return m, nil
}

// Check returns every reason for which [Prepare] would refuse a module, nil if it
// accepts the module.
func Check(wasm []byte, l *Limits) []error {
	l = l.WithDefaults()
	if len(wasm) > l.ModuleBytes {
		return []error{tooMany("the module has", len(wasm), "bytes", l.ModuleBytes)}
	}
	m, err := Read(wasm)
	if err != nil {
		return []error{err}
	}
	problems := m.problems(l)
	if len(problems) == 0 {
		if _, err := newMeter(m, l).write(); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// WithManifest returns the module with the given manifest in its custom section
// agenthost.manifest, in place of an earlier one. The section comes last, and nothing
// else changes, so the same module and manifest give the same bytes.
func WithManifest(wasm, manifest []byte) ([]byte, error) {
	m, err := parse(wasm, nil)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(wasm)+len(manifest)+32)
	at := 0
	if m.custom.manifestAt.size() > 0 {
		out, at = append(out, wasm[:m.custom.manifestAt.start]...), m.custom.manifestAt.end
	}
	out = append(out, wasm[at:]...)
	return appendSection(out, secCustom, append(appendName(nil, ManifestSection), manifest...)), nil
}

// Size returns how many bytes the module has.
func (m *Module) Size() int { return len(m.wasm) }

// Functions returns how many functions the module defines, not counting imports.
func (m *Module) Functions() int { return len(m.bodies) }

// Manifest returns the contents of the manifest section, nil without one.
func (m *Module) Manifest() []byte { return m.custom.manifest }

// SavedGlobals returns the indices of the mutable globals with a numeric type. The
// metered module exports each under its [GlobalExport].
func (m *Module) SavedGlobals() []int {
	var list []int
	for i, g := range m.Globals {
		if g.Mutable && g.Value >= typeF64 {
			list = append(list, i)
		}
	}
	return list
}

// GlobalExport returns the name under which the metered module exports the global with
// index i.
func GlobalExport(i int) string { return fmt.Sprintf("%s%d", globalPrefix, i) }

// restorable computes [Metered.Restorable].
func (t *meter) restorable() bool {
	for _, g := range t.m.Globals {
		if g.Mutable && g.Value < typeF64 {
			return false
		}
	}
	return !t.scan.keepsState
}

// Extern is an import or export in words.
type Extern struct {
	Module string // of an import
	Name   string
	Kind   ExternKind
	Type   string // such as (i32, i32) -> (i64), i32 mut, 1..16 pages
}

// ImportTypes lists the imports with their types.
func (m *Module) ImportTypes() []Extern {
	var list []Extern
	var seen [4]int
	for _, imp := range m.Imports {
		list = append(list, Extern{Module: imp.Module, Name: imp.Name, Kind: imp.Kind, Type: m.typeOf(imp.Kind, seen[imp.Kind])})
		seen[imp.Kind]++
	}
	return list
}

// ExportTypes lists the exports with their types.
func (m *Module) ExportTypes() []Extern {
	var list []Extern
	for _, e := range m.Exports {
		list = append(list, Extern{Module: "", Name: e.Name, Kind: e.Kind, Type: m.typeOf(e.Kind, int(e.Index))})
	}
	return list
}

func (m *Module) typeOf(kind ExternKind, i int) string {
	switch kind {
	case ExternFunc:
		return m.Signature(uint32(i)).String()
	case ExternTable:
		return m.Tables[i].Bounds.String() + " " + typeName(m.Tables[i].Elem)
	case ExternMemory:
		return m.memories[i].String() + " pages"
	}
	if g := m.Globals[i]; g.Mutable {
		return typeName(g.Value) + " mut"
	}
	return typeName(m.Globals[i].Value)
}

// String writes a signature as (i32, i64) -> (i32).
func (f FuncType) String() string {
	return "(" + TypeNames(f.Params) + ") -> (" + TypeNames(f.Results) + ")"
}

// maxTypeNames bounds the parameters, and the results, that the text of a signature
// names. Without it ten thousand exports of one type with 1,000 parameters, a module
// of 80 kB, take 100 MB to list.
const maxTypeNames = 64

// TypeNames writes value types as i32, i64; of a long list the first 64.
func TypeNames(types []byte) string {
	var names []string
	for i, t := range types {
		if i == maxTypeNames {
			names = append(names, fmt.Sprintf("… (%d more left out)", len(types)-i))
			break
		}
		names = append(names, typeName(t))
	}
	return strings.Join(names, ", ")
}

// String writes bounds as min..max.
func (l Bounds) String() string {
	if !l.HasMax {
		return fmt.Sprintf("%d..", l.Min)
	}
	return fmt.Sprintf("%d..%d", l.Min, l.Max)
}
