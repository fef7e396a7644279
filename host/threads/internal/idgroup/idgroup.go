package idgroup

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
)

// Group is the index of messages that follow each other in the log, and of the run whose
// turn they are.
type Group struct {
	From uint64 `json:"from"` // position of the first message
	IDs  List   `json:"ids,omitempty"`
	Run  ID     `json:"run,omitempty"`
	Turn uint64 `json:"turn,omitempty"` // of the run
}

// Stored returns the group as its entry has it. A run without a turn is left out, and so is
// one that is the key of the entry.
func (g Group) Stored(key string) Group {
	if g.Turn == 0 || string(g.Run) == key {
		g.Run = ""
	}
	return g
}

// Restore undoes [Group.Stored].
func (g *Group) Restore(key string) {
	if g.Turn > 0 && g.Run == "" {
		g.Run = ID(key)
	}
}

// Position returns the position in the log of a message with an ordered id.
func (g *Group) Position(id string) (seq uint64, ok bool) {
	i := g.IDs.index(id)
	return g.From + uint64(max(i, 0)), i >= 0
}

// First returns the least id, under which the entry is stored; empty without any.
func (g *Group) First() string {
	least := -1
	for i := range g.IDs.Len() {
		if !g.IDs.slot(i).IsZero() && (least < 0 || bytes.Compare(g.IDs.slot(i), g.IDs.slot(least)) < 0) {
			least = i
		}
	}
	run := string(g.Run)
	if least < 0 {
		return run
	}
	if id := g.IDs.At(least); run == "" || id < run {
		return id
	}
	return run
}

// Last returns the greatest id.
func (g *Group) Last() string {
	if g.IDs.IsZero() {
		return string(g.Run)
	}
	last := 0
	for i := range g.IDs.Len() {
		if bytes.Compare(g.IDs.slot(i), g.IDs.slot(last)) > 0 {
			last = i
		}
	}
	return max(string(g.Run), g.IDs.At(last))
}

// ID is an id that is stored as its bytes.
type ID string

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, List(nil).Append(string(id))), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw) != IDBytes {
		return errors.New("not an ordered id")
	}
	*id = ID(List(raw).At(0))
	return nil
}

// List is a list of ordered ids, the bytes of one after the other. A message with an
// entry of its own has zeros.
type List []byte

// IDBytes is the size of an id in a [List].
const IDBytes = 16

// Len returns the number of messages that the list is of.
func (l List) Len() int { return len(l) / IDBytes }

// slot returns the bytes of an id.
func (l List) slot(i int) List { return l[i*IDBytes : (i+1)*IDBytes] }

// At returns an id, empty for zeros.
func (l List) At(i int) string {
	raw := l.slot(i)
	if raw.IsZero() {
		return ""
	}
	var text [36]byte
	for i, part := range [][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		hex.Encode(text[2*part[0]+i:], raw[part[0]:part[1]])
		if i > 0 {
			text[2*part[0]+i-1] = '-'
		}
	}
	return string(text[:])
}

// index returns the index of an id, -1 if the list does not have it.
func (l List) index(id string) int {
	var want List
	want = want.Append(id)
	for i := range l.Len() {
		if bytes.Equal(l.slot(i), want) {
			return i
		}
	}
	return -1
}

// Append adds an ordered id, or zeros for an empty one.
func (l List) Append(id string) List {
	if id == "" {
		return append(l, make([]byte, IDBytes)...)
	}
	for i := 0; i < len(id); i += 2 {
		if id[i] == '-' {
			i++
		}
		l = append(l, fromHex(id[i])<<4|fromHex(id[i+1]))
	}
	return l
}

func fromHex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// IsWhole reports whether the list ends with a whole id. What it has behind the last whole
// one counts for nothing.
func (l List) IsWhole() bool { return len(l)%IDBytes == 0 }

// IsZero reports whether the list has no id.
func (l List) IsZero() bool { return len(bytes.TrimLeft(l[:l.Len()*IDBytes], "\x00")) == 0 }

// Remove replaces an id by zeros.
func (l List) Remove(i int) { clear(l.slot(i)) }

// IsOrdered reports whether an id is a UUIDv7 in lower case, as host.NewID makes them.
func IsOrdered(id string) bool {
	if len(id) != len("01a22050-0a40-77e4-b1f3-36a6e4daf13b") || id[14] != '7' {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c < '0' || c > '9' && c < 'a' || c > 'f':
			return false
		}
	}
	return true
}
