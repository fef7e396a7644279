package wasmmeter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// This file reads a module section by section, and checks the rules that involve
// several sections.

// wasmMagic opens every module; the version after it is 1 for core modules.
var wasmMagic = []byte("\x00asm")

// checkPreamble refuses a file that is not a core module, with a message for each kind
// of file.
func checkPreamble(wasm []byte) error {
	switch {
	case len(wasm) == 0:
		return refusal.Invalid("the file is empty").WithHint("check that the build wrote its output")
	case len(wasm) < 4 && bytes.HasPrefix(wasmMagic, wasm):
		return refusal.Invalid("the module is cut off after %d bytes", len(wasm)).WithHint("build or fetch it again")
	case !bytes.HasPrefix(wasm, wasmMagic):
		return refusal.Invalid("this is not a WebAssembly module: it begins with %s", describeStart(wasm)).
			WithHint("give the .wasm file that the compiler wrote")
	case len(wasm) < 8:
		return refusal.Invalid("the module is cut off after %d bytes", len(wasm)).WithHint("build or fetch it again")
	}
	version, layer := binary.LittleEndian.Uint16(wasm[4:]), binary.LittleEndian.Uint16(wasm[6:])
	switch {
	case layer == 1:
		return refusal.Unsupported("this is a WebAssembly component, and this host runs core modules").
			WithHint("build a core module: for Go GOOS=wasip1 -buildmode=c-shared, for Rust --crate-type cdylib with --target wasm32-wasip1, for TinyGo -target=wasip1, " +
				"for C --target=wasm32-wasip1, without a componentizing step; componentizers of JavaScript and Python make no core modules")
	case layer != 0 || version != 1:
		return refusal.Unsupported("the module has WebAssembly version %d, layer %d; this host runs version 1, layer 0", version, layer).
			WithHint("build a core module of version 1")
	}
	return nil
}

// describeStart names the first bytes of a file that is no module, and the kind of file
// that they suggest.
func describeStart(b []byte) string {
	shown := b[:min(len(b), 8)]
	for _, kind := range []struct{ prefix, what string }{
		{"\x7fELF", "an ELF executable"}, {"MZ", "a Windows executable"}, {"!<arch>", "a static library"},
		{"\x1f\x8b", "gzip data"}, {"PK\x03\x04", "a zip archive"}, {"(module", "WebAssembly text"}, {"<", "markup"}, {"#!", "a script"},
		{"\xcf\xfa\xed\xfe", "a Mach-O executable"}, {"package ", "Go source"}, {"{", "JSON"},
	} {
		if bytes.HasPrefix(b, []byte(kind.prefix)) {
			return fmt.Sprintf("%q, as %s does", shown, kind.what)
		}
	}
	return fmt.Sprintf("%q", shown)
}

// parseModule reads a module. It checks the form of everything but the
// instructions of functions, and every index outside them. It allocates in proportion
// to the module's size, whatever counts the module declares; with limits, a module that
// has more of something is refused before it is read.
func parse(wasm []byte, l *Limits) (*Module, error) {
	if err := checkPreamble(wasm); err != nil {
		return nil, err
	}
	m := &Module{wasm: wasm, limits: l, start: -1, dataCount: -1}
	r := &reader{b: wasm, pos: 8, end: len(wasm)}
	last := 0
	for r.left() > 0 && r.err == nil {
		head := r.pos
		id := r.byte("a section")
		size := r.u32("a section's size")
		start := r.pos
		if r.take(size, "a section"); r.err != nil {
			break
		}
		s := &reader{b: wasm, pos: start, end: start + int(size)}
		if id == secCustom {
			m.custom.read(s, head)
		} else if last = m.orderSection(s, int(id), last); s.err == nil {
			m.readSection(s, int(id))
		}
		if s.err == nil && s.left() > 0 {
			s.fail("%d bytes are left over in the %s section", s.left(), sectionNames[id])
		}
		if s.err != nil {
			return nil, s.err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, m.checkWhole()
}

// orderSection checks that a known section comes once and in its place, and
// returns its place.
func (m *Module) orderSection(r *reader, id, last int) int {
	if id >= len(sectionOrder) {
		if id == 13 {
			r.err = refusal.Unsupported("the module declares exception tags, and this host runs WebAssembly 2.0 without exceptions").
				WithHint("build without exception handling, for example with -fno-exceptions or panic=abort")
			return last
		}
		r.fail("section %d is unknown", id)
		return last
	}
	if sectionOrder[id] <= last {
		r.fail("the %s section is repeated or out of order", sectionNames[id])
	}
	return sectionOrder[id]
}

func (m *Module) readSection(r *reader, id int) {
	m.present[id] = true
	if id == secStart {
		m.start = int64(r.u32("the start function"))
		return
	}
	if id == secDataCount {
		m.dataCount = int64(r.u32("the number of data segments"))
		return
	}
	read, size := m.sectionReader(id)
	n := r.count(size, sectionNames[id]+" entries")
	if what, most := m.limits.ofSection(id); int(n) > most {
		r.err = tooMany("the module has", int(n), what, most)
	}
	if r.err == nil {
		m.reserve(id, int(n))
	}
	start := r.pos
	for i := uint32(0); i < n && r.err == nil; i++ {
		read(r)
	}
	m.vectors[id] = vector{n, span{start, r.pos}}
}

// reserve makes room for the entries of the sections that have thousands of them: growing step by
// step touches three times the memory. A module that announces more than a Go program has is read
// without limits, and grows as its entries come.
func (m *Module) reserve(id, entries int) {
	entries = min(entries, max(defaultFunctions, defaultDataSegments))
	switch id {
	case secCode:
		m.bodies = slices.Grow(m.bodies, entries)
	case secData:
		m.Data = slices.Grow(m.Data, entries)
	}
}

// sectionReader returns the function that reads one entry of a section, and the
// smallest size of an entry in bytes.
func (m *Module) sectionReader(id int) (read func(*reader), size int) {
	switch id {
	case secType:
		return m.readType, 3
	case secImport:
		return m.readImport, 4
	case secFunction:
		return m.readFunction, 1
	case secTable:
		return m.readTable, 3
	case secMemory:
		return m.readMemory, 2
	case secGlobal:
		return m.readGlobal, 4
	case secExport:
		return m.readExport, 3
	case secElement:
		return m.readElement, 3
	case secCode:
		return m.readBody, 3
	case secData:
		return m.readData, 2
	}
	panic("plugin: no reader for section " + sectionNames[id])
}

// checkWhole checks the rules that involve several sections.
func (m *Module) checkWhole() error {
	r := &reader{pos: len(m.wasm), end: len(m.wasm)}
	if defined := len(m.funcs) - m.imported[ExternFunc]; defined != len(m.bodies) {
		r.fail("it declares %d functions and has code for %d", defined, len(m.bodies))
	}
	if m.dataCount >= 0 && m.dataCount != int64(len(m.Data)) {
		r.fail("it announces %d data segments and has %d", m.dataCount, len(m.Data))
	}
	if m.start >= int64(len(m.funcs)) {
		r.fail("its start function is %d, but it has %d functions", m.start, len(m.funcs))
	}
	if n := len(m.memories); n > 1 && r.err == nil {
		return refusal.Unsupported("the module has %d memories, and this host runs modules with one", n).WithHint("link it into one memory")
	}
	if r.err != nil {
		return r.err
	}
	if m.start >= 0 {
		if sig := m.Signature(uint32(m.start)); len(sig.Params)+len(sig.Results) > 0 {
			r.fail("its start function %d has parameters or results", m.start)
		}
	}
	seen := make(map[string]bool, len(m.Exports))
	for _, e := range m.Exports {
		if seen[e.Name] {
			r.fail("it exports %q twice", e.Name)
			break
		}
		seen[e.Name] = true
	}
	return r.err
}
