package view

import (
	"encoding/json"
	"fmt"
	"slices"
)

// View says which messages and turns a head shows: parts of logs in the order of the
// conversation, and then the head's own log from the tails on. The zero View shows the
// whole own log. Its JSON is part of stored data.
type View struct {
	// Origins are the ids of the contents that parts lie in besides the own one, in
	// the order of their ranks: those of ancestors first. All views of a content have
	// the same ones.
	Origins  []string `json:"origins,omitempty"`
	Messages []Part   `json:"messages,omitempty"`
	Turns    []Part   `json:"turns,omitempty"`
	// Tail and TurnTail are the positions from which on the own log is shown, after
	// the parts.
	Tail     uint64 `json:"tail,omitempty"`
	TurnTail uint64 `json:"turn_tail,omitempty"`
}

// OwnRank returns the rank of the view's own content: it comes after the origins.
func (v *View) OwnRank() uint64 { return uint64(len(v.Origins)) }

// MessageList returns the messages that the view shows of logs, if the own log has
// end messages.
func (v *View) MessageList(end uint64) List {
	return List{parts: v.Messages, own: v.OwnRank(), tail: v.Tail, end: end}
}

// TurnList returns the turns that the view shows, if the own content has end turns.
// The first turn has number 0.
func (v *View) TurnList(end uint64) List {
	return List{parts: v.Turns, own: v.OwnRank(), tail: v.TurnTail, end: end}
}

// Valid reports whether every part lies in a content that the view names and is not
// empty, so that it can be read.
func (v *View) Valid() bool {
	for _, parts := range [][]Part{v.Messages, v.Turns} {
		for _, p := range parts {
			if p.At.Rank > v.OwnRank() || p.Stands.Rank > v.OwnRank() || p.To <= p.At.Seq {
				return false
			}
		}
	}
	return true
}

// WithNeededOrigins returns the view without the origins that no part refers to.
// Those whose ranks are in keep stay. Ranks in parts are changed accordingly.
func (v View) WithNeededOrigins(keep ...uint64) View {
	used := make([]bool, len(v.Origins)+1)
	used[v.OwnRank()] = true
	for _, rank := range keep {
		used[rank] = true
	}
	for _, parts := range [][]Part{v.Messages, v.Turns} {
		for _, p := range parts {
			used[p.At.Rank], used[p.Stands.Rank] = true, true
		}
	}
	newRanks := make([]uint64, len(used))
	var origins []string
	for rank, id := range v.Origins {
		newRanks[rank] = uint64(len(origins))
		if used[rank] {
			origins = append(origins, id)
		}
	}
	newRanks[v.OwnRank()] = uint64(len(origins))
	out := v
	out.Origins = origins
	out.Messages, out.Turns = withRanks(v.Messages, newRanks), withRanks(v.Turns, newRanks)
	return out
}

// withRanks returns a copy of parts in which each rank is replaced by newRanks[rank].
func withRanks(parts []Part, newRanks []uint64) []Part {
	out := slices.Clone(parts)
	for i := range out {
		out[i].At.Rank, out[i].Stands.Rank = newRanks[out[i].At.Rank], newRanks[out[i].Stands.Rank]
	}
	return out
}

// Position is a position in the log of one content, which is named by its rank among
// a view's contents. Positions are ordered as the conversation grew.
type Position struct{ Rank, Seq uint64 }

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.Rank < q.Rank || p.Rank == q.Rank && p.Seq < q.Seq
}

// Part is a run of consecutive positions of one log, from At up to, not including, To.
// Stands is the position whose place in the conversation the first of them takes: At
// itself, except for a message that replaces another.
type Part struct {
	At     Position
	To     uint64
	Stands Position
}

// NewPart returns the positions from at up to, not including, to, each in its own
// place.
func NewPart(at Position, to uint64) Part { return Part{At: at, To: to, Stands: at} }

// Len returns how many positions the part has.
func (p Part) Len() uint64 { return p.To - p.At.Seq }

// Has reports whether a position is in the part.
func (p Part) Has(at Position) bool {
	return p.At.Rank == at.Rank && p.At.Seq <= at.Seq && at.Seq < p.To
}

// drop returns p without its first n positions.
func (p Part) drop(n uint64) Part {
	p.At.Seq, p.Stands.Seq = p.At.Seq+n, p.Stands.Seq+n
	return p
}

// keep returns the first n positions of p.
func (p Part) keep(n uint64) Part {
	p.To = p.At.Seq + n
	return p
}

// MarshalJSON writes [rank, from, to], followed by the rank and the position of Stands
// if that is not At.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.Stands == p.At {
		return fmt.Appendf(nil, "[%d,%d,%d]", p.At.Rank, p.At.Seq, p.To), nil
	}
	return fmt.Appendf(nil, "[%d,%d,%d,%d,%d]", p.At.Rank, p.At.Seq, p.To, p.Stands.Rank, p.Stands.Seq), nil
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (p *Part) UnmarshalJSON(raw []byte) error {
	var n []uint64
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	if len(n) != 3 && len(n) != 5 {
		return fmt.Errorf("a part has %d numbers", len(n))
	}
	*p = NewPart(Position{n[0], n[1]}, n[2])
	if len(n) == 5 {
		p.Stands = Position{n[3], n[4]}
	}
	return nil
}

// TotalLen returns how many positions the parts have together.
func TotalLen(parts []Part) (n uint64) {
	for _, p := range parts {
		n += p.Len()
	}
	return n
}

// appendPart appends p to parts, extending the last part if p continues it.
func appendPart(parts []Part, p Part) []Part {
	if p.Len() == 0 {
		return parts
	}
	if n := len(parts); n > 0 {
		last := &parts[n-1]
		adjacent := last.At.Rank == p.At.Rank && last.To == p.At.Seq
		if adjacent && last.drop(last.Len()).Stands == p.Stands {
			last.To = p.To
			return parts
		}
	}
	return append(parts, p)
}

func appendParts(parts, more []Part) []Part {
	for _, p := range more {
		parts = appendPart(parts, p)
	}
	return parts
}
