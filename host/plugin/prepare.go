package plugin

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Load-time checks and metering.
//
// prepare takes the bytes of an untrusted module and gives back a module that
// can be compiled in bounded time, counts what it executes, and can be stopped
// at any moment. It runs no code of the guest.
//
// # Why a rewrite
//
// wazero has no fuel, and its own interruption (WithCloseOnContextDone) makes
// guests several times slower, misses code without loops, and leaves Go no
// point to preempt the guest, so that one plugin stalls every goroutine of the
// process. The rewrite puts a counter into the guest: cheap, and the same on
// every machine and in every run.
//
// # What the host must do: the meter protocol
//
// A prepared module differs from its original in these ways:
//
//   - It imports one function more, "agenthost_meter" "tick" of type
//     (fuel i64, depth i64) -> i64. The runtime instantiates a host module of
//     that name (meterModule, meterTick) before any guest.
//   - It exports two mutable i64 globals, "agenthost_meter.fuel" and
//     "agenthost_meter.depth" (meterFuel, meterDepth), and each mutable global
//     of its own with a numeric type, as "agenthost_meter.global.N" with N its
//     index (meterGlobal), so that an image of an instance can be saved and
//     restored.
//   - It has no start section: its start function is exported as
//     "agenthost_meter.start" (meterStart), for the host to call before anything
//     else. So instantiation runs no code of the guest, and an instance that is
//     filled from an image runs none at all.
//   - Its memory and its tables have a maximum, at most the limit.
//   - Its custom sections are gone, but for the names of its functions, among
//     which those of the pass show in stack traces.
//   - memory.fill, memory.copy and a memory.init of a long segment are calls of
//     functions that do them in pieces (prepare_bulk.go).
//   - Data segments that lie close together are one (prepare_data.go), and
//     forward jumps in Go code take the short way (prepare_jumps.go).
//
// fuel counts down: each stretch of straight code subtracts its price before it
// runs, bulk operations (memory.fill, memory.copy, memory.grow, table.copy...)
// subtract a price by their length as well. At function entries, loop headers,
// bulk operations and wherever code is long without any (prepare_stretch.go) a
// guest whose fuel is below zero calls tick(fuel, depth), and goes on with the
// result as its new fuel. So:
//
//   - The meter of the call in progress travels in the context given to Call,
//     which wazero hands to tick.
//   - Before a call: fuel.Set(slice). Leaving it at 0 is right too, and costs
//     one tick. The slice is how long the guest may run between two looks at
//     the deadline; 1,000,000 is 0.1 to 0.3 ms.
//   - tick(fuel, depth): fuel is what is left, negative, and is owed. Check the
//     context, the call's budget and the tenant's; then return fuel + slice to
//     go on (counting slice as granted), or panic with an error to stop the
//     guest. wazero turns the panic into the error of the call, and errors.Is
//     and errors.As see through it. A result that is still below zero is
//     allowed and ticks again soon.
//   - After a call that returned: spent = granted - fuel.Get(). The same input
//     costs the same on every machine and with any slice.
//   - After a call that failed, for whatever reason: spent is computed alike;
//     the instance must be closed, never reused.
//
// depth counts down as well, in two counts (prepare_stack.go): each function that
// calls others subtracts its frame's weight (1, more for functions with very many
// locals and operands) and an estimate of its stack while it runs. The weights begin
// with the limit's callDepth, the units of stack with what the heaviest frame of the
// module takes; the host sets others before a call. After each call that returned
// depth is back at what it was. When it is below zero tick is called with depth < 0:
//
//   - The weights (see unpackDepth) are below zero: the guest recursed too deep, and
//     tick must panic with an error that says so.
//   - Else the units are: the stack is about to grow. The host reserves memory for
//     that and sets depth to more units, at most as many as there is weight left, or
//     panics. fuel may be left, and is then returned as it is.
//
// Keep the api.Global values of fuel and depth with the instance; looking them
// up by name on every call costs more than the call.
//
// # Prices
//
// One unit is one instruction; wasmfmt_ops.go has the dear ones. Labels and nops
// are free, and so are ends, but for the values that cross them (prepare_cross.go).
// PriceVersion says which prices a bill has. A stretch of code may include a few units for instructions
// right after it that are jumped over, always the same (slack).
//
// # The pass is not a validator
//
// It does not check types. But because it adds a function, globals and types,
// every index is checked against the original module before anything is added,
// so that what is invalid before stays invalid after, which wazero then finds
// when it compiles the result.

// meterVersion changes with what prepare makes of a module, so that what an older
// version made and kept on disk is made anew. TestMeterVersion says when.
const meterVersion = 5

// prepared is a module that passed the checks, and its metered form.
type prepared struct {
	structure
	wasm []byte            // metered; what is compiled
	key  [sha256.Size]byte // of wasm
	code *verifiedCode     // of wasm, in the cache; nil: nobody has looked
	// restorable: an image of memory and of the globals exported by the pass is
	// all the state that calls can change, apart from memory's size. False if
	// the code writes a table, drops a segment, or has a mutable global of
	// another type.
	restorable bool
}

// structure is what can be seen of a module without running it.
type structure struct {
	digest [sha256.Size]byte // of the original
	size   int               // of the original, in bytes
	module *wasmModule
}

// prepare checks a module against the limits and meters it; nil limits are the
// defaults. It is a pure function: the same bytes and limits give the same
// bytes, on every machine. Its time is proportional to the module's size, about
// 10 ms for a megabyte. Errors are *host.Error: each says what was found, what
// is allowed and what to do.
func prepare(wasm []byte, l *structureLimits) (*prepared, error) {
	l = l.withDefaults()
	s, err := survey(wasm, l)
	if err != nil {
		return nil, err
	}
	return s.prepare(l)
}

// survey reads a module's structure and holds it to the limits, without a look
// at instructions.
func survey(wasm []byte, l *structureLimits) (*structure, error) {
	if len(wasm) > l.moduleBytes {
		return nil, tooMany("the module has", len(wasm), "bytes", l.moduleBytes)
	}
	s, err := inspect(wasm)
	if err != nil {
		return nil, err
	}
	return s, first(s.problems(l))
}

// prepare meters a module whose structure is within the limits.
func (s *structure) prepare(l *structureLimits) (*prepared, error) {
	t := newMeter(s.module, l)
	metered, err := t.write()
	if err != nil {
		return nil, err
	}
	return &prepared{structure: *s, wasm: metered, key: sha256.Sum256(metered), restorable: t.restorable()}, nil
}

// inspect reads a module's structure. It refuses only what is no core module or
// is damaged, not what breaks a limit, and it does not look at instructions.
func inspect(wasm []byte) (*structure, error) {
	m, err := parseModule(wasm)
	if err != nil {
		return nil, err
	}
	return &structure{digest: sha256.Sum256(wasm), size: len(wasm), module: m}, nil
}

// check lists everything that prepare would refuse a module for, one after the
// other, and nil if it accepts it.
func check(wasm []byte, l *structureLimits) []error {
	l = l.withDefaults()
	if len(wasm) > l.moduleBytes {
		return []error{tooMany("the module has", len(wasm), "bytes", l.moduleBytes)}
	}
	s, err := inspect(wasm)
	if err != nil {
		return []error{err}
	}
	problems := s.problems(l)
	if len(problems) == 0 {
		if _, err := newMeter(s.module, l).write(); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// withManifest returns the module with the given manifest in its custom section
// agenthost.manifest, in place of one that it may have had. The section comes
// last, and nothing else changes, so the same module and manifest give the same
// bytes.
func withManifest(wasm, manifest []byte) ([]byte, error) {
	m, err := parseModule(wasm)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(wasm)+len(manifest)+32)
	at := 0
	if m.manifestAt.size() > 0 {
		out, at = append(out, wasm[:m.manifestAt.start]...), m.manifestAt.end
	}
	out = append(out, wasm[at:]...)
	return appendSection(out, secCustom, append(appendName(nil, manifestSection), manifest...)), nil
}

// savedGlobals lists the mutable globals with a numeric type, which the pass
// exports.
func (m *wasmModule) savedGlobals() []int {
	var list []int
	for i, g := range m.globals {
		if g.mutable && g.value >= typeF64 {
			list = append(list, i)
		}
	}
	return list
}

// globalExport is the name that the pass exports a global under.
func globalExport(i int) string { return fmt.Sprintf("%s%d", meterGlobal, i) }

// restorable is the field of prepared.
func (t *meter) restorable() bool {
	for _, g := range t.m.globals {
		if g.mutable && g.value < typeF64 {
			return false
		}
	}
	return !t.scan.keepsState
}

// extern is an import or export in words.
type extern struct {
	module string // of an import
	name   string
	kind   externKind
	typ    string // such as (i32, i32) -> (i64), i32 mut, 1..16 pages
}

// imports lists what a module wants from its host.
func (s *structure) imports() []extern {
	var list []extern
	var seen [4]int
	for _, imp := range s.module.imports {
		list = append(list, extern{imp.module, imp.name, imp.kind, s.module.typeOf(imp.kind, seen[imp.kind])})
		seen[imp.kind]++
	}
	return list
}

// exports lists what a module offers.
func (s *structure) exports() []extern {
	var list []extern
	for _, e := range s.module.exports {
		list = append(list, extern{"", e.name, e.kind, s.module.typeOf(e.kind, int(e.index))})
	}
	return list
}

func (m *wasmModule) typeOf(kind externKind, i int) string {
	switch kind {
	case externFunc:
		return m.signature(uint32(i)).String()
	case externTable:
		return m.tables[i].limits.String() + " " + typeName(m.tables[i].elem)
	case externMemory:
		return m.memories[i].String() + " pages"
	}
	if g := m.globals[i]; g.mutable {
		return typeName(g.value) + " mut"
	}
	return typeName(m.globals[i].value)
}

// String writes a signature as (i32, i64) -> (i32).
func (f funcType) String() string {
	return "(" + typeNames(f.params) + ") -> (" + typeNames(f.results) + ")"
}

// maxTypeNames bounds the parameters, and the results, that the text of a signature
// names. Without it ten thousand exports of one type with 1,000 parameters, a module
// of 80 kB, take 100 MB to list.
const maxTypeNames = 64

func typeNames(types []byte) string {
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
func (l limits) String() string {
	if !l.hasMax {
		return fmt.Sprintf("%d..", l.min)
	}
	return fmt.Sprintf("%d..%d", l.min, l.max)
}
