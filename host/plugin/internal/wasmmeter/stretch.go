package wasmmeter

// Fuel checks in code that has no loops.
//
// Code without a loop checks the fuel at its function's entry, and then runs to its
// end. A function of two megabytes takes milliseconds for that, and one that calls
// cheap leaves, which do not check, much longer. Returns are worse: after a recursion
// of a thousand calls the thousand ends run one after another without a check. So the
// pass follows through each function how many units control may have spent since the
// last check, and adds a check where they are too many. Code behind a call is charged
// after the call, so that these checks cover it.

const (
	// longStretch is how many units a function may spend between two fuel checks.
	longStretch = 10_000
	// longTail is the same after a call, where all functions of a recursion may
	// continue one after the other: a million units for 10,000 of them.
	longTail = 100
	// leafBytes is the largest code of a function that does not check the fuel. It
	// bounds the code that is read twice, and few cheap leaves have more.
	leafBytes = 128
)

// stretch is how many units control may have spent between the last fuel check and a
// position.
type stretch struct {
	cost   uint64
	called bool // control has returned from a call since
}

// join merges another way of control into s: the maximum of both.
func (s *stretch) join(from stretch) {
	s.cost, s.called = max(s.cost, from.cost), s.called || from.called
}

// after returns the stretch of control behind a frame's end; live says that control
// also reaches the end by itself.
func (f *frame) after(live bool, unseen stretch) stretch {
	s := stretch{}
	if f.branched && f.op != opLoop {
		s = f.out
	}
	if f.op == opElse {
		s.join(f.out)
	}
	if f.op == opIf {
		s.join(f.around)
	}
	if live {
		s.join(unseen)
	}
	return s
}

// tooLong reports whether the next instruction needs a fuel check before it.
func (s *codeScan) tooLong() bool {
	most := s.limits.stretch
	if s.unseen.called {
		most = s.limits.tail
	}
	return s.live && s.unseen.cost > uint64(most)
}

// lookHere inserts a fuel check outside a loop's header.
func (s *codeScan) lookHere() {
	s.look()
	s.blocks(3) // as an if with a call in it
	s.shape.calls++
}

// look inserts a charge for the code that follows, and a fuel check.
func (s *codeScan) look() {
	s.newPoint(editLook, -1)
	s.barrier, s.unseen = s.cur, stretch{}
}

// cameBack notes a call of a function that may have spent cost units after its last
// fuel check. The code that follows is charged separately, unless the function was a
// leaf.
func (s *codeScan) cameBack(cost uint64, called bool) {
	switch {
	case !s.live:
	case !called:
		s.unseen.cost += cost
	default:
		if cost == 0 { // it has checked the fuel
			s.unseen = stretch{}
		}
		s.unseen.cost += cost
		s.unseen.called = true
		s.newPoint(editCharge, s.cur)
		s.barrier = s.cur
	}
}

// leaf reports whether the function that was scanned last does without a fuel check.
func (s *codeScan) leaf() bool {
	return !s.calls && s.size() <= leafBytes && s.total() <= cheapLeaf
}

// findLeaves finds the functions that will not check the fuel.
func (s *codeScan) findLeaves() {
	s.leaves = map[int]uint64{}
	for i := range s.m.bodies {
		if s.m.bodies[i].code.size() <= leafBytes && s.scan(i) == nil && s.leaf() {
			s.leaves[s.index] = s.total()
		}
	}
}

// total returns the price of a function whose loops run once.
func (s *codeScan) total() uint64 {
	sum := uint64(0)
	for _, p := range s.points {
		sum += uint64(p.cost)
	}
	return sum
}
