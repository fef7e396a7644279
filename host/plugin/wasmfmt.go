package plugin

import "fmt"

// The WebAssembly binary format (core 2.0 without anything later). It is read
// strictly: a module that is accepted has no byte that was not understood. What
// was read are spans of the original instead of copies, because the metering pass
// copies most of a module as it stands. wasmfmt_module.go reads modules,
// wasmfmt_section.go what is in their sections, wasmfmt_reader.go numbers and
// names.

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

	importRefs bool // one of them is an imported function, so a table may hold one

	customs     int
	customBytes int
	manifest    []byte // contents of the manifest section; nil if absent
	manifestAt  span   // that section, whole
	named       bool   // a name section was read
	moduleName  []byte
	funcNames   []nameEntry
	producers   []byte // contents of the producers section, which is not checked; nil if absent
}

// signature returns the type of a function by its index, which must be valid.
func (m *wasmModule) signature(index uint32) funcType { return m.types[m.funcs[index]] }
