package wasmmeter

import (
	"bytes"
	"slices"
)

// This file writes the metered module.

// Names that the pass adds to a module, by which the host finds the additions. A module
// that uses one of them itself is refused.
const (
	ImportModule = "agenthost_meter"        // the import's module
	ImportCheck  = "tick"                   // the import
	exportPrefix = ImportModule + "."       // begins every added export
	FuelGlobal   = exportPrefix + "fuel"    // mutable i64
	DepthGlobal  = exportPrefix + "depth"   // mutable i64
	globalPrefix = exportPrefix + "global." // and the global's index
	StartExport  = exportPrefix + "start"   // () -> (): the start function
)

// cheapLeaf is the highest price of a function that calls nothing and does not check
// the fuel: its callers check for it (see stretch).
const cheapLeaf = 64

// meter writes the metered module.
//
// The one added import follows the others, at the index of the first defined function,
// and that function moves behind the last. So no other index changes, and the code of
// most functions is copied unchanged around the insertions.
type meter struct {
	m      *Module
	limits *Limits
	scan   codeScan
	frame  int64 // bytes of stack that the heaviest frame takes, by estimate

	tick  uint32 // function index of the import
	moved uint32 // the new index of the function that had tick's
	check uint32 // function index of the first added function
	fuel  uint32 // index of the first added global, of which there are two

	types      []byte // entries added to the type section
	typeCount  uint32
	blockTypes map[string]uint32 // added types of blocks with several results

	helpers  []bulkHelper // functions added for bulk operations, see bulk.go
	helperAt map[bulkHelper]uint32

	out  []byte // the module
	body []byte // the function being written
}

// The functions that are added, relative to meter.check.
const (
	addedCheck  = iota // () -> (): gets the next quantum
	addedCharge        // (length i32, weight i64) -> i32: charges, returns length
	addedGrow          // the same for memory.grow and table.grow
	addedFuncs         // the functions that every module gets; bulk helpers follow
)

// addedStart is the index, relative to meter.check, of the function that calls the
// start function. It is exported in place of the start function, because an export
// declares a function for ref.func, which a start section does not: exporting the start
// function would make an invalid module valid.
func (t *meter) addedStart() uint32 { return addedFuncs + uint32(len(t.helpers)) }

// addedCount returns how many functions are added.
func (t *meter) addedCount() uint32 {
	n := t.addedStart()
	if t.m.start >= 0 {
		n++
	}
	return n
}

func newMeter(m *Module, l *Limits) *meter {
	t := &meter{m: m, limits: l, blockTypes: map[string]uint32{}, helperAt: map[bulkHelper]uint32{}}
	t.tick = uint32(m.imported[ExternFunc])
	t.moved = uint32(len(m.funcs))
	t.check = uint32(len(m.funcs)) + 1
	t.fuel = uint32(len(m.Globals))
	t.typeCount = uint32(len(m.Types))
	t.scan = codeScan{m: m, limits: l, remap: t.remap, slack: slack, reloaded: m.mutableGlobals()}
	return t
}

// remap returns the new index of a function of the original module.
func (t *meter) remap(function uint32) uint32 {
	if function == t.tick {
		return t.moved
	}
	return function
}

// write returns the metered module.
func (t *meter) write() ([]byte, error) {
	t.out = make([]byte, 0, len(t.m.wasm)+len(t.m.wasm)/3+4096)
	t.out = append(t.out, t.m.wasm[:8]...)
	tickType := t.addType([]byte{typeI64, typeI64}, []byte{typeI64})
	checkType := t.addType(nil, nil)
	chargeType := t.addType([]byte{typeI32, typeI64}, []byte{typeI32})
	bulkType := t.addType([]byte{typeI32, typeI32, typeI32}, nil)

	// The code comes first: it may add types, and decides whether data may be merged.
	code, err := t.code()
	if err != nil {
		return nil, err
	}
	t.typeSection()
	t.importSection(tickType)
	t.functionSection(checkType, chargeType, bulkType)
	t.tableSection()
	t.memorySection()
	t.globalSection()
	t.exportSection()
	t.elementSection()
	t.dataSections(code)
	t.nameSection()
	return t.out, nil
}

// addType adds a function type and returns its index.
func (t *meter) addType(params, results []byte) uint32 {
	t.types = appendSized(appendSized(append(t.types, funcForm), params), results)
	t.typeCount++
	return t.typeCount - 1
}

// section appends a section that lists entries: those of the original, with remapped
// function indices, and the added ones.
func (t *meter) section(id byte, added uint32, entries []byte) {
	v := t.m.vectors[id]
	if v.count+added == 0 {
		return
	}
	b := appendU32(nil, v.count+added)
	b = t.appendOriginal(b, v.items)
	t.out = appendSection(t.out, id, append(b, entries...))
}

// appendOriginal appends a span of the original with remapped function indices.
func (t *meter) appendOriginal(b []byte, s span) []byte {
	refs := t.m.funcRefs
	first, _ := slices.BinarySearchFunc(refs, s.start, func(r funcRef, at int) int { return r.at.start - at })
	at := s.start
	for _, ref := range refs[first:] {
		if ref.at.end > s.end {
			break
		}
		if to := t.remap(ref.index); to != ref.index {
			b = append(b, t.m.wasm[at:ref.at.start]...)
			b = appendU32(b, to)
			at = ref.at.end
		}
	}
	return append(b, t.m.wasm[at:s.end]...)
}

func (t *meter) typeSection() {
	t.section(secType, t.typeCount-uint32(len(t.m.Types)), t.types)
}

func (t *meter) importSection(tickType uint32) {
	e := appendName(appendName(nil, ImportModule), ImportCheck)
	t.section(secImport, 1, appendU32(append(e, byte(ExternFunc)), tickType))
}

// functionSection writes the functions' types in their new order: the first one
// last, then those that were added.
func (t *meter) functionSection(checkType, chargeType, bulkType uint32) {
	defined := t.m.funcs[t.m.imported[ExternFunc]:]
	b := appendU32(nil, uint32(len(defined))+t.addedCount())
	for i := range defined {
		b = appendU32(b, defined[(i+1)%len(defined)])
	}
	b = appendU32(appendU32(appendU32(b, checkType), chargeType), chargeType)
	for range t.helpers {
		b = appendU32(b, bulkType)
	}
	if t.m.start >= 0 {
		b = appendU32(b, checkType)
	}
	t.out = appendSection(t.out, secFunction, b)
}

// tableSection and memorySection write the bounds with the limits as maximum.
func (t *meter) tableSection() {
	b := appendU32(nil, uint32(len(t.m.Tables)))
	for _, table := range t.m.Tables {
		b = appendLimits(append(b, table.Elem), table.Clamp(t.limits.TableEntries))
	}
	t.sectionIf(secTable, b)
}

func (t *meter) memorySection() {
	b := appendU32(nil, uint32(len(t.m.memories)))
	for _, memory := range t.m.memories {
		b = appendLimits(b, memory.Clamp(t.limits.MemoryPages))
	}
	t.sectionIf(secMemory, b)
}

func (t *meter) sectionIf(id byte, contents []byte) {
	if t.m.present[id] {
		t.out = appendSection(t.out, id, contents)
	}
}

// Clamp returns l with a maximum, at most most.
func (l Bounds) Clamp(most uint32) Bounds {
	if !l.HasMax || l.Max > most {
		l.Max = most
	}
	l.HasMax = true
	return l
}

// globalSection adds fuel, which is 0, and depth, which begins with the limit's calls
// and with as much stack as the heaviest frame takes.
func (t *meter) globalSection() {
	e := []byte{typeI64, 1, opI64Const, 0, opEnd, typeI64, 1, opI64Const}
	e = append(appendS64(e, PackDepth(t.limits.CallDepth, (t.frame+StackUnit-1)/StackUnit)), opEnd)
	t.section(secGlobal, 2, e)
}

func (t *meter) exportSection() {
	added, e := uint32(0), []byte(nil)
	add := func(name string, kind ExternKind, index uint32) {
		e = appendU32(append(appendName(e, name), byte(kind)), index)
		added++
	}
	add(FuelGlobal, ExternGlobal, t.fuel)
	add(DepthGlobal, ExternGlobal, t.fuel+1)
	for _, i := range t.m.SavedGlobals() {
		add(GlobalExport(i), ExternGlobal, uint32(i))
	}
	if t.m.start >= 0 {
		add(StartExport, ExternFunc, t.check+t.addedStart())
	}
	t.section(secExport, added, e)
}

func (t *meter) elementSection() { t.section(secElement, 0, nil) }

// code writes the entries of the code section.
func (t *meter) code() ([]byte, error) {
	n := len(t.m.bodies)
	size := 0
	if n > 0 {
		size = t.m.bodies[n-1].code.end - t.m.bodies[0].locals.start
	}
	b := make([]byte, 0, size+size/3+1024)
	t.scan.findLeaves()
	work := newBudget(t.m, t.limits)
	for i := range n {
		if err := t.function((i + 1) % n); err != nil {
			return nil, err
		}
		if err := work.add(&t.scan); err != nil {
			return nil, err
		}
		b = appendSized(b, t.body)
	}
	return t.addedCode(b), nil
}

// codeSection writes the code section with the given entries.
func (t *meter) codeSection(entries []byte) {
	n := appendU32(nil, uint32(len(t.m.bodies))+t.addedCount())
	t.out = appendU32(append(t.out, secCode), uint32(len(n)+len(entries)))
	t.out = append(append(t.out, n...), entries...)
}

// function writes one function into t.body.
//
// A function that calls others returns its weight to depth on every way out, so all
// ways out pass through one place: its code becomes a block, and a return a branch to
// the block's end. Labels keep their numbers, because the block's label takes the place
// of the function's.
func (t *meter) function(i int) error {
	s := &t.scan
	if err := s.scan(i); err != nil {
		return err
	}
	body := &t.m.bodies[i]
	wrapped := s.calls && s.returns
	weight := s.depthWeight()
	t.frame = max(t.frame, s.frameEstimate())
	b := append(t.body[:0], t.m.wasm[body.locals.start:body.locals.end]...)
	b = t.entry(b, weight)
	if wrapped {
		b = t.blockType(append(b, opBlock), t.m.Signature(uint32(s.index)).Results)
	}
	b = t.edited(b, body.code, wrapped)
	if wrapped {
		b = append(b, opEnd)
	}
	if s.calls && (wrapped || s.endLive) {
		b = t.addTo(b, t.fuel+1, opI64Add, weight)
	}
	t.body = append(b, opEnd)
	return nil
}

// entry writes the code at a function's start: it subtracts the function's weight from
// depth if it calls others, charges the first point, and checks both, unless the
// function is cheap or begins with a loop, which checks them.
func (t *meter) entry(b []byte, weight int64) []byte {
	s := &t.scan
	if s.calls {
		b = t.addTo(b, t.fuel+1, opI64Sub, weight)
	}
	b = t.charge(b, s.points[0].cost)
	if s.firstLoop >= 0 || s.leaf() {
		return b
	}
	return t.look(b, s.calls)
}

// edited writes a function's code with the scan's edits, without its last end.
func (t *meter) edited(b []byte, code span, wrapped bool) []byte {
	s := &t.scan
	at := code.start
	for n, e := range s.edits {
		b = append(b, t.m.wasm[at:e.at]...)
		at = int(e.at)
		switch e.kind {
		case editCharge:
			b = t.charge(b, s.points[e.arg].cost)
		case editLook:
			b = t.look(t.charge(b, s.points[e.arg].cost), s.calls && n == s.firstLoop)
		case editBulk:
			b = t.call(appendS64(append(b, opI64Const), int64(e.arg)), addedCharge)
		case editFill, editCopy, editInit:
			b = t.call(b, t.helper(e.kind, e.arg))
			at += int(e.skip)
		case editGrow:
			b = t.call(appendS64(append(b, opI64Const), int64(e.arg)), addedGrow)
		case editIndex:
			b = appendU32(b, e.arg)
			at += int(e.skip)
		case editReturn:
			if wrapped {
				b = appendU32(append(b, opBr), e.arg)
				at += int(e.skip)
			}
		}
	}
	return append(b, t.m.wasm[at:code.end-1]...)
}

// charge subtracts a cost from the fuel.
func (t *meter) charge(b []byte, cost uint32) []byte {
	if cost == 0 {
		return b
	}
	return t.addTo(b, t.fuel, opI64Sub, int64(cost))
}

// addTo adds n to a global, or subtracts it.
func (t *meter) addTo(b []byte, global uint32, op byte, n int64) []byte {
	b = appendU32(append(b, opGlobalGet), global)
	b = append(appendS64(append(b, opI64Const), n), op)
	return appendU32(append(b, opGlobalSet), global)
}

// look calls the fuel check if fuel is below zero or, with depth set, if depth is.
func (t *meter) look(b []byte, depth bool) []byte {
	b = appendU32(append(b, opGlobalGet), t.fuel)
	if depth {
		b = append(appendU32(append(b, opGlobalGet), t.fuel+1), opI64Or)
	}
	b = append(b, opI64Const, 0, opI64LtS, opIf, blockEmpty)
	return append(t.call(b, addedCheck), opEnd)
}

// call calls an added function.
func (t *meter) call(b []byte, added uint32) []byte {
	return appendU32(append(b, opCall), t.check+added)
}

// blockType writes the type of a block without parameters.
func (t *meter) blockType(b, results []byte) []byte {
	switch len(results) {
	case 0:
		return append(b, blockEmpty)
	case 1:
		return append(b, results[0])
	}
	index, ok := t.blockTypes[string(results)]
	if !ok {
		index = t.addType(nil, results)
		t.blockTypes[string(results)] = index
	}
	return appendS64(b, int64(index))
}

// addedCode writes the added functions.
func (t *meter) addedCode(b []byte) []byte {
	// check: fuel = tick(fuel, depth)
	f := appendU32([]byte{0, opGlobalGet}, t.fuel)
	f = appendU32(append(f, opGlobalGet), t.fuel+1)
	f = appendU32(append(f, opCall), t.tick)
	f = appendU32(append(f, opGlobalSet), t.fuel)
	b = appendSized(b, append(f, opEnd))

	// charge: fuel -= length * weight >> costShift; look; return length
	f = t.pay([]byte{0}, []byte{opLocalGet, 0, opI64ExtU, opLocalGet, 1, opI64Mul, opI64Const, costShift, opI64ShrU})
	b = appendSized(b, append(f, opLocalGet, 0, opEnd))

	// grow: if length <= maxPages, charge
	f = append([]byte{0}, opLocalGet, 0, opI32Const)
	f = append(appendS64(f, maxPages), opI32GtU, opIf, typeI32, opLocalGet, 0, opElse, opLocalGet, 0, opLocalGet, 1)
	f = append(t.call(f, addedCharge), opEnd, opEnd)
	b = appendSized(b, f)
	for _, h := range t.helpers {
		b = appendSized(b, t.helperCode(h))
	}
	if t.m.start >= 0 {
		b = appendSized(b, append(appendU32([]byte{0, opCall}, t.remap(uint32(t.m.start))), opEnd))
	}
	return b
}

// pay subtracts the number that the given code leaves on the stack from the fuel, and
// checks the fuel.
func (t *meter) pay(b, cost []byte) []byte {
	b = append(appendU32(append(b, opGlobalGet), t.fuel), cost...)
	b = appendU32(append(b, opI64Sub, opGlobalSet), t.fuel)
	return t.look(b, false)
}

// dataSections writes the number of data segments, the code section and the segments.
func (t *meter) dataSections(code []byte) {
	runs := t.m.mergeData(t.scan.usesSegments)
	n := uint32(len(t.m.Data))
	if runs != nil {
		n = countPieces(runs)
	}
	if t.m.dataCount >= 0 {
		t.out = appendSection(t.out, secDataCount, appendU32(nil, n))
	}
	t.codeSection(code)
	if runs == nil {
		t.section(secData, 0, nil)
		return
	}
	t.out = appendSection(t.out, secData, t.m.mergedData(runs))
}

// nameSection writes the names of the module and its functions, which stack
// traces show. No other custom section is copied.
func (t *meter) nameSection() {
	b := appendName(nil, "name")
	if len(t.m.custom.moduleName) > 0 {
		b = appendSection(b, 0, appendSized(nil, t.m.custom.moduleName))
	}
	b = appendSection(b, 1, t.functionNames())
	t.out = appendSection(t.out, secCustom, b)
}

// functionNames lists names by index, in order. The moved function's name is at its new
// index, and the names of added functions come last.
func (t *meter) functionNames() []byte {
	var list, moved []byte
	n, next := uint32(0), uint32(0)
	add := func(b []byte, index uint32, name []byte) []byte {
		n++
		return appendSized(appendU32(b, index), name)
	}
	for _, e := range t.m.custom.funcNames {
		switch {
		case e.index < next || int(e.index) >= len(t.m.funcs): // out of order, or of no function
			continue
		case bytes.HasPrefix(e.name, []byte(exportPrefix)): // a name of added functions
			continue
		case e.index == t.tick:
			moved = add(nil, t.moved, e.name)
		default:
			list = add(list, e.index, e.name)
		}
		next = e.index + 1
	}
	list = append(list, moved...)
	for i, name := range []string{addedCheck: "check", addedCharge: "charge", addedGrow: "grow"} {
		list = add(list, t.check+uint32(i), []byte(exportPrefix+name))
	}
	for i, h := range t.helpers {
		list = add(list, t.check+uint32(addedFuncs+i), []byte(h.name()))
	}
	if t.m.start >= 0 {
		list = add(list, t.check+t.addedStart(), []byte(StartExport))
	}
	return append(appendU32(nil, n), list...)
}
