package toolcallfilter

import (
	"slices"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// summary says which tools were used, each of them once.
func summary(tools []string) string {
	once := tools[:0]
	for _, name := range tools {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	if len(once) == 1 {
		return "Used " + once[0] + " tool"
	}
	return "Used tools: " + strings.Join(once, ", ")
}

// room knows where in a conversation a message can be put. There are as many
// places as messages and one more: place i is before message i.
//
// A place is taken while a call that stays waits for a result. A message there
// would separate them, which providers refuse.
type room struct {
	taken []int // for each place: how many calls take it; while measuring, what that changes by
	next  []int // the first free place from there on; the number of places if none
	prev  []int // the last free place up to there; place 0 is always free

	moves    []int  // for each message, and after the last: the next that moves on
	answered []bool // for each row: whether it is a call with a result after it
}

// measure finds the places of a conversation in which some rows are gone.
func (r *room) measure(o *pdk.Outline, p *pairs, gone []bool) {
	places := o.Len() + 1
	r.taken = zeroed(r.taken, places+1)
	r.answered = zeroed(r.answered, len(o.Tools))
	for row := range o.Tools {
		if t := &o.Tools[row]; t.Result && p.call[row] != noCall && !gone[row] {
			call := p.call[row]
			r.answered[call] = r.answered[call] || call < row
			at := o.Tools[call].Message
			r.take(min(at, t.Message)+1, max(at, t.Message)+1)
		}
	}
	r.findMoves(p.movesOn)
	for row := range o.Tools {
		if t := &o.Tools[row]; !t.Result && !r.answered[row] && !gone[row] {
			r.take(t.Message+1, r.moves[t.Message+1])
		}
	}
	r.settle(places)
}

// take takes the places [from, to).
func (r *room) take(from, to int) {
	r.taken[from]++
	r.taken[to]--
}

// findMoves fills moves. After the last message that moves on, calls are open to
// the end, the last place included.
func (r *room) findMoves(movesOn []bool) {
	end := len(movesOn)
	r.moves = zeroed(r.moves, end+1)
	r.moves[end] = end + 1
	for m := end - 1; m >= 0; m-- {
		if r.moves[m] = r.moves[m+1]; movesOn[m] {
			r.moves[m] = m
		}
	}
}

// settle turns changes into counts and fills the lists of free places.
func (r *room) settle(places int) {
	r.prev = zeroed(r.prev, places)
	for i := 1; i < places; i++ {
		r.taken[i] += r.taken[i-1]
		if r.prev[i] = i; r.taken[i] > 0 {
			r.prev[i] = r.prev[i-1]
		}
	}
	r.next = zeroed(r.next, places+1)
	r.next[places] = places
	for i := places - 1; i >= 0; i-- {
		if r.next[i] = i; r.taken[i] > 0 {
			r.next[i] = r.next[i+1]
		}
	}
}

// after returns the first free place after a message or, without one, the last
// place before it.
func (r *room) after(message int) int {
	if place := r.next[message+1]; place < len(r.prev) {
		return place
	}
	return r.prev[message]
}

// zeroed returns n zeros, in the memory of s if there is enough.
func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
