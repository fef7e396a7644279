package plugin

// structureLimits bounds what a module may be made of, so that compiling and
// instantiating it takes bounded time and memory whoever wrote it. A zero field
// means the default below. What bigger programs need was measured on a 3 MB
// standard Go guest, QuickJS, SQLite-sized C and Rust; see the constants.
type structureLimits struct {
	moduleBytes int
	types       int
	imports     int
	functions   int
	globals     int
	exports     int
	tables      int

	elementSegments int
	elements        int
	dataSegments    int
	customBytes     int
	nameBytes       int // of each import's and export's name
	values          int // parameters or results of a type

	memoryPages  uint32 // memory's maximum becomes this
	tableEntries uint32 // each table's maximum becomes this
	callDepth    int64  // what depth starts at
}

// The defaults of structureLimits.
const (
	defaultModuleBytes     = 32 << 20
	defaultTypes           = 10_000
	defaultImports         = 1_000
	defaultFunctions       = 100_000
	defaultGlobals         = 10_000
	defaultExports         = 10_000
	defaultTables          = 16
	defaultElementSegments = 10_000
	defaultElements        = 200_000
	defaultDataSegments    = 100_000 // the most that Go's linker writes
	defaultCustomBytes     = 16 << 20
	defaultNameBytes       = 1_000
	defaultValues          = 1_000 // what browsers allow
	defaultMemoryPages     = 64 << 20 >> 16
	defaultTableEntries    = 100_000
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
		{&d.moduleBytes, defaultModuleBytes}, {&d.types, defaultTypes}, {&d.imports, defaultImports},
		{&d.functions, defaultFunctions}, {&d.globals, defaultGlobals}, {&d.exports, defaultExports},
		{&d.tables, defaultTables}, {&d.elementSegments, defaultElementSegments}, {&d.elements, defaultElements},
		{&d.dataSegments, defaultDataSegments}, {&d.customBytes, defaultCustomBytes}, {&d.nameBytes, defaultNameBytes},
		{&d.values, defaultValues},
	} {
		if *f.value == 0 {
			*f.value = f.std
		}
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

func (t *meter) frameWeight(locals uint64) int64 { return 1 }
