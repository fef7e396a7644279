package wasmmeter

import (
	"math"
	"strconv"
)

// This file follows control through a function: it finds which code can be reached, and
// to which charge the code belongs.

// control reads the operands of a control instruction and follows it.
func (s *codeScan) control(at int, op byte, ins instruction) {
	switch ins.operands {
	case opsBlock:
		s.open(at, op, s.blockType())
	case opsElse:
		s.otherwise()
	case opsEnd:
		s.close()
	case opsLabel:
		if label := s.u32(); op == opBr {
			s.branch(s.straighten(at, label))
			s.stop()
		} else {
			s.branch(label)
			s.blocks(2)
			s.newPoint(editCharge, s.cur)
		}
	case opsLabels:
		n := s.u32()
		if s.shape.labels += int(n) + 1; s.shape.labels > s.limits.TableLabels {
			s.err = tooMany("function "+strconv.Itoa(s.index)+" has", s.shape.labels, "entries in jump tables", s.limits.TableLabels)
		}
		for i := uint64(0); i <= uint64(n) && s.err == nil; i++ {
			s.branch(s.u32())
			s.weigh(1)
		}
		s.stop()
	case opsReturn:
		s.returns = s.returns || s.live
		s.edit(at, 1, editReturn, uint32(len(s.frames)-1))
		s.leave(0)
		s.stop()
	case opsStop:
		s.stop()
	}
}

// stop notes that control does not reach the code that follows.
func (s *codeScan) stop() {
	s.live = false
	if s.cross.on {
		s.cross.join(crossStop, 0)
	}
}

// blocks notes that the compiler makes basic blocks here.
func (s *codeScan) blocks(n int) {
	s.shape.blocks += n
	s.weigh(n)
}

// weigh notes that the locals and operands live here are live in n basic blocks.
func (s *codeScan) weigh(n int) {
	if !s.live {
		return
	}
	s.shape.live += float64(n) * float64(beyondFree(int(s.height)))
	if s.cross.on {
		s.cross.join(crossBlocks, uint32(n))
	}
}

// blockType reads the type of a block (nothing, one result, or a type's index)
// and returns how many parameters and results it has.
func (s *codeScan) blockType() (arity [2]int32) {
	v := s.signed(33)
	switch {
	case s.err != nil:
	case v >= 0:
		if s.within(uint32(v), uint64(len(s.m.Types)), "type") {
			arity = [2]int32{int32(len(s.m.Types[v].Params)), int32(len(s.m.Types[v].Results))}
		}
	case v == blockEmpty-0x80:
	case v > blockEmpty-0x80 && isValueType(byte(v+0x80)):
		arity[1] = 1
	default:
		s.fail("function %d has a block of an unknown type", s.index)
	}
	return arity
}

// open begins a block, loop or if with the given numbers of parameters and
// results.
func (s *codeScan) open(at int, op byte, arity [2]int32) {
	if op == opLoop && s.live && s.straight && len(s.jumps.labels) == 0 {
		s.jumps.find(s.m.wasm, span{at, s.end}, len(s.frames))
	}
	if op == opIf {
		s.payCrossing(int(arity[0])) // to each of its branches
	}
	id := int32(s.opened)
	s.opened++
	s.frames = append(s.frames, frame{op: op, live: s.live, entry: at < s.jumps.end, id: id, point: s.cur, outside: math.MaxInt32,
		base: s.height - arity[0], params: arity[0], results: arity[1], around: s.unseen})
	s.blocks(int(op - opBlock + 1))
	if s.cross.on {
		s.cross.open(op)
	}
	if s.shape.deepest = max(s.shape.deepest, len(s.frames)); s.shape.deepest > s.limits.Nesting && s.err == nil {
		s.err = tooMany("function "+strconv.Itoa(s.index)+" nests", s.shape.deepest, "blocks", s.limits.Nesting)
	}
	if op == opBlock {
		return
	}
	if op == opLoop && s.live {
		s.loopNest++
		s.shape.loops++
		s.shape.nested = max(s.shape.nested, s.loopNest)
		if s.straight && s.points[0].cost <= cheapLeaf {
			s.firstLoop = len(s.edits)
		}
	}
	s.straight = false
	if op == opLoop {
		s.look()
		s.weigh(3) // the fuel check is an if with a call in it
		s.pay(costLoop)
		s.payCrossing(s.cross.of(id) + int(arity[0]))
	} else {
		s.newPoint(editCharge, s.cur)
	}
}

// newPoint starts a point, to which the code that follows belongs.
func (s *codeScan) newPoint(kind editKind, over int32) {
	if !s.live {
		return
	}
	s.straight = false
	s.cur = int32(len(s.points))
	s.points = append(s.points, point{over: over})
	s.edit(s.pos, 0, kind, uint32(s.cur))
}

// otherwise begins the else branch of an if.
func (s *codeScan) otherwise() {
	f := &s.frames[len(s.frames)-1]
	if f.op != opIf {
		s.fail("function %d has an else without an if", s.index)
		return
	}
	f.op, f.thenLive = opElse, s.live
	if s.cross.on {
		s.cross.otherwise(f.id)
	}
	if s.live {
		f.out.join(s.unseen)
	}
	s.live, s.height, s.unseen = f.live, f.base+f.params, f.around
	s.newPoint(editCharge, f.point)
}

// close ends the innermost frame.
func (s *codeScan) close() {
	i := len(s.frames) - 1
	f := s.frames[i]
	s.frames = s.frames[:i]
	if f.op == opLoop && f.live {
		s.loopNest--
	}
	if i > 0 && s.cross.on {
		s.cross.join(crossEnd, uint32(f.id))
	}
	if i == 0 {
		s.endLive = s.live
		s.returns = s.returns || f.branched
		return
	}
	if outer := &s.frames[i-1]; f.outside < outer.outside {
		outer.outside = f.outside
	}
	s.height = f.base + f.results
	s.unseen = f.after(s.live, s.unseen)
	s.live = f.live && (s.live || f.thenLive || f.op == opIf || f.branched && f.op != opLoop)
	merges := f.branched && f.op != opLoop || f.op >= opIf
	switch left := int(f.outside) < i; {
	case !s.live:
	case !left && f.point >= s.barrier: // control that entered the frame comes out of it
		s.cur = f.point
	case f.op == opLoop || f.op == opBlock && !f.branched: // control has no other way here
	default:
		s.newPoint(editCharge, f.point)
	}
	if merges && s.live {
		crossing := s.cross.of(f.id) + int(f.results)
		s.payCrossing(crossing)
		s.shape.passed += crossing
	}
}

// branch notes a jump to a label, counted from the innermost frame.
func (s *codeScan) branch(label uint32) {
	s.straight = false
	if s.cross.on {
		s.cross.join(crossTarget, label)
	}
	if int64(label) >= int64(len(s.frames)) {
		s.fail("function %d jumps out of %d blocks, but is in %d", s.index, label+1, len(s.frames))
		return
	}
	if s.err == nil && s.live {
		target := len(s.frames) - 1 - int(label)
		s.frames[target].branched = true
		s.frames[target].out.join(s.unseen)
		s.shape.passed += s.frames[target].passes() + s.cross.of(s.frames[target].id)
		s.leave(target)
	}
}

// straighten returns the label that a br finally reaches, which differs from its own if
// it jumps forward through a jump table.
func (s *codeScan) straighten(at int, label uint32) uint32 {
	if at != s.setEnd || len(s.jumps.labels) == 0 || s.setLocal != s.jumps.local {
		return label
	}
	target := s.jumps.frame(s.constant)
	if int(label) != len(s.frames)-1-s.jumps.loop || target >= len(s.frames) || !s.frames[target].entry {
		return label
	}
	direct := uint32(len(s.frames) - 1 - target)
	s.edit(at+1, s.pos-at-1, editIndex, direct)
	return direct
}

// leave notes that control can go from here to the given frame.
func (s *codeScan) leave(target int) {
	f := &s.frames[len(s.frames)-1]
	if s.live && int32(target) < f.outside {
		f.outside = int32(target)
	}
}
