package pdk

import "unsafe"

// An arena hands out memory that lives until the arena is reset. It exists
// because a guest that allocates new strings in every call spends more time in
// collection than in work.
type arena struct {
	chunk []byte
	taken int // since the last reset
	want  int // most ever taken between two resets
}

// minChunk is the least that an arena allocates at once.
const minChunk = 4 << 10

// take returns an empty slice with room for n bytes, which must not outgrow it.
// Slices taken before stay valid when the arena allocates.
func (a *arena) take(n int) []byte {
	a.taken += n
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, max(n, a.want, a.taken/4, minChunk))
	}
	start := len(a.chunk)
	a.chunk = a.chunk[:start+n]
	return a.chunk[start : start : start+n]
}

// reset makes the memory handed out so far available again.
func (a *arena) reset() {
	a.want = max(a.want, a.taken)
	a.taken = 0
	a.chunk = a.chunk[:0]
}

// borrow returns a string that shares b's memory.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
