package wasmmeter

// Bulk memory operations in pieces.
//
// memory.fill, memory.copy and memory.init are one instruction each, however
// many bytes they touch, and nothing interrupts one: 64 MiB of memory that was
// never touched take tens of milliseconds, because the system has to find the
// pages. So a call of one of them becomes a call of a function that the pass
// adds, which does in one instruction what is no longer than a piece, and
// anything longer piece by piece, with a charge and a look before each.
//
// What can be seen from inside the guest stays the same:
//
//   - The bounds of the whole are checked before the first piece. What is out of
//     them goes to the instruction in one, which traps and writes nothing; as
//     does one whose data segment was dropped, with the first piece.
//   - A copy goes upwards if it moves bytes down, and downwards if it moves them
//     up, so that no piece writes over what another has yet to read.
//   - The charge is the sum of the pieces' charges, which is that of the whole,
//     because a piece is an even number of bytes.
//
// Short operations cost what they did: where there is a call of this function now
// there was one that charged. Tables have no such functions: table.fill,
// table.copy and table.init move eight bytes for each of at most TableEntries
// entries, under a megabyte. memory.grow only reserves: the pages come when they
// are touched.

// bulkPiece is how many bytes a bulk memory operation touches between two looks:
// under half a millisecond even where each page is new. It is even, for
// costByte's sake.
const bulkPiece = 256 << 10

// bulkHelper is a function that the pass adds for a bulk memory operation.
type bulkHelper struct {
	kind    editKind
	segment uint32 // of editInit
}

// The parameters of a bulk helper, in the order of the instruction's operands.
const (
	bulkTo     = 0 // where bytes go
	bulkFrom   = 1 // where they come from; of a fill, their value
	bulkLength = 2
)

// helper returns the index of a function that is added for a bulk memory
// operation, relative to meter.check.
func (t *meter) helper(kind editKind, segment uint32) uint32 {
	h := bulkHelper{kind, segment}
	n, ok := t.helperAt[h]
	if !ok {
		n = addedFuncs + uint32(len(t.helpers))
		t.helpers, t.helperAt[h] = append(t.helpers, h), n
	}
	return n
}

// name is what stack traces show.
func (h bulkHelper) name() string {
	switch h.kind {
	case editFill:
		return exportPrefix + "fill"
	case editCopy:
		return exportPrefix + "copy"
	}
	return exportPrefix + "init"
}

// helperCode writes a helper: what is too long and within bounds in pieces, and
// then what is left, or all of it.
func (t *meter) helperCode(h bulkHelper) []byte {
	f := []byte{0, opBlock, blockEmpty}
	f = appendConst(append(f, opLocalGet, bulkLength), opI32Const, t.piece())
	f = append(f, opI32LeU, opBrIf, 0)
	f = t.beyondMemory(f, bulkTo)
	switch h.kind {
	case editFill:
		f = t.pieces(f, h, bulkTo)
	case editInit:
		f = sum(f, bulkFrom)
		f = appendConst(f, opI64Const, int64(t.m.Data[h.segment].bytes.size()))
		f = append(f, opI64GtU, opBrIf, 0)
		f = t.pieces(f, h, bulkTo, bulkFrom)
	case editCopy:
		f = t.beyondMemory(f, bulkFrom)
		f = append(f, opLocalGet, bulkTo, opLocalGet, bulkFrom, opI32LeU, opIf, blockEmpty)
		f = append(t.pieces(f, h, bulkTo, bulkFrom), opElse)
		f = append(t.piecesDown(f, h), opEnd)
	}
	f = append(f, opEnd)
	f = t.pay(f, []byte{opLocalGet, bulkLength, opI64ExtU, opI64Const, costByte, opI64Mul, opI64Const, costShift, opI64ShrU})
	f = append(f, opLocalGet, bulkTo, opLocalGet, bulkFrom, opLocalGet, bulkLength)
	return append(h.instruction(f), opEnd)
}

// beyondMemory leaves the innermost block if the range that begins at the
// address in a local ends outside memory.
func (t *meter) beyondMemory(f []byte, local byte) []byte {
	f = append(sum(f, local), opMemorySize, 0, opI64ExtU, opI64Const, 16, opI64Shl)
	return append(f, opI64GtU, opBrIf, 0)
}

// sum adds the length to a local, as 64 bits.
func sum(f []byte, local byte) []byte {
	return append(f, opLocalGet, local, opI64ExtU, opLocalGet, bulkLength, opI64ExtU, opI64Add)
}

// pieces does pieces from the lowest address up until no more than one is left.
// The moving locals go along.
func (t *meter) pieces(f []byte, h bulkHelper, moving ...byte) []byte {
	f = t.payPiece(append(f, opLoop, blockEmpty))
	f = append(f, opLocalGet, bulkTo, opLocalGet, bulkFrom)
	f = h.instruction(appendConst(f, opI32Const, t.piece()))
	for _, local := range moving {
		f = t.step(f, local, opI32Add)
	}
	return t.again(t.step(f, bulkLength, opI32Sub))
}

// piecesDown does pieces of a copy from the highest address down until no more
// than one is left.
func (t *meter) piecesDown(f []byte, h bulkHelper) []byte {
	f = t.payPiece(append(f, opLoop, blockEmpty))
	f = t.step(f, bulkLength, opI32Sub)
	f = append(f, opLocalGet, bulkTo, opLocalGet, bulkLength, opI32Add)
	f = append(f, opLocalGet, bulkFrom, opLocalGet, bulkLength, opI32Add)
	return t.again(h.instruction(appendConst(f, opI32Const, t.piece())))
}

// step moves a local by a piece.
func (t *meter) step(f []byte, local, op byte) []byte {
	return append(appendConst(append(f, opLocalGet, local), opI32Const, t.piece()), op, opLocalSet, local)
}

// again ends a loop that goes on while more than a piece is left.
func (t *meter) again(f []byte) []byte {
	f = appendConst(append(f, opLocalGet, bulkLength), opI32Const, t.piece())
	return append(f, opI32GtU, opBrIf, 0, opEnd)
}

func (t *meter) piece() int64 { return int64(t.limits.bulkPiece) }

// payPiece charges a piece and looks.
func (t *meter) payPiece(f []byte) []byte {
	return t.look(t.charge(f, uint32(t.piece())*costByte>>costShift), false)
}

// instruction writes the instruction itself.
func (h bulkHelper) instruction(f []byte) []byte {
	switch h.kind {
	case editFill:
		return append(f, opMisc, miscMemoryFill, 0)
	case editCopy:
		return append(f, opMisc, miscMemoryCopy, 0, 0)
	}
	return append(appendU32(append(f, opMisc, miscMemoryInit), h.segment), 0)
}

func appendConst(f []byte, op byte, v int64) []byte { return appendS64(append(f, op), v) }
