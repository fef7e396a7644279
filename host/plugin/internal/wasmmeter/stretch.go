package wasmmeter

// Looks in code that has no loops.
//
// Code without a loop looks at its function's entry, and then goes on to its end.
// A function of two megabytes takes milliseconds for that, and one that calls
// cheap leaves, which do not look, much longer. Worse is what comes after a call:
// a function that calls itself a thousand times has a thousand ends waiting, and
// nothing looks while they follow one another. So what control may have spent
// since it last looked is followed through each function, and where that is too
// much, there is a look. What follows a call is charged when the call is over, so
// that those looks see it.

const (
	// longStretch is how many units a function may spend between two looks.
	longStretch = 10_000
	// longTail is the same after a call, where as many functions as may call one
	// another go on one after the other: a million units for 10,000 of them.
	longTail = 100
	// leafBytes is how much code a function may have that does not look. It bounds
	// what is read twice, and few leaves that are cheap have more.
	leafBytes = 128
)

// stretch is what control may have spent on its way to a place since it looked.
type stretch struct {
	cost   uint64
	called bool // it has come back from a function
}

// join makes s what control may bring along that comes from two places.
func (s *stretch) join(from stretch) {
	s.cost, s.called = max(s.cost, from.cost), s.called || from.called
}

// after is what control brings along to the place after a frame's end, which it
// may reach by itself.
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

// tooLong reports whether there has to be a look before the next instruction.
func (s *codeScan) tooLong() bool {
	most := s.limits.stretch
	if s.unseen.called {
		most = s.limits.tail
	}
	return s.live && s.unseen.cost > uint64(most)
}

// lookHere puts a look where there is no loop.
func (s *codeScan) lookHere() {
	s.look()
	s.blocks(3) // as an if with a call in it
	s.shape.calls++
}

// look puts a charge here, of all that follows, and a look.
func (s *codeScan) look() {
	s.newPoint(editLook, -1)
	s.barrier, s.unseen = s.cur, stretch{}
}

// cameBack notes that a function was called, which may have spent a price after
// its last look. What follows is charged by itself, unless the function was a leaf.
func (s *codeScan) cameBack(cost uint64, called bool) {
	switch {
	case !s.live:
	case !called:
		s.unseen.cost += cost
	default:
		if cost == 0 { // it has looked
			s.unseen = stretch{}
		}
		s.unseen.cost += cost
		s.unseen.called = true
		s.newPoint(editCharge, s.cur)
		s.barrier = s.cur
	}
}

// leaf reports whether the function that was scanned last does not look.
func (s *codeScan) leaf() bool {
	return !s.calls && s.size() <= leafBytes && s.total() <= cheapLeaf
}

// findLeaves looks for the functions that will not look.
func (s *codeScan) findLeaves() {
	s.leaves = map[int]uint64{}
	for i := range s.m.bodies {
		if s.m.bodies[i].code.size() <= leafBytes && s.scan(i) == nil && s.leaf() {
			s.leaves[s.index] = s.total()
		}
	}
}

// total is what a function costs without repetition.
func (s *codeScan) total() uint64 {
	sum := uint64(0)
	for _, p := range s.points {
		sum += uint64(p.cost)
	}
	return sum
}
