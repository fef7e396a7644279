package wasmmeter

import (
	"math"
	"strconv"

	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// This file reads the instructions of a function once, checks every index in them, and
// notes the changes that the metering pass has to make.
//
// Where instructions are charged: a point is a position in the code where a charge can
// stand; each instruction belongs to the point that executes exactly when it does. A
// new point begins at the function's start, a loop's header, the branches of an if,
// after a conditional branch, and after the end of a block that something jumps to.
// After the end of a block that control leaves only through its end, the point from
// before the block continues: control that entered the block comes out of it. But code
// behind a call or a fuel check is charged after it (stretch.go). So charges are exact,
// and few; only a guest that traps has paid for instructions that it did not reach.
// Then points that cost little are charged with the point before them (see slack), so
// that a guest may pay for a few instructions that it jumped over. It never pays for
// less than it runs.

// frame is a block, loop or if that is open, or the function itself.
type frame struct {
	op       byte  // opBlock, opLoop, opIf, opElse; 0 for the function
	live     bool  // control can reach its start
	branched bool  // a live branch goes to its label
	thenLive bool  // of an else: the then branch reached its end
	entry    bool  // a jump table leads to it, see dispatch
	id       int32 // its number in crossings
	outside  int32 // the outermost frame that a live branch from inside goes to
	point    int32 // the point that the code before it belongs to
	base     int32 // how many operands are below it
	params   int32
	results  int32

	around stretch // of an if: what its else begins with, or goes around it with
	out    stretch // what branches to its label bring along
}

// passes returns how many values a branch to the frame's label passes.
func (f *frame) passes() int {
	if f.op == opLoop {
		return int(f.params)
	}
	return int(f.results)
}

// slack bounds the price of instructions that a point charges for and control may jump
// over. With 0 charges would be exact.
const slack = 12

// point is a place where a charge can stand.
type point struct {
	cost uint32
	// over is the point that control passes before this one, and at least as often; -1
	// for a loop's header, which control passes repeatedly.
	over int32
	more uint32 // the part of cost that came from points after this one
}

// editKind says which code an edit inserts.
type editKind uint8

const (
	editCharge editKind = iota // subtract the cost of point arg
	editLook                   // the same, then check
	editIndex                  // a number, in place of another
	editReturn                 // a branch to label arg, in place of a return
	editBulk                   // charge the length on the stack, arg sixteenths each
	editGrow                   // the same, free if it is impossible
	editFill                   // a call of the bulk helper, in place of memory.fill
	editCopy                   // the same for memory.copy
	editInit                   // the same for memory.init of data segment arg
)

// edit is a change at a position of the original module: it replaces skip bytes.
type edit struct {
	at, skip int32
	kind     editKind
	arg      uint32
}

// codeScan reads functions one after the other; its slices are used again.
type codeScan struct {
	m      *Module
	limits *Limits
	remap  func(function uint32) uint32
	slack  uint32

	reloaded int // mutable globals: the compiler reads them again after each call

	// Of the function at hand.
	index  int // in the index space of functions
	locals uint64
	pos    int
	end    int
	err    error

	frames []frame
	points []point
	edits  []edit
	live   bool
	cur    int32 // the point that code belongs to now
	height int32 // of the operand stack; means nothing where code is dead
	top    int32 // the greatest height

	made, sets int64 // values that instructions produce, and that locals are set to
	vectors    bool  // some of them

	unseen  stretch // units that control may have spent since the last fuel check
	barrier int32   // the first point that what comes now may belong to

	straight  bool // nothing but plain instructions so far
	firstLoop int  // the edit of the loop that the function begins with, or -1
	calls     bool // it calls functions of the module
	returns   bool // a live return, or a branch to the function's own label
	endLive   bool // control reaches the end

	jumps    dispatch
	constant int32 // the operand of the last i32.const
	constEnd int   // where that ended
	setLocal uint32
	setEnd   int // where a local.set of setLocal to constant ended

	shape    shape
	loopNest int // loops that are open
	opened   int // frames so far, without the function's
	cross    crossings

	// Of the whole module.
	leaves       map[int]uint64 // prices of the functions that do not check the fuel, see leaf
	usesSegments bool           // memory.init or data.drop
	keepsState   bool           // writes a table or drops a segment
}

// scan reads the function with the given index in the code section. If values that
// cross merges have a price, which is known only after the whole function is read, scan
// reads it again.
func (s *codeScan) scan(i int) error {
	s.index = i + s.m.imported[ExternFunc]
	body := &s.m.bodies[i]
	s.locals = body.nLocals + uint64(len(s.m.Signature(uint32(s.index)).Params))
	s.cross.begin(min(s.locals, uint64(s.limits.Locals)))
	s.read(body)
	if s.err == nil && s.cross.analyse(s.shape.blocks, s.shape.deepest) {
		s.cross.on = false
		s.read(body)
	}
	s.mergePoints()
	return s.err
}

// read reads a function from its first instruction to its last.
func (s *codeScan) read(body *funcBody) {
	sig := s.m.Signature(uint32(s.index))
	s.pos, s.end, s.err = body.code.start, body.code.end, nil
	s.frames = append(s.frames[:0], frame{live: true, id: -1, outside: math.MaxInt32, results: int32(len(sig.Results))})
	s.points, s.edits = append(s.points[:0], point{over: -1}), s.edits[:0]
	s.live, s.cur, s.height, s.top = true, 0, 0, 0
	s.made, s.sets, s.vectors = 0, 0, false
	s.unseen, s.barrier = stretch{}, 0
	s.straight, s.firstLoop, s.calls, s.returns, s.endLive = true, -1, false, false, false
	s.shape, s.loopNest, s.opened = shape{}, 0, 0
	s.checkSize(body)
	s.constEnd, s.setEnd = -1, -1
	s.jumps.labels, s.jumps.end = s.jumps.labels[:0], 0
	for len(s.frames) > 0 && s.err == nil {
		s.next()
	}
	if s.err == nil && s.pos != s.end {
		s.fail("function %d goes on after its end", s.index)
	}
}

// mergePoints charges cheap points together with the point before them, for code that
// is a tenth smaller and a twentieth faster: on QuickJS, which has many small branches,
// metering adds 24 % to the bytes instead of 34 %.
func (s *codeScan) mergePoints() {
	for i := len(s.points) - 1; i > 0; i-- {
		p := &s.points[i]
		if p.over < 0 {
			continue
		}
		if over := &s.points[p.over]; over.more+p.cost <= s.slack {
			over.cost += p.cost
			over.more += p.cost
			p.cost = 0
		}
	}
}

// size is how many bytes of code the function has.
func (s *codeScan) size() int {
	return s.m.bodies[s.index-s.m.imported[ExternFunc]].code.size()
}

// checkSize refuses a function that is beyond a limit before it is read.
func (s *codeScan) checkSize(body *funcBody) {
	subject := "function " + strconv.Itoa(s.index) + " has"
	switch {
	case s.locals > uint64(s.limits.Locals):
		s.err = tooMany(subject, int(min(s.locals, math.MaxInt32)), "locals and parameters", s.limits.Locals)
	case body.code.size() > s.limits.BodyBytes:
		s.err = tooMany(subject, body.code.size(), "bytes of code", s.limits.BodyBytes)
	}
}

func (s *codeScan) fail(format string, args ...any) {
	if s.err == nil {
		r := reader{pos: s.pos}
		r.fail(format, args...)
		s.err = r.err
	}
}

// u32 reads a number; after a failure it returns 0.
func (s *codeScan) u32() uint32 {
	if s.pos < s.end && s.m.wasm[s.pos] < 0x80 {
		s.pos++
		return uint32(s.m.wasm[s.pos-1])
	}
	v, n := leb32(s.m.wasm[s.pos:s.end])
	if n == 0 {
		s.fail("an operand in function %d is not a 32-bit number", s.index)
	}
	s.pos += n
	return v
}

func (s *codeScan) signed(bits int) int64 {
	v, n := sleb(s.m.wasm[s.pos:s.end], bits)
	if n == 0 {
		s.fail("a constant in function %d is not a %d-bit number", s.index, bits)
	}
	s.pos += n
	return v
}

func (s *codeScan) byte() byte {
	if s.pos >= s.end {
		s.fail("function %d has no end", s.index)
		return 0
	}
	s.pos++
	return s.m.wasm[s.pos-1]
}

func (s *codeScan) skip(n int) {
	if s.end-s.pos < n {
		s.fail("function %d has no end", s.index)
		return
	}
	s.pos += n
}

// within checks an index against the size of its space in the original module.
func (s *codeScan) within(index uint32, n uint64, what string) bool {
	if uint64(index) >= n {
		s.fail("function %d uses %s %d, but there are %d", s.index, what, index, n)
	}
	return s.err == nil
}

func (s *codeScan) zero() {
	if b := s.byte(); b != 0 {
		s.fail("function %d uses memory %d, but WebAssembly 2.0 has one", s.index, b)
	}
}

// next reads one instruction.
func (s *codeScan) next() {
	if s.tooLong() {
		s.lookHere()
	}
	at := s.pos
	op := s.byte()
	if s.err != nil {
		return
	}
	s.countValues(op)
	ins := plainOps[op]
	switch ins.operands {
	case opsNone:
		if ins.cost == costDivide {
			s.shape.divides++
		}
	case opsLocal:
		s.shape.reads++
		i := s.u32()
		if s.within(i, s.locals, "local") && s.cross.on {
			s.cross.access(op, i)
		}
		if op == opLocalSet && at == s.constEnd {
			s.setLocal, s.setEnd = i, s.pos
		}
	case opsI32:
		s.constant = int32(s.signed(32))
		s.constEnd = s.pos
	case opsMemArg:
		s.shape.memory++
		s.u32()
		s.u32()
	case opsGlobal:
		s.shape.reads++
		s.within(s.u32(), uint64(len(s.m.Globals)), "global")
	case opsCall:
		s.call(ins)
		return
	case opsMisc, opsVector:
		ins = s.prefixed(at, op)
	case opsBlock, opsElse, opsEnd, opsLabel, opsLabels, opsReturn, opsStop:
		s.pay(ins.cost)
		s.grow(int32(ins.grows))
		s.control(at, op, ins)
		return
	default:
		s.operands(at, op, ins)
	}
	s.pay(ins.cost)
	s.grow(int32(ins.grows))
	if ins.operands == opsIndirect {
		s.cameBack(cheapLeaf, true)
	}
}

// pay adds the cost of an instruction to the current point.
func (s *codeScan) pay(cost uint16) { s.payLong(uint32(cost)) }

// payLong is pay for a cost without a small bound.
func (s *codeScan) payLong(cost uint32) {
	if s.live {
		s.points[s.cur].cost += cost
		s.unseen.cost += uint64(cost)
	}
}

// payCrossing adds the cost of values that cross a merge, or that a call passes.
func (s *codeScan) payCrossing(values int) {
	s.payLong(uint32(beyondFree(values)) * costCross)
}

// payCall adds the cost of the values that a call passes, and of the globals that
// the compiler reads again after it.
func (s *codeScan) payCall(f FuncType) {
	s.payCrossing(len(f.Params) + len(f.Results))
	s.payLong(uint32(beyondFree(s.reloaded)) * costReload)
}

// grow changes the height of the operand stack.
func (s *codeScan) grow(n int32) {
	if s.live {
		s.height += n
		s.top = max(s.top, s.height)
	}
}

// pass takes a function's parameters from the operand stack and puts its
// results there.
func (s *codeScan) pass(f FuncType) {
	if s.live {
		s.made += int64(len(f.Results))
	}
	s.grow(-int32(len(f.Params)))
	s.grow(int32(len(f.Results)))
}

// edit notes a change; dead code needs only changes of indices.
func (s *codeScan) edit(at, skip int, kind editKind, arg uint32) {
	if s.live || kind == editIndex {
		s.edits = append(s.edits, edit{at: int32(at), skip: int32(skip), kind: kind, arg: arg})
	}
}

func (s *codeScan) call(ins instruction) {
	at := s.pos
	f := s.u32()
	if !s.within(f, uint64(len(s.m.funcs)), "function") {
		return
	}
	s.reindex(at, f)
	s.pass(s.m.Signature(f))
	s.shape.calls++
	s.pay(ins.cost)
	s.payCall(s.m.Signature(f))
	s.straight = false
	if int(f) < s.m.imported[ExternFunc] {
		s.pay(costImport)
		return
	}
	s.calls = s.calls || s.live
	cost, leaf := s.leaves[int(f)]
	s.cameBack(cost, !leaf)
}

// reindex notes that the function index at the given place changes, if it does.
func (s *codeScan) reindex(at int, f uint32) {
	if to := s.remap(f); to != f {
		s.edit(at, s.pos-at, editIndex, to)
	}
}

// operands reads the operands of the rarer one-byte opcodes.
func (s *codeScan) operands(at int, op byte, ins instruction) {
	switch ins.operands {
	case opsI64:
		s.signed(64)
	case opsF32:
		s.skip(4)
	case opsF64:
		s.skip(8)
	case opsIndirect:
		if i := s.u32(); s.within(i, uint64(len(s.m.Types)), "type") {
			s.pass(s.m.Types[i])
			s.payCall(s.m.Types[i])
		}
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		if s.m.importRefs {
			s.pay(costImport)
		}
		s.straight = false
		s.calls = s.calls || s.live
		s.shape.calls++
		s.shape.tables++
	case opsTableWrite:
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		s.keepsState = true
		s.shape.tables++
	case opsTable:
		s.shape.tables++
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
	case opsMemory:
		s.zero()
	case opsMemGrow:
		s.zero()
		s.bulk(at, editGrow, costPage)
	case opsTypes:
		for n := s.u32(); n > 0 && s.err == nil; n-- {
			if t := s.byte(); s.err == nil && !isValueType(t) {
				s.fail("function %d selects type 0x%02x, which is not WebAssembly 2.0", s.index, t)
			}
		}
	case opsRefType:
		if t := s.byte(); s.err == nil && !isRefType(t) {
			s.fail("function %d makes a null of type 0x%02x, which is not WebAssembly 2.0", s.index, t)
		}
	case opsFunc:
		from := s.pos
		f := s.u32()
		s.within(f, uint64(len(s.m.funcs)), "function")
		s.reindex(from, f)
	default:
		s.illegal(at, op)
	}
}

// bulk notes that the length on the stack is charged before the instruction at
// the given place.
func (s *codeScan) bulk(at int, kind editKind, weight uint32) {
	s.straight = false
	s.shape.bulk++
	s.edit(at, 0, kind, weight)
}

// illegal refuses an opcode and names the later feature that it probably belongs to.
func (s *codeScan) illegal(at int, op byte) {
	if s.err != nil {
		return
	}
	what, hint := "", ""
	switch {
	case op == 0xfe:
		what, hint = "threads", "build without threads and atomics"
	case op >= 0x06 && op <= 0x0a || op == 0x18 || op == 0x19 || op == 0x1f:
		what, hint = "exceptions", "build without exception handling, for example with -fno-exceptions or panic=abort"
	case op == 0x12 || op == 0x13:
		what, hint = "tail calls", "build without tail calls, for example with -mno-tail-call"
	case op == 0x14 || op == 0x15 || op >= 0xd3 && op <= 0xd6 || op == 0xfb:
		what, hint = "typed references or garbage collection", "build for WebAssembly 2.0"
	default:
		s.fail("function %d has the unknown instruction 0x%02x", s.index, op)
		return
	}
	s.err = refusal.Unsupported("function %d uses %s (instruction 0x%02x at byte %d), which this host does not run", s.index, what, op, at).WithHint("%s", hint)
}

// prefixed reads an instruction after 0xfc or 0xfd.
func (s *codeScan) prefixed(at int, op byte) instruction {
	if op == 0xfd {
		return s.vector(at)
	}
	sub := s.u32()
	if s.err == nil && sub >= uint32(len(miscOps)) {
		s.fail("function %d has the unknown instruction 0xfc %d", s.index, sub)
	}
	if s.err != nil {
		return instruction{}
	}
	s.misc(at, miscOps[sub].operands)
	return miscOps[sub]
}

func (s *codeScan) misc(at int, ops operands) {
	switch ops {
	case opsMemInit:
		segment := s.segment("data segment", s.m.dataCount)
		s.zero()
		s.usesSegments = true
		s.initialise(at, segment)
	case opsDataDrop:
		s.segment("data segment", s.m.dataCount)
		s.usesSegments, s.keepsState = true, true
	case opsMemCopy:
		s.zero()
		s.zero()
		s.inPieces(at, editCopy, 0)
	case opsMemFill:
		s.zero()
		s.inPieces(at, editFill, 0)
	case opsTableInit:
		s.segment("element segment", int64(s.m.Elements))
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		s.tableWrite(at, editBulk)
	case opsElemDrop:
		s.segment("element segment", int64(s.m.Elements))
		s.keepsState = true
	case opsTableCopy:
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		s.tableWrite(at, editBulk)
	case opsTableFill:
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		s.tableWrite(at, editBulk)
	case opsTableGrow:
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
		s.tableWrite(at, editGrow)
	case opsTableSize:
		s.within(s.u32(), uint64(len(s.m.Tables)), "table")
	}
}

func (s *codeScan) tableWrite(at int, kind editKind) {
	s.keepsState = true
	s.bulk(at, kind, costEntry)
}

// segment checks the index of a segment; n is -1 if the module has not declared the
// number of its segments, and then it may not name any.
func (s *codeScan) segment(what string, n int64) uint32 {
	segment := s.u32()
	s.within(segment, uint64(max(n, 0)), what)
	return segment
}

// initialise notes the edit for a memory.init: with a segment no longer than a piece it
// is charged by its length, otherwise it is done in pieces.
func (s *codeScan) initialise(at int, segment uint32) {
	if int64(segment) < int64(len(s.m.Data)) && s.m.Data[segment].bytes.size() > s.limits.bulkPiece {
		s.inPieces(at, editInit, segment)
		return
	}
	s.bulk(at, editBulk, costByte)
}

// inPieces notes that the instruction at the given place, which was just read,
// becomes a call of a bulk helper.
func (s *codeScan) inPieces(at int, kind editKind, segment uint32) {
	s.straight = false
	s.shape.calls++
	s.edit(at, s.pos-at, kind, segment)
}

// vector reads an instruction after 0xfd. It accepts the opcode's number only in its
// shortest form, because wazero reads only the first byte.
func (s *codeScan) vector(at int) instruction {
	sub := s.byte()
	if sub >= 0x80 && s.byte() != 1 || vectorOps[sub].operands == opsIllegal {
		s.fail("function %d has an unknown vector instruction at byte %d", s.index, at)
		return instruction{}
	}
	switch vectorOps[sub].operands {
	case opsMemArg:
		s.u32()
		s.u32()
	case opsMemArgLane:
		s.u32()
		s.u32()
		s.skip(1)
	case opsLane:
		s.skip(1)
	case ops16:
		s.skip(16)
	}
	return vectorOps[sub]
}
