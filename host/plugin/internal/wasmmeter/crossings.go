package wasmmeter

import "math/bits"

// Values that cross merges.
//
// The compiler keeps a local in SSA form: where two ways of control meet, each
// local that was set on one of them and is read later becomes a parameter of the
// block that follows, and each way copies its value there. So the end of a block,
// an if or an else, and the header of a loop, which cost nothing by themselves,
// cost a copy for every such local: a loop around 9,900 locals that are set in a
// branch that is never taken spends 20 us on each iteration of six instructions.
//
// Liveness analysis gives the number of these copies, and this file does it: a local
// crosses a merge if it is set within the frame that the merge ends (or, of a loop,
// begins) and is live behind it. Only functions with more than freeCrossing locals that
// are set are analysed; the others cannot have more copies than are free. The same
// analysis gives the number of live locals at each basic block, on which the time of
// the compiler's own liveness analysis and register allocation depends
// (compilework.go).
//
// The analysis reads the accesses of locals and the control instructions of a
// function backwards, twice. The first pass ignores branches back to loops and
// finds which locals are live at each loop's header. A local that is live at a
// header is live at every branch back to it, and as good as live at the headers of the
// loops inside. The second pass takes these locals as live at branches back; it is
// exact, or errs upwards where a loop sets a local before it reads it.

// freeCrossing is how many values may cross a merge, be passed to a function or live in
// a block without a price: about as many as the machine has registers. Few merges of
// honest code have more; in 2 MB of Go there are 8 to 25.
const freeCrossing = 16

// beyondFree is how many of n values have a price.
func beyondFree(n int) int { return max(0, n-freeCrossing) }

// crossKind is the kind of an event.
type crossKind uint32

const (
	crossGet    crossKind = iota // of a local
	crossSet                     // of a local, local.tee too
	crossOpen                    // of the frame with a number
	crossElse                    // of the frame with a number
	crossEnd                     // of the frame with a number
	crossTarget                  // a branch may go to a label
	crossStop                    // control does not reach what follows
	crossBlocks                  // the compiler makes some basic blocks here
)

// crossEvent is a place in a function that liveness depends on: a kind, and its
// argument in the other bits.
type crossEvent uint32

const crossKindBits = 3

// crossWords bounds the analysis of a function: its events that touch all locals,
// times the words of a set of locals. Beyond it the analysis takes all locals for live
// everywhere, and the function is refused for its compile time.
const crossWords = 1 << 24

// crossings is the analysis of one function; its slices are used again.
type crossings struct {
	on     bool // the function has more than freeCrossing locals
	events []crossEvent
	joins  int     // events that touch all locals
	ops    []byte  // of each frame: opBlock, opLoop or opIf; opElse if it has one
	counts []int32 // of each frame: locals that cross its merge; empty until they are known
	live   float64 // locals beyond freeCrossing, summed over basic blocks

	words   int
	set     localSet // locals that are set anywhere
	alive   localSet // live at the place that is read
	headers localSet // of each loop: locals live at its header
	loopNo  []int32  // of each frame that is a loop: its place in headers
	stack   []crossFrame
}

// crossFrame is a frame that is open as the events are read backwards.
type crossFrame struct {
	id    int32
	loop  int      // the place in the stack of the innermost loop that the frame is or is in, or -1
	label localSet // live where its label leads
	sets  localSet // set within it
	other localSet // live where its else begins, or if it has none, behind it
}

// localSet is a set of locals, a bit each.
type localSet []uint64

func (s localSet) add(local uint32)    { s[local/64] |= 1 << (local % 64) }
func (s localSet) remove(local uint32) { s[local/64] &^= 1 << (local % 64) }
func (s localSet) unite(with localSet) {
	for i, w := range with {
		s[i] |= w
	}
}

func (s localSet) size() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// sizeWith is how many locals are in both sets.
func (s localSet) sizeWith(t localSet) (n int) {
	for i, w := range s {
		n += bits.OnesCount64(w & t[i])
	}
	return n
}

// empty returns s with the given number of words and no locals.
func (s localSet) empty(words int) localSet {
	if cap(s) < words {
		return make(localSet, words)
	}
	s = s[:words]
	clear(s)
	return s
}

// begin readies c for a function with the given number of locals.
func (c *crossings) begin(locals uint64) {
	c.on = locals > freeCrossing
	c.events, c.joins, c.ops, c.counts, c.live = c.events[:0], 0, c.ops[:0], c.counts[:0], 0
	if c.on {
		c.words = int(locals+63) / 64
		c.set = c.set.empty(c.words)
	}
}

// note appends an event.
func (c *crossings) note(kind crossKind, arg uint32) {
	if c.on {
		c.events = append(c.events, crossEvent(arg<<crossKindBits|uint32(kind)))
	}
}

// join appends an event that touches all locals.
func (c *crossings) join(kind crossKind, arg uint32) {
	c.joins++
	c.note(kind, arg)
}

// access notes an instruction that reads or sets a local.
func (c *crossings) access(op byte, local uint32) {
	if op == opLocalGet {
		c.note(crossGet, local)
		return
	}
	c.set.add(local)
	c.note(crossSet, local)
}

// open notes a frame; its number is how many there were before.
func (c *crossings) open(op byte) {
	c.ops = append(c.ops, op)
	c.join(crossOpen, uint32(len(c.ops)-1))
}

// otherwise notes the else of a frame.
func (c *crossings) otherwise(id int32) {
	c.ops[id] = opElse
	c.join(crossElse, uint32(id))
}

// of returns how many locals cross the merge of a frame.
func (c *crossings) of(id int32) int {
	if id >= 0 && int(id) < len(c.counts) {
		return int(c.counts[id])
	}
	return 0
}

// analyse finds the counts and live of the function that the events are from. It
// reports whether a local has a price.
func (c *crossings) analyse(blocks, deepest int) bool {
	if !c.on {
		return false
	}
	most := c.set.size()
	if most <= freeCrossing && c.words*64 <= 4*freeCrossing {
		return false
	}
	c.counts = append(c.counts[:0], make([]int32, len(c.ops))...)
	if c.words*max(c.joins, 4*deepest) > crossWords {
		for i := range c.counts {
			c.counts[i] = int32(most)
		}
		c.live = float64(blocks) * float64(64*c.words)
		return true
	}
	loops := int32(0)
	c.loopNo = c.loopNo[:0]
	for _, op := range c.ops {
		c.loopNo = append(c.loopNo, loops)
		if op == opLoop {
			loops++
		}
	}
	c.headers = c.headers.empty(int(loops) * c.words)
	c.backwards(false)
	c.backwards(true)
	return true
}

// header returns the locals that are live at the header of a loop.
func (c *crossings) header(id int32) localSet {
	at := int(c.loopNo[id]) * c.words
	return c.headers[at : at+c.words]
}

// backwards reads the events from the last to the first: the first time without
// branches back, and again with them, for the result.
func (c *crossings) backwards(again bool) {
	c.alive = c.alive.empty(c.words)
	c.stack = c.stack[:0]
	for i := len(c.events) - 1; i >= 0; i-- {
		e := c.events[i]
		arg := uint32(e >> crossKindBits)
		switch crossKind(e & (1<<crossKindBits - 1)) {
		case crossGet:
			c.alive.add(arg)
		case crossSet:
			c.alive.remove(arg)
			if n := len(c.stack); n > 0 {
				c.stack[n-1].sets.add(arg)
			}
		case crossStop:
			clear(c.alive)
		case crossTarget:
			if n := len(c.stack) - 1 - int(arg); n >= 0 { // else a return
				c.alive.unite(c.stack[n].label)
			}
		case crossBlocks:
			if again {
				c.live += float64(arg) * float64(beyondFree(c.alive.size()))
			}
		case crossEnd:
			c.push(int32(arg), again)
		case crossElse:
			f := &c.stack[len(c.stack)-1]
			copy(f.other, c.alive)
			copy(c.alive, f.label)
		case crossOpen:
			c.pop(again)
		}
	}
}

// push enters a frame at its end.
func (c *crossings) push(id int32, again bool) {
	n := len(c.stack)
	if n < cap(c.stack) {
		c.stack = c.stack[:n+1]
	} else {
		c.stack = append(c.stack, crossFrame{})
	}
	f := &c.stack[n]
	f.id, f.loop = id, -1
	if n > 0 {
		f.loop = c.stack[n-1].loop
	}
	f.label, f.sets, f.other = f.label.empty(c.words), f.sets.empty(c.words), f.other.empty(c.words)
	if c.ops[id] != opLoop {
		copy(f.label, c.alive)
		copy(f.other, c.alive)
		return
	}
	if again {
		copy(f.label, c.header(id))
		if f.loop >= 0 {
			f.label.unite(c.stack[f.loop].label)
		}
	}
	f.loop = n
}

// pop leaves a frame at its start.
func (c *crossings) pop(again bool) {
	n := len(c.stack) - 1
	f := &c.stack[n]
	crossing := f.label // of a loop: locals live at branches back
	switch c.ops[f.id] {
	case opLoop:
		if !again {
			copy(c.header(f.id), c.alive)
		}
		crossing = c.alive
	case opIf, opElse:
		c.alive.unite(f.other)
	}
	if again {
		c.counts[f.id] = int32(crossing.sizeWith(f.sets))
	}
	if n > 0 {
		c.stack[n-1].sets.unite(f.sets)
	}
	c.stack = c.stack[:n]
}
