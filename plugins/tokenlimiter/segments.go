package tokenlimiter

import (
	"slices"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// maxOpen is how many open calls are looked at for each result, so that hostile
// histories do not cost the square of their length. It is twice what providers
// allow in one answer; beyond it, calls are found by their ids alone.
const maxOpen = 256

// segments says which messages of a conversation stay or go together.
type segments struct {
	protected []bool // for each message: it never goes
	joins     []int  // for each message: how many pairs hold it to the one before; while finding, what that changes by

	// Rows are indices into an outline's Tools.
	open    []int  // rows of the calls that are unanswered so far
	single  []bool // for each row: it is a call without a result, or a result without an open call
	strayed bool   // there is such a result
}

// find finds the segments: two neighbours are of one segment if a call stands at
// or before the one, and a result of it at or behind the other.
func (s *segments) find(o *pdk.Outline) {
	s.protected = zeroed(s.protected, o.Len())
	s.joins = zeroed(s.joins, o.Len()+1)
	s.single = zeroed(s.single, len(o.Tools))
	s.open, s.strayed = s.open[:0], false
	row := 0
	for m := range o.Len() {
		end, calls := row, 0
		for ; end < len(o.Tools) && o.Tools[end].Message == m; end++ {
			if !o.Tools[end].Result {
				calls++
			}
		}
		// A system message with calls or results in it is nonsense, which must
		// not become worse by keeping one half of a pair.
		s.protected[m] = o.Roles[m] == pdk.RoleLetterSystem && row == end
		if movesOn(o, m, calls) {
			s.open = s.open[:0]
		}
		for ; row < end; row++ {
			s.read(o.Tools, row)
		}
	}
	for _, m := range o.Keep {
		s.protected[m] = true
	}
	if s.strayed {
		s.adopt(o.Tools)
	}
	for m := 1; m < o.Len(); m++ {
		s.joins[m] += s.joins[m-1]
	}
}

// movesOn reports whether message m, which has so many calls, can only come when
// no call is open: those that are will not be answered. More calls of the same
// answer still can come: some providers give each a message of its own.
func movesOn(o *pdk.Outline, m, calls int) bool {
	switch o.Roles[m] {
	case pdk.RoleLetterTool:
		return false
	case pdk.RoleLetterAssistant:
		return calls < o.Parts[m]
	}
	return true
}

// read takes a call or a result. A result answers the oldest open call with its
// id.
func (s *segments) read(rows []pdk.OutlineTool, row int) {
	t := &rows[row]
	s.single[row] = true
	if !t.Result {
		s.open = append(s.open, row)
		return
	}
	i := slices.IndexFunc(s.open[:min(len(s.open), maxOpen)], func(call int) bool { return rows[call].ID == t.ID })
	if i < 0 {
		s.strayed = true
		return
	}
	call := s.open[i]
	s.open = append(s.open[:i], s.open[i+1:]...)
	s.single[call], s.single[row] = false, false
	s.join(rows[call].Message, t.Message)
}

// adopt joins each result that answered no open call to the last call with its
// id before it. Without such a call the result may stand before its call: that is
// the next one with the id if no other result answers it.
func (s *segments) adopt(rows []pdk.OutlineTool) {
	calls, early := map[string]int{}, map[string]int{} // messages, by id
	for row := range rows {
		t := &rows[row]
		if !t.Result {
			calls[t.ID] = t.Message
			if m, ok := early[t.ID]; ok && s.single[row] {
				s.join(m, t.Message)
			}
			delete(early, t.ID)
			continue
		}
		if !s.single[row] {
			continue
		}
		if m, ok := calls[t.ID]; ok {
			s.join(m, t.Message)
		} else if _, ok := early[t.ID]; !ok {
			early[t.ID] = t.Message
		}
	}
}

// join makes one segment of the messages from one to another.
func (s *segments) join(from, to int) {
	s.joins[min(from, to)+1]++
	s.joins[max(from, to)+1]--
}

// before returns where the segment begins that ends before message end, and how
// many tokens its messages have that are not protected.
func (s *segments) before(end int, tokens []int) (start, size int) {
	for start = end; start > 0; {
		start--
		if !s.protected[start] {
			size += tokens[start]
		}
		if s.joins[start] == 0 {
			break
		}
	}
	return start, size
}

// protectedTokens returns how many tokens the messages have that never go.
func (s *segments) protectedTokens(tokens []int) int {
	total := 0
	for m, n := range tokens {
		if s.protected[m] {
			total += n
		}
	}
	return total
}

// zeroed returns n zeros, in the memory of s if there is enough.
func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
