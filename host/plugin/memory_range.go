package plugin

import "bytes"

// imagePage is the unit in which images are compared and copied.
const imagePage = 4 << 10

// imagePiece is how many bytes are read or written of a memory between two looks
// at whether to go on, and whose turn it is (see goOn): well under a millisecond
// even where each page is new. A memory as a whole may take a hundred.
const imagePiece = 256 << 10

// memoryRange is a stretch of linear memory, by byte offsets.
type memoryRange struct{ start, end int }

func (s memoryRange) size() int { return s.end - s.start }

// pieces cuts a stretch of memory. It ends early, and reports false, if goOn says
// so after a piece.
func (s memoryRange) pieces(size int, goOn func(bytes int) bool, do func(memoryRange)) bool {
	for at := s.start; at < s.end; at += size {
		piece := memoryRange{start: at, end: min(at+size, s.end)}
		do(piece)
		if !goOn(piece.size()) {
			return false
		}
	}
	return true
}

// zeroPieces sets a stretch of memory to zero, unless goOn ends it: what is short by
// writing, what is long by giving its pages back, so that none comes into use that
// was not.
func zeroPieces(mem []byte, s memoryRange, goOn func(int) bool) bool {
	if s.size() <= clearAtMost {
		return s.pieces(imagePiece, goOn, func(p memoryRange) { clear(mem[p.start:p.end]) })
	}
	return s.pieces(releasePiece, goOn, func(p memoryRange) { release(mem[p.start:p.end]) })
}

// nonZero returns the stretches of memory whose pages are not all zero, unless
// goOn ends it.
func nonZero(mem []byte, goOn func(int) bool) (list []memoryRange, ok bool) {
	ok = memoryRange{start: 0, end: len(mem)}.pieces(imagePiece, goOn, func(p memoryRange) {
		for at := p.start; at < p.end; at += imagePage {
			page := memoryRange{start: at, end: min(at+imagePage, p.end)}
			if isZero(mem[page.start:page.end]) {
				continue
			}
			if n := len(list); n > 0 && list[n-1].end == at {
				list[n-1].end = page.end
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

// without returns what is in a and not in b; both are in order. It takes time by
// how many there are of both: a module chooses how many.
func without(a, b []memoryRange) (list []memoryRange) {
	for _, s := range a {
		for len(b) > 0 && b[0].end <= s.start {
			b = b[1:]
		}
		for i := 0; i < len(b) && b[i].start < s.end; i++ {
			if b[i].start > s.start {
				list = append(list, memoryRange{start: s.start, end: b[i].start})
			}
			s.start = min(b[i].end, s.end)
		}
		if s.size() > 0 {
			list = append(list, s)
		}
	}
	return list
}

// copyChanged is copy, but leaves alone the pages that are equal: most are, and
// reading costs less than writing.
func copyChanged(to, from []byte) {
	for len(from) > 0 {
		n := min(imagePage, len(from))
		if !bytes.Equal(to[:n], from[:n]) {
			copy(to[:n], from[:n])
		}
		to, from = to[n:], from[n:]
	}
}
