package plugin

import "time"

// structureLimits bounds what a module may be made of, so that reading,
// compiling and instantiating it takes bounded time and memory whoever wrote
// it. A zero field means the default below.
type structureLimits struct {
	moduleBytes int
	customBytes int // in custom sections
	types       int
	values      int // parameters or results of a type
	imports     int
	exports     int
	nameBytes   int // of each import's and export's name
	globals     int
	tables      int

	elementSegments int
	elements        int
	dataSegments    int

	functions   int
	bodyBytes   int // code of a function
	locals      int // of a function, with its parameters
	nesting     int // blocks in one another
	tableLabels int // entries in the jump tables of a function

	// compileTime bounds the estimated time to compile the module, and each
	// function: this long, and as long again for every 800 kB of code.
	compileTime time.Duration

	memoryPages  uint32 // memory's maximum becomes this
	tableEntries uint32 // each table's maximum becomes this
	callDepth    int64  // what depth starts at

	bulkPiece int // bytes of a bulk memory operation between two looks; even
	stretch   int // units of code between two looks
	tail      int // the same after a call
}

// The defaults of structureLimits. In brackets, the most that was seen in a 16
// MB Go guest with an HTTP client and regular expressions, QuickJS, and plugins
// in Rust, Zig, C++ and Haskell.
const (
	defaultModuleBytes     = 16 << 20
	defaultCustomBytes     = 16 << 20
	defaultTypes           = 10_000  // (1,719)
	defaultValues          = 1_000   // (17; browsers allow 1,000)
	defaultImports         = 1_000   // (33)
	defaultExports         = 10_000  // (450)
	defaultNameBytes       = 1_000   // C++ templates have long ones
	defaultGlobals         = 1_000   // (11)
	defaultTables          = 16      // (1)
	defaultElementSegments = 10_000  // (1)
	defaultElements        = 200_000 // (9,738)
	defaultDataSegments    = 100_000 // (100,000: as many as Go's linker makes)
	defaultFunctions       = 100_000 // (9,771)
	defaultBodyBytes       = 2 << 20 // (80 kB)
	defaultLocals          = 10_000  // (57)
	defaultNesting         = 20_000  // (1,707)
	defaultTableLabels     = 70_000  // (3,126; Go allows itself 65,536)
	defaultCompileTime     = DefaultCompileWork
	defaultMemoryPages     = 64 << 20 >> 16
	defaultTableEntries    = 100_000 // (9,739)
	defaultCallDepth       = 10_000
)

// withDefaults returns l with zero fields filled in; l may be nil.
func (l *structureLimits) withDefaults() *structureLimits {
	var d structureLimits
	if l != nil {
		d = *l
	}
	for _, f := range []struct {
		value *int
		std   int
	}{
		{&d.moduleBytes, defaultModuleBytes}, {&d.customBytes, defaultCustomBytes},
		{&d.types, defaultTypes}, {&d.values, defaultValues},
		{&d.imports, defaultImports}, {&d.exports, defaultExports}, {&d.nameBytes, defaultNameBytes},
		{&d.globals, defaultGlobals}, {&d.tables, defaultTables},
		{&d.elementSegments, defaultElementSegments}, {&d.elements, defaultElements}, {&d.dataSegments, defaultDataSegments},
		{&d.functions, defaultFunctions}, {&d.bodyBytes, defaultBodyBytes}, {&d.locals, defaultLocals},
		{&d.nesting, defaultNesting}, {&d.tableLabels, defaultTableLabels},
		{&d.bulkPiece, bulkPiece}, {&d.stretch, longStretch}, {&d.tail, longTail},
	} {
		if *f.value == 0 {
			*f.value = f.std
		}
	}
	if d.compileTime == 0 {
		d.compileTime = defaultCompileTime
	}
	if d.memoryPages == 0 {
		d.memoryPages = defaultMemoryPages
	}
	if d.tableEntries == 0 {
		d.tableEntries = defaultTableEntries
	}
	if d.callDepth == 0 {
		d.callDepth = defaultCallDepth
	}
	return &d
}

// frameValues is how many values a frame of weight 1 may hold.
const frameValues = 64

// frameWeight is what a function takes of the depth while it runs: 1, and 1
// more for every frameValues locals and operands. How much stack that is the depth
// counter says beside it (prepare_stack.go).
func (s *codeScan) frameWeight() int64 {
	return 1 + int64((s.locals+uint64(max(s.top, 0)))/frameValues)
}
