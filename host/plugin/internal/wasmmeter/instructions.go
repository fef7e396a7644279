package wasmmeter

// This file lists every instruction of WebAssembly 2.0: the operands of its opcode, and
// its price. Other opcodes are refused, so nothing later than 2.0 (threads, exceptions,
// tail calls, typed references) runs.

// operands says which operands follow an opcode.
type operands uint8

const (
	opsIllegal  operands = iota // not an instruction of WebAssembly 2.0
	opsNone                     // nothing
	opsBlock                    // a block type
	opsElse                     // nothing; control
	opsEnd                      // nothing; control
	opsLabel                    // a label: br, br_if
	opsLabels                   // a vector of labels and one more: br_table
	opsReturn                   // nothing; control
	opsStop                     // nothing; control: unreachable
	opsCall                     // a function
	opsIndirect                 // a type and a table
	opsLocal                    // a local
	opsGlobal                   // a global
	opsTable                    // a table
	opsMemArg                   // alignment and offset
	opsMemory                   // a zero byte: memory.size
	opsMemGrow                  // a zero byte: memory.grow
	opsI32                      // a signed 32-bit number
	opsI64                      // a signed 64-bit number
	opsF32                      // four bytes
	opsF64                      // eight bytes
	opsTypes                    // a vector of value types: select
	opsRefType                  // a reference type: ref.null
	opsFunc                     // a function: ref.func
	opsMisc                     // a second opcode: prefix 0xfc
	opsVector                   // a second opcode: prefix 0xfd

	// After prefix 0xfc.
	opsMemInit    // a data segment and a zero byte
	opsDataDrop   // a data segment
	opsMemCopy    // two zero bytes
	opsMemFill    // a zero byte
	opsTableInit  // an element segment and a table
	opsElemDrop   // an element segment
	opsTableCopy  // two tables
	opsTableGrow  // a table
	opsTableSize  // a table
	opsTableFill  // a table
	opsTableWrite // a table: table.set

	// After prefix 0xfd.
	opsLane       // a lane: one byte
	opsMemArgLane // alignment, offset, lane
	ops16         // sixteen bytes: v128.const, i8x16.shuffle
)

// Opcodes that the metering pass writes or looks for.
const (
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opCall         = 0x10
	opDrop         = 0x1a
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opMemorySize   = 0x3f
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32GtU       = 0x4b
	opI32LeU       = 0x4d
	opI64LtS       = 0x53
	opI64GtU       = 0x56
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Mul       = 0x7e
	opI64Or        = 0x84
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtU      = 0xad
	opRefFunc      = 0xd2
	opVector       = 0xfd
	opMisc         = 0xfc // and one of the following
	miscMemoryInit = 8
	miscMemoryCopy = 10
	miscMemoryFill = 11
	blockEmpty     = 0x40
	funcForm       = 0x60
)

// instruction is a row of the tables below.
type instruction struct {
	operands operands
	cost     uint16
	grows    int8 // change of the operand stack's height, where it is fixed
}

// PriceVersion is the version of the prices of instructions, and changes with them:
// the same call may cost a different number of units under another version, so every
// usage report has it. Version 1 had no price for loops and for values that cross
// merges.
const PriceVersion = 2

// Prices in units; an instruction that is not listed costs 1, and one without effect at
// run time (block, else, end, nop) costs 0. With wazero's compiler a plain instruction
// takes 0.1 to 0.3 ns, because a stack machine's gets and constants become operands.
// The prices need only be right to a factor of a few: they bound the time that a unit
// can take, so that a quantum of units is a quantum of time.
const (
	costCall     = 5   // a call
	costIndirect = 10  // a call through a table
	costImport   = 300 // a call of the host, on top of costCall or costIndirect: it leaves compiled code
	costDivide   = 10  // division, remainder, square root
	costBulk     = 10  // a bulk operation, before its length
	costLoop     = 1   // an iteration of a loop, the first too: it checks the fuel
	costCross    = 2   // a value beyond freeCrossing that crosses a merge, or that a call passes: a copy in memory
	costReload   = 1   // a mutable global beyond freeCrossing, after a call
	costLeave    = 500 // memory.grow, table.grow, ref.func: they leave compiled code

	// Lengths are counted in sixteenths of a unit.
	costByte  = 8       // per byte filled, copied or initialised
	costEntry = 160     // per table entry
	costPage  = 1 << 20 // per page of 64 KiB that memory grows by
	costShift = 4       // from sixteenths to units
)

// plainOps are the one-byte opcodes.
var plainOps = plainInstructions()

func plainInstructions() (ops [256]instruction) {
	set := func(from, to int, o operands, cost uint16, grows int8) {
		for op := from; op <= to; op++ {
			ops[op] = instruction{o, cost, grows}
		}
	}
	set(0x00, 0x00, opsStop, 1, 0)
	set(0x01, 0x01, opsNone, 0, 0)
	set(0x02, 0x03, opsBlock, 0, 0)
	set(0x04, 0x04, opsBlock, 1, -1) // if
	set(0x05, 0x05, opsElse, 0, 0)
	set(0x0b, 0x0b, opsEnd, 0, 0)
	set(0x0c, 0x0c, opsLabel, 1, 0)
	set(0x0d, 0x0d, opsLabel, 1, -1) // br_if
	set(0x0e, 0x0e, opsLabels, 2, -1)
	set(0x0f, 0x0f, opsReturn, 1, 0)
	set(0x10, 0x10, opsCall, costCall, 0)
	set(0x11, 0x11, opsIndirect, costIndirect, -1)
	set(0x1a, 0x1a, opsNone, 1, -1)  // drop
	set(0x1b, 0x1b, opsNone, 1, -2)  // select
	set(0x1c, 0x1c, opsTypes, 1, -2) // select with a type
	set(0x20, 0x20, opsLocal, 1, 1)
	set(0x21, 0x21, opsLocal, 1, -1)
	set(0x22, 0x22, opsLocal, 1, 0)
	set(0x23, 0x23, opsGlobal, 1, 1)
	set(0x24, 0x24, opsGlobal, 1, -1)
	set(0x25, 0x25, opsTable, 1, 0)
	set(0x26, 0x26, opsTableWrite, 1, -2)
	set(0x28, 0x35, opsMemArg, 1, 0)  // loads
	set(0x36, 0x3e, opsMemArg, 1, -2) // stores
	set(0x3f, 0x3f, opsMemory, 1, 1)
	set(0x40, 0x40, opsMemGrow, costLeave, 0)
	set(0x41, 0x41, opsI32, 1, 1)
	set(0x42, 0x42, opsI64, 1, 1)
	set(0x43, 0x43, opsF32, 1, 1)
	set(0x44, 0x44, opsF64, 1, 1)
	set(0x45, 0xc4, opsNone, 1, 0)  // tests, conversions, sign extensions, and for now all arithmetic
	set(0x46, 0x4f, opsNone, 1, -1) // i32 comparisons
	set(0x51, 0x66, opsNone, 1, -1) // i64, f32 and f64 comparisons
	set(0x6a, 0x78, opsNone, 1, -1) // i32 arithmetic with two operands
	set(0x7c, 0x8a, opsNone, 1, -1) // i64
	set(0x92, 0x98, opsNone, 1, -1) // f32
	set(0xa0, 0xa6, opsNone, 1, -1) // f64
	for _, op := range []int{0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x91, 0x95, 0x9f, 0xa3} {
		ops[op].cost = costDivide
	}
	set(0xd0, 0xd0, opsRefType, 1, 1)
	set(0xd1, 0xd1, opsNone, 1, 0)
	set(0xd2, 0xd2, opsFunc, costLeave, 1)
	set(0xfc, 0xfc, opsMisc, 0, 0)
	set(0xfd, 0xfd, opsVector, 0, 0)
	return ops
}

// miscOps are the opcodes after 0xfc.
var miscOps = [18]instruction{
	0: {opsNone, 1, 0}, 1: {opsNone, 1, 0}, 2: {opsNone, 1, 0}, 3: {opsNone, 1, 0},
	4: {opsNone, 1, 0}, 5: {opsNone, 1, 0}, 6: {opsNone, 1, 0}, 7: {opsNone, 1, 0},
	8: {opsMemInit, costBulk, -3}, 9: {opsDataDrop, 1, 0}, 10: {opsMemCopy, costBulk, -3}, 11: {opsMemFill, costBulk, -3},
	12: {opsTableInit, costBulk, -3}, 13: {opsElemDrop, 1, 0}, 14: {opsTableCopy, costBulk, -3},
	15: {opsTableGrow, costLeave, -1}, 16: {opsTableSize, 1, 1}, 17: {opsTableFill, costBulk, -3},
}

// vectorOps are the opcodes after 0xfd.
var vectorOps = vectorInstructions()

// vectorInstructions leaves grows 0 for the many operations with two operands,
// so that the height of a stack with vectors is an upper bound.
func vectorInstructions() (ops [256]instruction) {
	set := func(from, to int, o operands, grows int8) {
		for op := from; op <= to; op++ {
			ops[op] = instruction{o, 1, grows}
		}
	}
	set(0x00, 0xff, opsNone, 0)
	set(0x00, 0x0a, opsMemArg, 0) // loads
	set(0x0b, 0x0b, opsMemArg, -2)
	set(0x0c, 0x0c, ops16, 1)   // v128.const
	set(0x0d, 0x0d, ops16, -1)  // i8x16.shuffle
	set(0x15, 0x22, opsLane, 0) // extract and replace
	set(0x54, 0x57, opsMemArgLane, -1)
	set(0x58, 0x5b, opsMemArgLane, -2)
	set(0x5c, 0x5d, opsMemArg, 0) // loads
	for _, op := range []int{0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb, 0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee} {
		ops[op].operands = opsIllegal
	}
	for _, op := range []int{0xe3, 0xe7, 0xef, 0xf3} { // square roots and divisions
		ops[op].cost = costDivide
	}
	return ops
}
