package view

import "slices"

// List is the sequence of messages, or of turns, that a view shows: parts, and then
// the own log from tail up to, not including, end. Its elements are numbered from 0.
// [View.MessageList] and [View.TurnList] make one.
type List struct {
	parts     []Part
	own       uint64 // rank of the own log
	tail, end uint64
}

// Parts returns the list as parts alone, the shown end of the own log included. The
// caller owns the slice.
func (l List) Parts() []Part {
	if l.end <= l.tail {
		return slices.Clone(l.parts)
	}
	return appendPart(slices.Clone(l.parts), NewPart(Position{l.own, l.tail}, l.end))
}

// Len returns how many elements the list has.
func (l List) Len() uint64 { return TotalLen(l.Parts()) }

// Has reports whether the list shows the element at a position.
func (l List) Has(at Position) bool {
	return slices.ContainsFunc(l.Parts(), func(p Part) bool { return p.Has(at) })
}

// IndexOf returns the number of the element at a position, which the list must have.
func (l List) IndexOf(at Position) uint64 {
	n := uint64(0)
	for _, p := range l.Parts() {
		if p.Has(at) {
			return n + at.Seq - p.At.Seq
		}
		n += p.Len()
	}
	return n
}

// CountBefore returns how many elements of the list stand before a position, which the
// list need not show.
func (l List) CountBefore(at Position) uint64 {
	n := uint64(0)
	for _, p := range l.Parts() {
		last := p.drop(p.Len() - 1).Stands
		if last.Before(at) {
			n += p.Len()
			continue
		}
		if p.Stands.Before(at) { // then both are of one rank
			n += at.Seq - p.Stands.Seq
		}
		break
	}
	return n
}

// Slice returns the elements from number i up to, not including, j.
func (l List) Slice(i, j uint64) []Part {
	var out []Part
	first := uint64(0)
	for _, p := range l.Parts() {
		from, to := max(i, first), min(j, first+p.Len())
		if from < to {
			out = appendPart(out, p.keep(to-first).drop(from-first))
		}
		first += p.Len()
	}
	return out
}

// At returns element i as a part of one position. It panics if i is not less than Len.
func (l List) At(i uint64) Part { return l.Slice(i, i+1)[0] }

// Without returns the list without some elements. numbers must be in ascending order.
func (l List) Without(numbers []uint64) []Part {
	var out []Part
	next := uint64(0)
	for _, n := range numbers {
		out = appendParts(out, l.Slice(next, n))
		next = n + 1
	}
	return appendParts(out, l.Slice(next, l.Len()))
}

// With returns the list with element i replaced by the one at a position, which takes
// the place of the old one in the conversation.
func (l List) With(i uint64, at Position) []Part {
	p := NewPart(at, at.Seq+1)
	p.Stands = l.At(i).Stands
	out := appendPart(l.Slice(0, i), p)
	return appendParts(out, l.Slice(i+1, l.Len()))
}
