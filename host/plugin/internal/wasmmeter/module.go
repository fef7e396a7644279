package wasmmeter

import (
	"crypto/sha256"
	"fmt"
)

// The WebAssembly binary format (core 2.0 without anything later). It is read strictly:
// the reader has understood every byte of an accepted module. The parsed structures
// hold spans of the original instead of copies, because the metering pass copies most
// of a module unchanged. read.go reads modules, read_section.go the contents of
// sections, reader.go numbers and names.

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

// ExternKind says whether an import or export is a function, table, memory or global.
type ExternKind byte

const (
	ExternFunc   ExternKind = 0
	ExternTable  ExternKind = 1
	ExternMemory ExternKind = 2
	ExternGlobal ExternKind = 3
)

// String returns the name of the kind in the text format.
func (k ExternKind) String() string {
	switch k {
	case ExternFunc:
		return "func"
	case ExternTable:
		return "table"
	case ExternMemory:
		return "memory"
	case ExternGlobal:
		return "global"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// span is a range of the module's bytes.
type span struct{ start, end int }

func (s span) size() int { return s.end - s.start }

// vector is the contents of a section that lists entries: their number, and the span
// that they take after it.
type vector struct {
	count uint32
	items span
}

// funcRef is a function's index written outside the code section.
type funcRef struct {
	at    span
	index uint32
}

// FuncType is a function's signature; both slices are spans of the module.
type FuncType struct{ Params, Results []byte }

// Bounds are the bounds of a memory (in pages) or a table (in entries).
type Bounds struct {
	Min, Max uint32
	HasMax   bool
}

// Table is the type of a table.
type Table struct {
	Elem byte // the value type of its entries
	Bounds
}

// Global is the type of a global.
type Global struct {
	Value   byte // its value type
	Mutable bool
}

// Import is an entry of the import section.
type Import struct {
	Module, Name string
	Kind         ExternKind
	TypeIndex    uint32 // of a function
	table        Table  // of a table
	memory       Bounds // of a memory
	global       Global // of a global
}

// Export is an entry of the export section.
type Export struct {
	Name  string
	Kind  ExternKind
	Index uint32
}

// funcBody is one function's entry in the code section.
type funcBody struct {
	locals  span   // the declaration of locals, with its count
	nLocals uint64 // number of declared locals, without parameters
	code    span   // the instructions, with the last end
}

// DataSegment is one entry in the data section. offset is meaningful only if
// fixed: the segment is active with a constant offset.
type DataSegment struct {
	Active, fixed bool
	offset        uint32
	bytes         span
}

// Size returns how many bytes the segment has.
func (d DataSegment) Size() int { return d.bytes.size() }

// Module is the structure of a module: everything except the instructions of its
// functions. It never changes.
type Module struct {
	Digest [sha256.Size]byte // of the module's bytes; set by Read
	wasm   []byte
	limits *Limits // that end its reading; nil has none

	Types    []FuncType
	Imports  []Import
	imported [4]int   // number of Imports of each kind
	funcs    []uint32 // type index of each function, imported ones first
	Tables   []Table  // imported ones first
	memories []Bounds // imported ones first
	Globals  []Global // imported ones first
	Exports  []Export

	start        int64 // function index or -1
	Elements     int   // element segments
	ElementItems int   // entries of all element segments
	dataCount    int64 // or -1
	bodies       []funcBody
	Data         []DataSegment
	DataBytes    int // of all data segments

	present  [secDataCount + 1]bool
	vectors  [secDataCount + 1]vector
	funcRefs []funcRef // in globals, exports and elements, in order of place

	importRefs bool // one of them is an imported function, so a table may hold one

	custom customSections
}

// Signature returns the type of a function by its index, which must be valid.
func (m *Module) Signature(index uint32) FuncType { return m.Types[m.funcs[index]] }
