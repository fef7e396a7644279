package wasmmeter

import "time"

// Limits bounds the parts of a module, so that reading, compiling and instantiating
// it takes bounded time and memory. A zero field means the default below.
type Limits struct {
	ModuleBytes int
	CustomBytes int // in custom sections
	Types       int
	Values      int // parameters or results of a type
	Imports     int
	Exports     int
	NameBytes   int // of each import's and export's name
	Globals     int
	Tables      int

	ElementSegments int
	Elements        int
	DataSegments    int

	Functions   int
	BodyBytes   int // code of a function
	Locals      int // of a function, with its parameters
	Nesting     int // blocks in one another
	TableLabels int // entries in the jump tables of a function

	// CompileTime bounds the estimated time to compile the module, and each function:
	// it allows this time, and as much again for every 800 kB of code.
	CompileTime time.Duration

	MemoryPages  uint32 // the maximum of the metered module's memory
	TableEntries uint32 // the maximum of each of its tables
	CallDepth    int64  // the weights that its depth counter begins with

	bulkPiece int // bytes of a bulk memory operation between two fuel checks; even
	stretch   int // units of code between two fuel checks
	tail      int // the same after a call
}

// The defaults of Limits. In brackets, the largest number found in a 16 MB Go guest
// with an HTTP client and regular expressions, QuickJS, and plugins in Rust, Zig, C++
// and Haskell.
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
	DefaultCompileTime     = 2 * time.Second
	defaultMemoryPages     = 64 << 20 >> 16
	defaultTableEntries    = 100_000 // (9,739)
	defaultCallDepth       = 10_000
)

// WithDefaults returns a copy of l with its zero fields set to the defaults; l may be nil.
func (l *Limits) WithDefaults() *Limits {
	var d Limits
	if l != nil {
		d = *l
	}
	for _, f := range []struct {
		value *int
		std   int
	}{
		{&d.ModuleBytes, defaultModuleBytes}, {&d.CustomBytes, defaultCustomBytes},
		{&d.Types, defaultTypes}, {&d.Values, defaultValues},
		{&d.Imports, defaultImports}, {&d.Exports, defaultExports}, {&d.NameBytes, defaultNameBytes},
		{&d.Globals, defaultGlobals}, {&d.Tables, defaultTables},
		{&d.ElementSegments, defaultElementSegments}, {&d.Elements, defaultElements}, {&d.DataSegments, defaultDataSegments},
		{&d.Functions, defaultFunctions}, {&d.BodyBytes, defaultBodyBytes}, {&d.Locals, defaultLocals},
		{&d.Nesting, defaultNesting}, {&d.TableLabels, defaultTableLabels},
		{&d.bulkPiece, bulkPiece}, {&d.stretch, longStretch}, {&d.tail, longTail},
	} {
		if *f.value == 0 {
			*f.value = f.std
		}
	}
	if d.CompileTime == 0 {
		d.CompileTime = DefaultCompileTime
	}
	if d.MemoryPages == 0 {
		d.MemoryPages = defaultMemoryPages
	}
	if d.TableEntries == 0 {
		d.TableEntries = defaultTableEntries
	}
	if d.CallDepth == 0 {
		d.CallDepth = defaultCallDepth
	}
	return &d
}

// frameValues is how many values a frame of weight 1 may hold.
const frameValues = 64

// frameWeight returns how much weight a function takes of the depth counter while it
// runs: 1, and 1 more for every frameValues locals and operands. The depth counter has
// the bytes of stack separately (depth.go).
func (s *codeScan) frameWeight() int64 {
	return 1 + int64((s.locals+uint64(max(s.top, 0)))/frameValues)
}
