package linearmem

import "bytes"

// Image is a copy of a memory: new memories are filled from it, and used ones restored to
// it. It never changes, and many goroutines may read it at once.
//
// Its functions work in pieces and call proceed after each with the bytes read or written;
// when proceed reports false, they stop.
type Image struct {
	size    int
	runs    []run   // the memory that is not zero, in order
	cleared []Range // zero here, and not in a memory without the changes since before
}

// run is a stretch of memory, in whole pages and no longer than a Piece.
type run struct {
	at    int
	bytes []byte
}

// Take copies a memory; before lists the ranges that are not zero in a new memory. It
// returns nil if proceed stops it.
func Take(mem []byte, before []Range, proceed func(int) bool) *Image {
	im := &Image{size: len(mem)}
	held, ok := NonZero(mem, proceed)
	for _, s := range held {
		ok = ok && s.Pieces(Piece, proceed, func(p Range) {
			im.runs = append(im.runs, run{p.Start, bytes.Clone(mem[p.Start:p.End])})
		})
	}
	if !ok {
		return nil
	}
	im.cleared = Without(before, held)
	return im
}

// Size returns the size of the memory.
func (im *Image) Size() int { return im.size }

// Restore makes used memory, which has the image's size, equal to it. It reports false if
// proceed stops it.
func (im *Image) Restore(mem []byte, proceed func(int) bool) bool {
	at := 0
	for _, r := range im.runs {
		if !Zero(mem, Range{Start: at, End: r.at}, proceed) {
			return false
		}
		at = r.at + len(r.bytes)
		CopyChanged(mem[r.at:at], r.bytes)
		if !proceed(len(r.bytes)) {
			return false
		}
	}
	return Zero(mem, Range{Start: at, End: len(mem)}, proceed)
}

// Fill makes a new memory, grown to the image's size, equal to the image. It reports false
// if proceed stops it. It does not touch memory that was never used.
func (im *Image) Fill(mem []byte, proceed func(int) bool) bool {
	for _, s := range im.cleared {
		if !s.Pieces(Piece, proceed, func(p Range) { clear(mem[p.Start:p.End]) }) {
			return false
		}
	}
	for _, r := range im.runs {
		copy(mem[r.at:], r.bytes)
		if !proceed(len(r.bytes)) {
			return false
		}
	}
	return true
}
