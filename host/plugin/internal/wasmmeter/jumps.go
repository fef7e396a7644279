package wasmmeter

// Straight jumps for Go guests.
//
// WebAssembly has no goto, so the Go compiler writes a function as one loop
// around a jump table: to go from one basic block to another it puts the
// block's number into a local, goes back to the loop's header, and lets the
// table decide. Every jump passes the loop's header, where the metering pass has to add
// a charge and a fuel check. But a jump forward needs neither: its target is the end of
// a block that is open around it, which a plain branch reaches. So
//
//	i32.const 5  local.set $pc  br $loop
//
// becomes
//
//	i32.const 5  local.set $pc  br $block5
//
// where the loop begins with blocks, local.get $pc and a br_table that maps 5 to
// $block5, and $block5 is still open. No other instruction runs between the branch and
// its target, so both forms do the same, whichever compiler made the code. The change
// makes a metered Go guest faster than a plain one; jumps backward, which form the
// loops, stay unchanged.

// dispatch describes a loop that begins with a jump table.
type dispatch struct {
	loop   int      // the loop's frame
	blocks int      // how many blocks the loop begins with
	local  uint32   // the local that says where to go
	end    int      // where the code after the table begins
	labels []uint32 // the table, its default last; empty without a table
}

// find reads code that begins with a loop, which will be the given frame; if no
// jump table follows at once, it leaves labels empty.
func (d *dispatch) find(wasm []byte, code span, loop int) {
	d.labels, d.loop, d.blocks, d.end = d.labels[:0], loop, 0, 0
	b := wasm[code.start:code.end]
	if len(b) < 2 || b[0] != opLoop || b[1] != blockEmpty {
		return
	}
	at := 2
	for at+1 < len(b) && b[at] == opBlock && b[at+1] == blockEmpty {
		at += 2
		d.blocks++
	}
	local, at := operandOf(b, at, opLocalGet)
	n, at := operandOf(b, at, opBrTable)
	if at == 0 || uint64(n) >= uint64(len(b)-at) {
		return
	}
	for range n + 1 {
		label, size := leb32(b[at:])
		if size == 0 {
			d.labels = d.labels[:0]
			return
		}
		d.labels = append(d.labels, label)
		at += size
	}
	d.local, d.end = local, code.start+at
}

// operandOf reads an instruction with one operand if it stands at the given
// place, and returns the place after it, else 0.
func operandOf(b []byte, at int, op byte) (operand uint32, next int) {
	if at == 0 || at >= len(b) || b[at] != op {
		return 0, 0
	}
	v, n := leb32(b[at+1:])
	if n == 0 {
		return 0, 0
	}
	return v, at + 1 + n
}

// frame returns the frame to which the table jumps for a value of the local.
func (d *dispatch) frame(value int32) int {
	i := min(uint64(uint32(value)), uint64(len(d.labels)-1))
	top := d.loop + d.blocks
	return top - int(min(d.labels[i], uint32(top)))
}
