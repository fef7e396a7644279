package linearmem

import "bytes"

// Unit is the size of the pages that are compared and copied.
const Unit = 4 << 10

// Piece is how many bytes of a memory are read or written between two calls of
// goOn: well under a millisecond even where each page is new. A memory as a whole may take a hundred.
const Piece = 256 << 10

// Range is a range of linear memory, by byte offsets.
type Range struct{ Start, End int }

// Size returns how many bytes the range has.
func (s Range) Size() int { return s.End - s.Start }

// Pieces calls do for pieces of at most size bytes. It ends early, and reports false,
// if goOn is false after a piece.
func (s Range) Pieces(size int, goOn func(bytes int) bool, do func(Range)) bool {
	for at := s.Start; at < s.End; at += size {
		piece := Range{Start: at, End: min(at+size, s.End)}
		do(piece)
		if !goOn(piece.Size()) {
			return false
		}
	}
	return true
}

// Zero sets a range of memory to zero, unless goOn ends it: a short range by writing, a
// long one by returning its pages to the system, so that no unused page comes into use.
func Zero(mem []byte, s Range, goOn func(int) bool) bool {
	if s.Size() <= clearAtMost {
		return s.Pieces(Piece, goOn, func(p Range) { clearUsed(mem[p.Start:p.End]) })
	}
	return s.Pieces(releasePiece, goOn, func(p Range) { release(mem[p.Start:p.End]) })
}

// clearUsed is clear, but does not write pages that are zero: most are, and one that was never
// written takes no memory, and is read from where all the others are.
func clearUsed(b []byte) {
	for len(b) > 0 {
		n := min(Unit, len(b))
		if !isZero(b[:n]) {
			clear(b[:n])
		}
		b = b[n:]
	}
}

// NonZero returns the ranges of memory whose pages are not all zero, unless goOn ends
// it.
func NonZero(mem []byte, goOn func(int) bool) (list []Range, ok bool) {
	ok = Range{Start: 0, End: len(mem)}.Pieces(Piece, goOn, func(p Range) {
		for at := p.Start; at < p.End; at += Unit {
			page := Range{Start: at, End: min(at+Unit, p.End)}
			if isZero(mem[page.Start:page.End]) {
				continue
			}
			if n := len(list); n > 0 && list[n-1].End == at {
				list[n-1].End = page.End
			} else {
				list = append(list, page)
			}
		}
	})
	return list, ok
}

func isZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[:len(b)-1], b[1:])
}

// Without returns the ranges in a less those in b; both are in order. Its time is
// proportional to the number of ranges, because a module chooses how many.
func Without(a, b []Range) (list []Range) {
	for _, s := range a {
		for len(b) > 0 && b[0].End <= s.Start {
			b = b[1:]
		}
		for i := 0; i < len(b) && b[i].Start < s.End; i++ {
			if b[i].Start > s.Start {
				list = append(list, Range{Start: s.Start, End: b[i].Start})
			}
			s.Start = min(b[i].End, s.End)
		}
		if s.Size() > 0 {
			list = append(list, s)
		}
	}
	return list
}

// CopyChanged is copy, but does not write equal pages: most are equal, and reading
// costs less than writing.
func CopyChanged(to, from []byte) {
	for len(from) > 0 {
		n := min(Unit, len(from))
		if !bytes.Equal(to[:n], from[:n]) {
			copy(to[:n], from[:n])
		}
		to, from = to[n:], from[n:]
	}
}
