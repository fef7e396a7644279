package plugin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// This file reads the WebAssembly binary format (core 2.0 without anything
// later), strictly: a module that it accepts has no byte that it did not
// understand. It keeps spans of the original instead of copies, because the
// metering pass copies most of a module as it stands.

// Section identifiers, in the numbering of the format.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
)

// sectionNames are for messages.
var sectionNames = [...]string{
	"custom", "type", "import", "function", "table", "memory", "global",
	"export", "start", "element", "code", "data", "data count",
}

// sectionOrder is the place of each section in a module, because the data
// count section, added later, stands before the code section.
var sectionOrder = [...]int{
	secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6,
	secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12,
}

// Value types.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeV128      = 0x7b
	typeFuncref   = 0x70
	typeExternref = 0x6f
)

// typeName returns the name of a value type in the text format.
func typeName(t byte) string {
	switch t {
	case typeI32:
		return "i32"
	case typeI64:
		return "i64"
	case typeF32:
		return "f32"
	case typeF64:
		return "f64"
	case typeV128:
		return "v128"
	case typeFuncref:
		return "funcref"
	case typeExternref:
		return "externref"
	}
	return fmt.Sprintf("0x%02x", t)
}

func isValueType(t byte) bool { return t >= typeV128 && t <= typeI32 || isRefType(t) }
func isRefType(t byte) bool   { return t == typeFuncref || t == typeExternref }

// externKind is what an import or export is.
type externKind byte

const (
	externFunc   externKind = 0
	externTable  externKind = 1
	externMemory externKind = 2
	externGlobal externKind = 3
)

func (k externKind) String() string {
	switch k {
	case externFunc:
		return "func"
	case externTable:
		return "table"
	case externMemory:
		return "memory"
	case externGlobal:
		return "global"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// span is a range of the module's bytes.
type span struct{ start, end int }

func (s span) size() int { return s.end - s.start }

// vector is the contents of a section that lists things: how many, and where
// they stand after their number.
type vector struct {
	count uint32
	items span
}

// funcRef is a function's index written outside the code section.
type funcRef struct {
	at    span
	index uint32
}

// funcType is a function's signature; both slices are spans of the module.
type funcType struct{ params, results []byte }

// limits are the bounds of a memory (in pages) or a table (in entries).
type limits struct {
	min, max uint32
	hasMax   bool
}

type tableType struct {
	elem byte
	limits
}

type globalType struct {
	value   byte
	mutable bool
}

type importEntry struct {
	module, name string
	kind         externKind
	typeIndex    uint32     // of a function
	table        tableType  // of a table
	memory       limits     // of a memory
	global       globalType // of a global
}

type exportEntry struct {
	name  string
	kind  externKind
	index uint32
}

// funcBody is one function's entry in the code section.
type funcBody struct {
	locals  span   // the declaration of locals, with its count
	nLocals uint64 // how many that declares, without parameters
	code    span   // the instructions, with the last end
}

// dataSegment is one entry in the data section. offset is meaningful only if
// fixed: the segment is active with a constant offset.
type dataSegment struct {
	active, fixed bool
	offset        uint32
	bytes         span
}

// wasmModule is a module as it was read.
type wasmModule struct {
	wasm []byte

	types    []funcType
	imports  []importEntry
	imported [4]int       // how many of imports are of each kind
	funcs    []uint32     // type index of each function, imported ones first
	tables   []tableType  // imported ones first
	memories []limits     // imported ones first
	globals  []globalType // imported ones first
	exports  []exportEntry

	start        int64 // function index or -1
	elements     int
	elementItems int
	dataCount    int64 // or -1
	bodies       []funcBody
	data         []dataSegment
	dataBytes    int

	present  [secDataCount + 1]bool
	vectors  [secDataCount + 1]vector
	funcRefs []funcRef // in globals, exports and elements, in order of place

	customs     int
	customBytes int
	manifest    []byte // contents of the manifest section; nil if absent
	manifestAt  span   // that section, whole
	named       bool   // a name section was read
	moduleName  []byte
	funcNames   []nameEntry
}

// signature returns the type of a function by its index, which must be valid.
func (m *wasmModule) signature(index uint32) funcType { return m.types[m.funcs[index]] }

// reader walks bytes. The first thing that is wrong stays in err, and from then
// on every method returns zero, so that callers check once at the end of what
// belongs together.
type reader struct {
	b   []byte
	pos int
	end int
	err error
}

// fail records what is wrong, with the place where it was found.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = refuse("the module is damaged at byte %d: %s", r.pos, fmt.Sprintf(format, args...)).
			WithHint("rebuild it, or fetch it again and compare its digest")
	}
	r.pos = r.end
}

func (r *reader) left() int { return r.end - r.pos }

func (r *reader) byte(what string) byte {
	if r.pos >= r.end {
		r.fail("it ends where %s should be", what)
		return 0
	}
	b := r.b[r.pos]
	r.pos++
	return b
}

// take returns the next n bytes.
func (r *reader) take(n uint32, what string) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail("%s is said to have %d bytes, but %d are left", what, n, r.left())
		return nil
	}
	b := r.b[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 reads an unsigned number of at most 32 bits.
func (r *reader) u32(what string) uint32 {
	v, n := leb32(r.b[r.pos:r.end])
	if n == 0 {
		r.fail("%s is not a 32-bit number", what)
		return 0
	}
	r.pos += n
	return v
}

// s32 and s64 read signed numbers.
func (r *reader) s32(what string) int32 { return int32(r.signed(32, what)) }
func (r *reader) s64(what string) int64 { return r.signed(64, what) }

func (r *reader) signed(bits int, what string) int64 {
	v, n := sleb(r.b[r.pos:r.end], bits)
	if n == 0 {
		r.fail("%s is not a %d-bit number", what, bits)
		return 0
	}
	r.pos += n
	return v
}

// count reads the length of a vector whose entries have at least size bytes, so
// that a number alone cannot make us allocate.
func (r *reader) count(size int, what string) uint32 {
	n := r.u32("the number of " + what)
	if uint64(n)*uint64(size) > uint64(r.left()) {
		r.fail("it announces %d %s, more than fit into the rest of the section", n, what)
		return 0
	}
	return n
}

// name reads a length-prefixed UTF-8 string.
func (r *reader) name(what string) string { return string(r.text(what)) }

// text is name without a copy.
func (r *reader) text(what string) []byte {
	b := r.take(r.u32("the length of "+what), what)
	if !utf8.Valid(b) {
		r.fail("%s is not UTF-8", what)
		return nil
	}
	return b
}

func (r *reader) valueType(what string) byte {
	t := r.byte(what)
	if r.err == nil && !isValueType(t) {
		r.fail("%s is 0x%02x, which is no value type of WebAssembly 2.0", what, t)
	}
	return t
}

func (r *reader) index(n int, what string) uint32 {
	i := r.u32("the index of a " + what)
	if r.err == nil && uint64(i) >= uint64(n) {
		r.fail("it uses %s %d, but has %d", what, i, n)
	}
	return i
}

// leb32 decodes an unsigned LEB128 number of at most 32 bits and returns how
// many bytes it took, 0 if there is none. Longer forms than necessary are
// allowed, as in the specification, but not more than five bytes.
func leb32(b []byte) (v uint32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint32(b[0]), 1
	}
	for i := 0; i < len(b) && i < 5; i++ {
		c := b[i]
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == 4 && c > 0x0f {
				return 0, 0
			}
			return v, i + 1
		}
	}
	return 0, 0
}

// sleb decodes a signed LEB128 number of at most bits bits (32, 33 or 64) and
// returns how many bytes it took, 0 if there is none.
func sleb(b []byte, bits int) (v int64, n int) {
	most := (bits + 6) / 7
	shift := 0
	for i := 0; i < len(b) && i < most; i++ {
		c := b[i]
		v |= int64(c&0x7f) << shift
		shift += 7
		if c >= 0x80 {
			continue
		}
		if i == most-1 {
			// The bits beyond the number's must repeat its sign.
			used := bits - 7*i
			rest := int8(c<<1) >> used // arithmetic: the sign of bit 6 and what is above the number's sign bit
			if rest != 0 && rest != -1 {
				return 0, 0
			}
		}
		if shift < 64 && c&0x40 != 0 {
			v |= -1 << shift
		}
		return v, i + 1
	}
	return 0, 0
}

// wasmMagic opens every module; the version after it is 1 for core modules.
var wasmMagic = []byte("\x00asm")

// checkPreamble refuses what is not a core module, each with its own sentence.
func checkPreamble(wasm []byte) error {
	switch {
	case len(wasm) == 0:
		return refuse("the file is empty").WithHint("check that the build wrote its output")
	case len(wasm) < 4 && bytes.HasPrefix(wasmMagic, wasm):
		return refuse("the module is cut off after %d bytes", len(wasm)).WithHint("build or fetch it again")
	case !bytes.HasPrefix(wasm, wasmMagic):
		return refuse("this is not a WebAssembly module: it begins with %s", describeStart(wasm)).
			WithHint("give the .wasm file that the compiler wrote")
	case len(wasm) < 8:
		return refuse("the module is cut off after %d bytes", len(wasm)).WithHint("build or fetch it again")
	}
	version, layer := binary.LittleEndian.Uint16(wasm[4:]), binary.LittleEndian.Uint16(wasm[6:])
	switch {
	case layer == 1:
		return unsupported("this is a WebAssembly component, and this host runs core modules").
			WithHint("build a core module: for Go GOOS=wasip1 -buildmode=c-shared, for Rust --crate-type cdylib with --target wasm32-wasip1, without a componentizing step")
	case layer != 0 || version != 1:
		return unsupported("the module has WebAssembly version %d, layer %d; this host runs version 1, layer 0", version, layer).
			WithHint("build a core module of version 1")
	}
	return nil
}

// describeStart names the first bytes of a file that is no module, and what
// they look like.
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
// instructions of functions, and every index outside them. It allocates in
// proportion to the module's size, whatever the module announces.
func parseModule(wasm []byte) (*wasmModule, error) {
	if err := checkPreamble(wasm); err != nil {
		return nil, err
	}
	m := &wasmModule{wasm: wasm, start: -1, dataCount: -1}
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
			m.readCustom(s, head)
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
func (m *wasmModule) orderSection(r *reader, id, last int) int {
	if id >= len(sectionOrder) {
		if id == 13 {
			r.err = unsupported("the module declares exception tags, and this host runs WebAssembly 2.0 without exceptions").
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

func (m *wasmModule) readSection(r *reader, id int) {
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
	start := r.pos
	for i := uint32(0); i < n && r.err == nil; i++ {
		read(r)
	}
	m.vectors[id] = vector{n, span{start, r.pos}}
}

// sectionReader returns what reads one entry of a section, and the least
// number of bytes that an entry takes.
func (m *wasmModule) sectionReader(id int) (read func(*reader), size int) {
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

func (m *wasmModule) readType(r *reader) {
	if form := r.byte("a type"); r.err == nil && form != 0x60 {
		r.fail("type %d has form 0x%02x; WebAssembly 2.0 has function types (0x60) only", len(m.types), form)
		return
	}
	m.types = append(m.types, funcType{params: r.valueTypes("parameters"), results: r.valueTypes("results")})
}

func (r *reader) valueTypes(what string) []byte {
	b := r.take(r.count(1, what), what)
	for _, t := range b {
		if !isValueType(t) {
			r.fail("0x%02x among a type's %s is no value type of WebAssembly 2.0", t, what)
			return nil
		}
	}
	return b
}

func (m *wasmModule) readImport(r *reader) {
	imp := importEntry{module: r.name("an import's module"), name: r.name("an import's name")}
	imp.kind = externKind(r.byte("an import's kind"))
	switch {
	case r.err != nil:
		return
	case imp.kind == externFunc:
		imp.typeIndex = r.index(len(m.types), "type")
		m.funcs = append(m.funcs, imp.typeIndex)
	case imp.kind == externTable:
		m.readTable(r)
		imp.table = m.tables[len(m.tables)-1]
	case imp.kind == externMemory:
		m.readMemory(r)
		imp.memory = m.memories[len(m.memories)-1]
	case imp.kind == externGlobal:
		imp.global = r.globalType()
		m.globals = append(m.globals, imp.global)
	default:
		r.fail("import %q %q is of unknown kind %d", imp.module, imp.name, byte(imp.kind))
		return
	}
	m.imported[imp.kind]++
	m.imports = append(m.imports, imp)
}

func (m *wasmModule) readFunction(r *reader) {
	m.funcs = append(m.funcs, r.index(len(m.types), "type"))
}

func (m *wasmModule) readTable(r *reader) { m.tables = append(m.tables, r.tableType()) }

func (r *reader) tableType() tableType {
	elem := r.byte("a table's type")
	if r.err == nil && !isRefType(elem) {
		r.fail("a table of 0x%02x is not WebAssembly 2.0", elem)
	}
	return tableType{elem: elem, limits: r.limits("table")}
}

func (m *wasmModule) readMemory(r *reader) { m.memories = append(m.memories, r.limits("memory")) }

// limits reads the bounds of a memory or a table.
func (r *reader) limits(what string) (l limits) {
	flags := r.byte("the bounds of a " + what)
	switch {
	case r.err != nil:
		return l
	case flags&^3 != 0 && flags < 8:
		r.err = unsupported("the module has a 64-bit %s, and this host runs 32-bit ones", what).WithHint("build for wasm32")
		return l
	case flags&2 != 0 && flags < 4:
		r.err = unsupported("the module has a shared %s, and this host runs no threads", what).WithHint("build without threads, atomics and shared memory")
		return l
	case flags > 1:
		r.fail("the bounds of a %s have unknown flags 0x%02x", what, flags)
		return l
	}
	l.min = r.u32("the minimum of a " + what)
	if l.hasMax = flags == 1; l.hasMax {
		l.max = r.u32("the maximum of a " + what)
	}
	if r.err == nil && l.hasMax && l.max < l.min {
		r.fail("a %s has minimum %d above its maximum %d", what, l.min, l.max)
	}
	if most := uint32(maxPages); r.err == nil && what == "memory" && (l.min > most || l.hasMax && l.max > most) {
		r.fail("a memory of more than %d pages is impossible", most)
	}
	return l
}

// maxPages is the size of a 32-bit address space in pages of 64 KiB.
const maxPages = 1 << 16

func (m *wasmModule) readGlobal(r *reader) {
	g := r.globalType()
	m.constExpr(r, g.value)
	m.globals = append(m.globals, g)
}

func (r *reader) globalType() globalType {
	g := globalType{value: r.valueType("a global's type")}
	switch mut := r.byte("a global's mutability"); mut {
	case 0:
	case 1:
		g.mutable = true
	default:
		r.fail("a global's mutability is %d", mut)
	}
	return g
}

// constExpr reads a constant expression of the given type. It has one
// instruction; arithmetic came after WebAssembly 2.0. It returns the value of
// an i32.const.
func (m *wasmModule) constExpr(r *reader, want byte) (value int32, constant bool) {
	op := r.byte("a constant")
	var got byte
	switch {
	case r.err != nil:
		return 0, false
	case op == 0x41:
		got, constant = typeI32, true
		value = r.s32("a constant")
	case op == 0x42:
		got = typeI64
		r.s64("a constant")
	case op == 0x43:
		got = typeF32
		r.take(4, "a constant")
	case op == 0x44:
		got = typeF64
		r.take(8, "a constant")
	case op == 0x23:
		if i := r.index(m.imported[externGlobal], "imported global"); r.err == nil {
			got = m.globals[i].value
		}
	case op == 0xd0:
		if got = r.byte("a reference type"); r.err == nil && !isRefType(got) {
			r.fail("a null of type 0x%02x is not WebAssembly 2.0", got)
		}
	case op == 0xd2:
		got = typeFuncref
		m.readFuncRef(r)
	case op == 0xfd && r.byte("a constant") == 0x0c:
		got = typeV128
		r.take(16, "a constant")
	default:
		r.fail("0x%02x is not allowed in a constant expression", op)
	}
	if end := r.byte("the end of a constant"); r.err == nil && end != 0x0b {
		r.fail("a constant expression has more than one instruction, which WebAssembly 2.0 does not allow")
	}
	if r.err == nil && got != want {
		r.fail("a constant is of type %s where %s is due", typeName(got), typeName(want))
	}
	return value, constant
}

// readFuncRef reads a function's index and remembers where it stands. The
// function section comes before every section that has such indices.
func (m *wasmModule) readFuncRef(r *reader) uint32 {
	start := r.pos
	i := r.index(len(m.funcs), "function")
	m.funcRefs = append(m.funcRefs, funcRef{span{start, r.pos}, i})
	return i
}

func (m *wasmModule) readExport(r *reader) {
	e := exportEntry{name: r.name("an export's name"), kind: externKind(r.byte("an export's kind"))}
	switch {
	case r.err != nil:
	case e.kind == externFunc:
		e.index = m.readFuncRef(r)
	case e.kind == externTable:
		e.index = r.index(len(m.tables), "table")
	case e.kind == externMemory:
		e.index = r.index(len(m.memories), "memory")
	case e.kind == externGlobal:
		e.index = r.index(len(m.globals), "global")
	default:
		r.fail("export %q is of unknown kind %d", e.name, byte(e.kind))
	}
	m.exports = append(m.exports, e)
}

// readElement reads an element segment. Its first number is a set of bits: 1
// not active, 2 an explicit table (if active) or declared only (if not), 4
// expressions instead of indices.
func (m *wasmModule) readElement(r *reader) {
	flags := r.u32("the kind of an element segment")
	if r.err == nil && flags > 7 {
		r.fail("element segment %d has unknown kind %d", m.elements, flags)
		return
	}
	active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
	elem := byte(typeFuncref)
	table := uint32(0)
	if active {
		if explicit {
			table = r.u32("the table of an element segment")
		}
		if n := len(m.tables); r.err == nil && uint64(table) >= uint64(n) {
			r.fail("element segment %d is for table %d, but there are %d", m.elements, table, n)
		}
		m.constExpr(r, typeI32)
	}
	if !active || explicit {
		elem = m.elementType(r, exprs)
	}
	n := r.count(1, "elements")
	for i := uint32(0); i < n && r.err == nil; i++ {
		if exprs {
			m.constExpr(r, elem)
		} else {
			m.readFuncRef(r)
		}
	}
	m.elements++
	m.elementItems += int(n)
}

func (m *wasmModule) elementType(r *reader, exprs bool) byte {
	kind := r.byte("the type of an element segment")
	if exprs {
		if r.err == nil && !isRefType(kind) {
			r.fail("elements of 0x%02x are not WebAssembly 2.0", kind)
		}
		return kind
	}
	if r.err == nil && kind != 0 {
		r.fail("element segment %d has unknown kind 0x%02x", m.elements, kind)
	}
	return typeFuncref
}

func (m *wasmModule) readBody(r *reader) {
	size := r.u32("a function's size")
	start := r.pos
	if r.take(size, "a function"); r.err != nil {
		return
	}
	f := &reader{b: r.b, pos: start, end: start + int(size)}
	var body funcBody
	for i := f.count(2, "groups of locals"); i > 0 && f.err == nil; i-- {
		body.nLocals += uint64(f.u32("a number of locals"))
		f.valueType("the type of locals")
	}
	body.locals = span{start, f.pos}
	body.code = span{f.pos, f.end}
	if f.err == nil && f.left() == 0 {
		f.fail("function %d has no end", m.imported[externFunc]+len(m.bodies))
	}
	r.err = f.err
	m.bodies = append(m.bodies, body)
}

func (m *wasmModule) readData(r *reader) {
	kind := r.u32("the kind of a data segment")
	seg := dataSegment{active: kind != 1}
	if r.err == nil && kind > 2 {
		r.fail("data segment %d has unknown kind %d", len(m.data), kind)
	}
	if kind == 2 {
		if memory := r.u32("the memory of a data segment"); r.err == nil && memory != 0 {
			r.fail("data segment %d is for memory %d, and WebAssembly 2.0 has only memory 0", len(m.data), memory)
		}
	}
	if seg.active {
		if r.err == nil && len(m.memories) == 0 {
			r.fail("data segment %d is for a memory, but there is none", len(m.data))
		}
		v, constant := m.constExpr(r, typeI32)
		seg.offset, seg.fixed = uint32(v), constant
	}
	n := r.u32("the size of a data segment")
	start := r.pos
	r.take(n, "a data segment")
	seg.bytes = span{start, r.pos}
	m.data = append(m.data, seg)
	m.dataBytes += int(n)
}

// checkWhole checks what more than one section has a say in.
func (m *wasmModule) checkWhole() error {
	r := &reader{pos: len(m.wasm), end: len(m.wasm)}
	if defined := len(m.funcs) - m.imported[externFunc]; defined != len(m.bodies) {
		r.fail("it declares %d functions and has code for %d", defined, len(m.bodies))
	}
	if m.dataCount >= 0 && m.dataCount != int64(len(m.data)) {
		r.fail("it announces %d data segments and has %d", m.dataCount, len(m.data))
	}
	if m.start >= int64(len(m.funcs)) {
		r.fail("its start function is %d, but it has %d functions", m.start, len(m.funcs))
	}
	if n := len(m.memories); n > 1 && r.err == nil {
		return unsupported("the module has %d memories, and this host runs modules with one", n).WithHint("link it into one memory")
	}
	if r.err != nil {
		return r.err
	}
	if m.start >= 0 {
		if sig := m.signature(uint32(m.start)); len(sig.params)+len(sig.results) > 0 {
			r.fail("its start function %d has parameters or results", m.start)
		}
	}
	seen := make(map[string]bool, len(m.exports))
	for _, e := range m.exports {
		if seen[e.name] {
			r.fail("it exports %q twice", e.name)
			break
		}
		seen[e.name] = true
	}
	return r.err
}
