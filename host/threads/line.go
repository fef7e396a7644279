package threads

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/agenthost/agenthost/host"
)

// view says which messages and turns a head shows: parts of logs in the order of
// the conversation, then its content's own log from the tails on. The zero view
// is the whole log. A view never changes once it is stored.
type view struct {
	version
	// Origins are the ids of the contents that parts lie in besides the own one,
	// those of ancestors first. They are the same in all views of a content.
	Origins  []string `json:"origins,omitempty"`
	Messages []part   `json:"messages,omitempty"`
	Turns    []part   `json:"turns,omitempty"`
	// Tail and TurnTail are where the own log goes on.
	Tail     uint64 `json:"tail,omitempty"`
	TurnTail uint64 `json:"turn_tail,omitempty"`
}

// own is the rank of a view's own content: it comes after its origins.
func (v *view) own() uint64 { return uint64(len(v.Origins)) }

// valid reports whether every part is one that a reader can follow.
func (v *view) valid() bool {
	for _, parts := range [][]part{v.Messages, v.Turns} {
		for _, p := range parts {
			if p.at.rank > v.own() || p.stands.rank > v.own() || p.to <= p.at.seq {
				return false
			}
		}
	}
	return true
}

// place is a position in the log of one content, which is named by its rank
// among a view's contents. Places are ordered as the conversation grew.
type place struct{ rank, seq uint64 }

func (p place) before(q place) bool {
	return p.rank < q.rank || p.rank == q.rank && p.seq < q.seq
}

// part is positions of one log that follow each other, from at up to to. They
// stand where they lie, but for a message that was put in the place of another.
type part struct {
	at     place
	to     uint64
	stands place
}

func partOf(at place, to uint64) part { return part{at: at, to: to, stands: at} }

func (p part) len() uint64 { return p.to - p.at.seq }

// drop returns p without its first n positions.
func (p part) drop(n uint64) part {
	p.at.seq, p.stands.seq = p.at.seq+n, p.stands.seq+n
	return p
}

// keep returns the first n positions of p.
func (p part) keep(n uint64) part {
	p.to = p.at.seq + n
	return p
}

// MarshalJSON writes [rank, from, to], with the place it stands at, rank and
// position, if that is another.
func (p part) MarshalJSON() ([]byte, error) {
	if p.stands == p.at {
		return fmt.Appendf(nil, "[%d,%d,%d]", p.at.rank, p.at.seq, p.to), nil
	}
	return fmt.Appendf(nil, "[%d,%d,%d,%d,%d]", p.at.rank, p.at.seq, p.to, p.stands.rank, p.stands.seq), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *part) UnmarshalJSON(raw []byte) error {
	var n []uint64
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	if len(n) != 3 && len(n) != 5 {
		return fmt.Errorf("a part has %d numbers", len(n))
	}
	*p = partOf(place{n[0], n[1]}, n[2])
	if len(n) == 5 {
		p.stands = place{n[3], n[4]}
	}
	return nil
}

// line is what a view shows of one kind, messages or turns: parts, then the own
// log from tail up to end.
type line struct {
	parts     []part
	own       uint64
	tail, end uint64
}

// closed returns the line as parts alone.
func (l line) closed() []part {
	if l.end <= l.tail {
		return slices.Clone(l.parts)
	}
	return appendPart(slices.Clone(l.parts), partOf(place{l.own, l.tail}, l.end))
}

// appendPart adds a part, to the last one if it goes on there.
func appendPart(parts []part, p part) []part {
	if p.len() == 0 {
		return parts
	}
	if n := len(parts); n > 0 {
		last := &parts[n-1]
		goesOn := last.at.rank == p.at.rank && last.to == p.at.seq
		if goesOn && last.drop(last.len()).stands == p.stands {
			last.to = p.to
			return parts
		}
	}
	return append(parts, p)
}

func lengthOf(parts []part) (n uint64) {
	for _, p := range parts {
		n += p.len()
	}
	return n
}

func (l line) len() uint64 { return lengthOf(l.closed()) }

// has reports whether the line shows what lies at a place.
func (l line) has(at place) bool {
	for _, p := range l.closed() {
		if p.at.rank == at.rank && p.at.seq <= at.seq && at.seq < p.to {
			return true
		}
	}
	return false
}

// indexOf returns the number of what lies at a place that the line has.
func (l line) indexOf(at place) uint64 {
	n := uint64(0)
	for _, p := range l.closed() {
		if p.at.rank == at.rank && p.at.seq <= at.seq && at.seq < p.to {
			return n + at.seq - p.at.seq
		}
		n += p.len()
	}
	return n
}

// before returns how much of the line stands before a place.
func (l line) before(at place) uint64 {
	n := uint64(0)
	for _, p := range l.closed() {
		last := p.drop(p.len() - 1).stands
		if last.before(at) {
			n += p.len()
			continue
		}
		if p.stands.before(at) { // then they are of one rank
			n += at.seq - p.stands.seq
		}
		break
	}
	return n
}

// slice returns the line from number i up to, not including, j as parts.
func (l line) slice(i, j uint64) []part {
	var out []part
	first := uint64(0)
	for _, p := range l.closed() {
		from, to := max(i, first), min(j, first+p.len())
		if from < to {
			out = appendPart(out, p.keep(to-first).drop(from-first))
		}
		first += p.len()
	}
	return out
}

// at returns number i of a line that has it as a part of one.
func (l line) at(i uint64) part { return l.slice(i, i+1)[0] }

// without returns the line but for some numbers, which are in order.
func (l line) without(numbers []uint64) []part {
	var out []part
	next := uint64(0)
	for _, n := range numbers {
		out = appendParts(out, l.slice(next, n))
		next = n + 1
	}
	return appendParts(out, l.slice(next, l.len()))
}

// with returns the line with number i replaced by what lies at a place.
func (l line) with(i uint64, at place) []part {
	old := l.at(i)
	p := partOf(at, at.seq+1)
	p.stands = old.stands
	out := appendPart(l.slice(0, i), p)
	return appendParts(out, l.slice(i+1, l.len()))
}

func appendParts(parts, more []part) []part {
	for _, p := range more {
		parts = appendPart(parts, p)
	}
	return parts
}

// firstOf returns the smallest number in [0, n) for which found holds, or n, when
// found holds for every number after the first that it holds for.
func firstOf(n uint64, found func(i uint64) (bool, error)) (uint64, error) {
	var failed error
	i := sort.Search(int(n), func(i int) bool {
		if failed != nil {
			return true
		}
		ok, err := found(uint64(i))
		failed = err
		return ok
	})
	return uint64(i), failed
}

// needed returns the view with those origins only that it refers to, and those
// whose rank keep names.
func (v view) needed(keep ...uint64) view {
	used := make([]bool, len(v.Origins)+1)
	used[v.own()] = true
	mark := func(rank uint64) {
		used[rank] = true
	}
	for _, rank := range keep {
		mark(rank)
	}
	for _, parts := range [][]part{v.Messages, v.Turns} {
		for _, p := range parts {
			mark(p.at.rank)
			mark(p.stands.rank)
		}
	}
	ranks := make([]uint64, len(used))
	var origins []string
	for rank, id := range v.Origins {
		ranks[rank] = uint64(len(origins))
		if used[rank] {
			origins = append(origins, id)
		}
	}
	ranks[v.own()] = uint64(len(origins))
	out := v
	out.Origins = origins
	out.Messages, out.Turns = ranked(v.Messages, ranks), ranked(v.Turns, ranks)
	return out
}

// ranked returns parts with new ranks.
func ranked(parts []part, ranks []uint64) []part {
	out := slices.Clone(parts)
	for i := range out {
		out[i].at.rank, out[i].stands.rank = ranks[out[i].at.rank], ranks[out[i].stands.rank]
	}
	return out
}

// check refuses a view with more parts than one record should hold.
func (v *view) check(id string) error {
	if n := len(v.Origins); n > maxOrigins {
		return host.Errorf(host.ResourceExhausted, "thread %q goes back to %d others, more than %d", id, n, maxOrigins).
			WithHint("go on in a new thread with the messages that are to be kept")
	}
	if n := len(v.Messages) + len(v.Turns); n > MaxViewParts {
		return host.Errorf(host.ResourceExhausted, "thread %q has been cut into %d parts, more than %d", id, n, MaxViewParts).
			WithHint("go on in a new thread with the messages that are to be kept")
	}
	return nil
}
