package wasmmeter

// Bulk memory operations in pieces.
//
// memory.fill, memory.copy and memory.init are one instruction each, however many bytes
// they touch, and nothing interrupts one: 64 MiB of untouched memory take tens of
// milliseconds, because the system has to find the pages. So each of them becomes a
// call of a function that the pass adds. It does a range no longer than a piece in one
// instruction, and a longer one piece by piece, with a charge and a fuel check before
// each.
//
// The guest sees no difference:
//
//   - The bounds of the whole range are checked before the first piece. A range out of
//     bounds goes to the instruction whole, which traps and writes nothing; if the data
//     segment was dropped, the first piece does.
//   - A copy goes upwards if it moves bytes down, and downwards if it moves them
//     up, so that no piece overwrites bytes that another has yet to read.
//   - The charge is the sum of the pieces' charges, which equals the charge of the
//     whole, because a piece is an even number of bytes.
//
// Short operations are as fast as without pieces: the call of this function replaces a
// call that charged. Tables have no such functions: table.fill, table.copy and
// table.init move eight bytes for each of at most TableEntries entries, under a
// megabyte. memory.grow only reserves: the pages come when they are touched.

// bulkPiece is how many bytes a bulk memory operation touches between two fuel checks:
// under half a millisecond even where each page is new. It is even, so that costByte
// charges whole units.
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

// name returns the helper's name in stack traces.
func (h bulkHelper) name() string {
	switch h.kind {
	case editFill:
		return exportPrefix + "fill"
	case editCopy:
		return exportPrefix + "copy"
	}
	return exportPrefix + "init"
}

// helperCode writes a helper: a range that is too long and within bounds is done in
// pieces, then the rest of it, or any other range, in one instruction.
func (t *meter) helperCode(h bulkHelper) []byte {
	f := []byte{0, opBlock, blockEmpty}
	f = appendConst(append(f, opLocalGet, bulkLength), opI32Const, int64(t.piece()))
	f = append(f, opI32LeU, opBrIf, 0)
	f = beyondMemory(f, bulkTo)
	switch h.kind {
	case editFill:
		f = t.pieces(f, h, bulkTo)
	case editInit:
		f = sum(f, bulkFrom)
		f = appendConst(f, opI64Const, int64(t.m.Data[h.segment].bytes.size()))
		f = append(f, opI64GtU, opBrIf, 0)
		f = t.pieces(f, h, bulkTo, bulkFrom)
	case editCopy:
		f = beyondMemory(f, bulkFrom)
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
func beyondMemory(f []byte, local byte) []byte {
	f = append(sum(f, local), opMemorySize, 0, opI64ExtU, opI64Const, 16, opI64Shl)
	return append(f, opI64GtU, opBrIf, 0)
}

// sum adds the length to a local, as 64 bits.
func sum(f []byte, local byte) []byte {
	return append(f, opLocalGet, local, opI64ExtU, opLocalGet, bulkLength, opI64ExtU, opI64Add)
}

// pieces does pieces from the lowest address up until no more than one is left, and
// advances the moving locals.
func (t *meter) pieces(f []byte, h bulkHelper, moving ...byte) []byte {
	f = t.payPiece(append(f, opLoop, blockEmpty))
	f = append(f, opLocalGet, bulkTo, opLocalGet, bulkFrom)
	f = h.instruction(appendConst(f, opI32Const, int64(t.piece())))
	for _, local := range moving {
		f = t.piece().step(f, local, opI32Add)
	}
	return t.piece().again(t.piece().step(f, bulkLength, opI32Sub))
}

// piecesDown does pieces of a copy from the highest address down until no more
// than one is left.
func (t *meter) piecesDown(f []byte, h bulkHelper) []byte {
	f = t.payPiece(append(f, opLoop, blockEmpty))
	f = t.piece().step(f, bulkLength, opI32Sub)
	f = append(f, opLocalGet, bulkTo, opLocalGet, bulkLength, opI32Add)
	f = append(f, opLocalGet, bulkFrom, opLocalGet, bulkLength, opI32Add)
	return t.piece().again(h.instruction(appendConst(f, opI32Const, int64(t.piece()))))
}

// pieceSize is how many bytes a piece has.
type pieceSize int64

// step moves a local by a piece.
func (n pieceSize) step(f []byte, local, op byte) []byte {
	return append(appendConst(append(f, opLocalGet, local), opI32Const, int64(n)), op, opLocalSet, local)
}

// again ends a loop that repeats while more than a piece is left.
func (n pieceSize) again(f []byte) []byte {
	f = appendConst(append(f, opLocalGet, bulkLength), opI32Const, int64(n))
	return append(f, opI32GtU, opBrIf, 0, opEnd)
}

func (t *meter) piece() pieceSize { return pieceSize(t.limits.bulkPiece) }

// payPiece charges a piece and checks the fuel.
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
