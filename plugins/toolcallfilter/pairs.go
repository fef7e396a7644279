package toolcallfilter

import (
	"slices"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// noCall stands for the call of a result that has none.
const noCall = -1

// maxOpen is how many open calls are looked at for each result, so that hostile
// histories do not cost the square of their length. It is twice what providers
// allow in one answer; beyond it, calls are found by their ids alone.
const maxOpen = 256

// pairs says which call each result belongs to. Rows are indices into an
// outline's Tools.
type pairs struct {
	call    []int  // for each row: the row of its call; of a call, its own
	movesOn []bool // for each message: whether it can only come when no call is open

	open []int // rows of the calls that are unanswered so far
	late bool  // a result had no open call
}

// match pairs the results of a conversation with their calls. It follows what
// providers demand, and the host checks: a result answers a call that is open,
// and calls are open until the conversation moves on.
func (p *pairs) match(o *pdk.Outline) {
	p.call = slices.Grow(p.call[:0], len(o.Tools))[:len(o.Tools)]
	p.movesOn = slices.Grow(p.movesOn[:0], o.Len())[:o.Len()]
	p.open, p.late = p.open[:0], false
	row := 0
	for m := range o.Len() {
		end, calls := row, 0
		for ; end < len(o.Tools) && o.Tools[end].Message == m; end++ {
			if !o.Tools[end].Result {
				calls++
			}
		}
		if p.movesOn[m] = movesOn(o, m, calls); p.movesOn[m] {
			p.open = p.open[:0]
		}
		for ; row < end; row++ {
			p.read(o.Tools, row)
		}
	}
	if p.late {
		p.adopt(o.Tools)
	}
}

// movesOn reports whether message m, which has so many calls, can only come when
// no call is open. More calls of the same answer still can: some providers give
// each a message of its own.
func movesOn(o *pdk.Outline, m, calls int) bool {
	switch o.Roles[m] {
	case pdk.RoleLetterTool:
		return false
	case pdk.RoleLetterAssistant:
		return calls < o.Parts[m]
	}
	return true
}

func (p *pairs) read(rows []pdk.OutlineTool, row int) {
	if !rows[row].Result {
		p.open = append(p.open, row)
		p.call[row] = row
		return
	}
	p.call[row] = p.answer(rows, &rows[row])
	p.late = p.late || p.call[row] == noCall
}

// answer takes the call that a result answers from the open ones: the oldest
// with its id, but rather the oldest that calls the tool that the result names.
func (p *pairs) answer(rows []pdk.OutlineTool, result *pdk.OutlineTool) int {
	found := -1
	for i, at := range p.open[:min(len(p.open), maxOpen)] {
		call := &rows[at]
		if call.ID != result.ID {
			continue
		}
		if call.Name == result.Name {
			found = i
			break
		}
		if found < 0 {
			found = i
		}
	}
	if found < 0 {
		return noCall
	}
	call := p.open[found]
	p.open = append(p.open[:found], p.open[found+1:]...)
	return call
}

// adopt gives the results that answered no open call to the last call with their
// id before them, or else to the next one after them.
func (p *pairs) adopt(rows []pdk.OutlineTool) {
	calls := map[string]int{} // by id
	for row := range rows {
		p.claim(rows, row, calls)
	}
	clear(calls)
	for row := len(rows) - 1; row >= 0; row-- {
		p.claim(rows, row, calls)
	}
}

func (p *pairs) claim(rows []pdk.OutlineTool, row int, calls map[string]int) {
	t := &rows[row]
	if !t.Result {
		calls[t.ID] = row
		return
	}
	if p.call[row] != noCall {
		return
	}
	if call, ok := calls[t.ID]; ok && (t.Name == "" || t.Name == rows[call].Name) {
		p.call[row] = call
	}
}
