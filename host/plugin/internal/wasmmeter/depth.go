package wasmmeter

// How deep a guest recursed, in calls and in bytes of stack.
//
// wazero keeps every value that does not fit into a register in a slot of its own
// in the frame of its function, so a frame's size depends on the values that the
// function produces, not on its locals: 8 kB of code have frames of 10 kB and more. The
// depth counter therefore holds two counts in one i64, for the price of one: the
// weights of limit CallDepth in its low bits, and units of stack above them. The
// counter's sign is that of the units, so the existing check detects when they are used
// up. Each frame takes at least as many units as it has weight, so a host that grants
// no more units than weight is left detects both (see callStack in the package plugin).

const (
	// depthBits is how many bits of the depth counter count weights, with a sign.
	depthBits = 24
	// MaxCallDepth is the effective maximum of the limit CallDepth: frames of that many
	// functions need more stack than wazero has.
	MaxCallDepth = 1 << (depthBits - 2)
	// StackUnit is how many bytes of stack a unit is.
	StackUnit = 64

	// valueBytes is the size of a value in a frame; a vector takes two.
	valueBytes = 8
	// frameBytes is the fixed size of every frame: return address, saved registers.
	frameBytes = 128
	// miscValues is how many values an instruction that compiles to a loop produces.
	miscValues = 16
)

// PackDepth makes a depth counter of weights and units of stack.
func PackDepth(calls, units int64) int64 { return units<<depthBits + calls }

// UnpackDepth is the inverse of [PackDepth]; calls below zero say that the limit
// CallDepth is exceeded.
func UnpackDepth(depth int64) (calls, units int64) {
	calls = depth << (64 - depthBits) >> (64 - depthBits)
	return calls, (depth - calls) >> depthBits
}

// frameEstimate estimates how many bytes of stack the function that was scanned last
// takes when compiled; for nearly all functions it is too high. It adds the values that
// instructions produce, the declared locals, and the merges of a local's values. The
// host compares it with the stack that a call takes in fact.
func (s *codeScan) frameEstimate() int64 {
	values := s.made + 2*s.sets + int64(s.locals)
	values += int64(s.shape.loops) * min(s.sets, int64(s.locals))
	if s.vectors {
		values *= 2
	}
	return frameBytes + valueBytes*values
}

// depthWeight returns how much the function that was scanned last takes of the depth
// counter while it runs.
func (s *codeScan) depthWeight() int64 {
	calls := s.frameWeight()
	return PackDepth(calls, max(calls, (s.frameEstimate()+StackUnit-1)/StackUnit))
}

// countValues counts the values that an instruction produces.
func (s *codeScan) countValues(op byte) {
	if !s.live {
		return
	}
	switch op {
	case opLocalGet, opI32Const, opI64Const, opDrop, opBlock, opEnd, opBr:
	case opLocalSet, opLocalTee:
		s.sets++
	case opMisc:
		s.made += miscValues
	case opVector:
		s.made, s.vectors = s.made+1, true
	default:
		s.made++
	}
}
