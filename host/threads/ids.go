package threads

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// This file is the index of the ids of messages and runs.
//
// An id that another program has chosen has an entry of its own. Ids of this program
// ascend with time ([host.NewID]), and those of one turn come together: the messages and
// the run share an entry, under the least of the ids. The entry of such an id is the last
// one that is not above it, for a later group begins above all ids of the earlier ones.
// An ordered id that comes later than its time has an entry of its own.
//
// The index of a user's message waits in the thread's record, which the turn writes
// again, so that a turn writes its entries once. Any other commit writes the waiting
// entries, and so does a fork, which goes back to the log but not to the record.

// idGroup is the index of messages that follow each other in the log, and of the run whose
// turn they are.
type idGroup struct {
	From uint64    `json:"from"` // position of the first message
	IDs  idList    `json:"ids,omitempty"`
	Run  orderedID `json:"run,omitempty"`
	Turn uint64    `json:"turn,omitempty"` // of the run
}

// storedGroup is a group as the index has it. A run that is the least of the ids is left
// out: it is in the key.
type storedGroup struct {
	version
	idGroup
}

// entry returns the group as an entry of a content's index.
func (g idGroup) entry(in content, key string) (kv.Write, error) {
	if g.Turn == 0 || string(g.Run) == key {
		g.Run = ""
	}
	raw, err := encode(storedGroup{version{layout}, g})
	return kv.Put(in.idsFrom(key), raw), err
}

// decodeGroup returns the group of an entry of a content's index.
func (c contents) decodeGroup(in content, e kv.Entry) (*idGroup, error) {
	g := &storedGroup{}
	err := decode(e.Value, g, "index of ids of thread", c.thread)
	if g.Turn > 0 && g.Run == "" {
		rest, _ := e.Key.CutPrefix(in.ids())
		run, _, _ := rest.CutString()
		g.Run = orderedID(run)
	}
	return &g.idGroup, err
}

// position returns the position of a message in the log.
func (g *idGroup) position(id string) (seq uint64, ok bool) {
	i := g.IDs.index(id)
	return g.From + uint64(max(i, 0)), i >= 0
}

// first returns the least id, under which the entry is stored; empty without any.
func (g *idGroup) first() string {
	least := -1
	for i := range g.IDs.len() {
		if !g.IDs.slot(i).isZero() && (least < 0 || bytes.Compare(g.IDs.slot(i), g.IDs.slot(least)) < 0) {
			least = i
		}
	}
	run := string(g.Run)
	if least < 0 {
		return run
	}
	if id := g.IDs.at(least); run == "" || id < run {
		return id
	}
	return run
}

// last returns the greatest id.
func (g *idGroup) last() string {
	if g.IDs.isZero() {
		return string(g.Run)
	}
	last := 0
	for i := range g.IDs.len() {
		if bytes.Compare(g.IDs.slot(i), g.IDs.slot(last)) > 0 {
			last = i
		}
	}
	return max(string(g.Run), g.IDs.at(last))
}

// orderedID is an id that is stored as its bytes.
type orderedID string

// MarshalText implements [encoding.TextMarshaler].
func (id orderedID) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, idList(nil).append(string(id))), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *orderedID) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw) != idBytes {
		return errors.New("not an ordered id")
	}
	*id = orderedID(idList(raw).at(0))
	return nil
}

// idList is a list of ordered ids, the bytes of one after the other. A message with an
// entry of its own has zeros.
type idList []byte

const idBytes = 16

func (l idList) len() int { return len(l) / idBytes }

// slot returns the bytes of an id.
func (l idList) slot(i int) idList { return l[i*idBytes : (i+1)*idBytes] }

// at returns an id, empty for zeros.
func (l idList) at(i int) string {
	raw := l.slot(i)
	if raw.isZero() {
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
func (l idList) index(id string) int {
	var want idList
	want = want.append(id)
	for i := range l.len() {
		if bytes.Equal(l.slot(i), want) {
			return i
		}
	}
	return -1
}

// append adds an ordered id, or zeros for an empty one.
func (l idList) append(id string) idList {
	if id == "" {
		return append(l, make([]byte, idBytes)...)
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

// isZero reports whether the list has no id.
func (l idList) isZero() bool { return len(bytes.TrimLeft(l, "\x00")) == 0 }

// without replaces an id by zeros.
func (l idList) without(i int) { clear(l.slot(i)) }

// idState is the part of a thread's record about the index of its content.
type idState struct {
	// Last is not below any ordered id that the content has, but those of Late.
	Last orderedID `json:"last,omitempty"`
	// Older says that the content may have greater ones in entries of their own, of the
	// time before there were groups, or may go back to contents that have.
	Older bool `json:"older,omitempty"`
	// Late is the index of the last messages of the log if it was not written yet.
	Late *lateIndex `json:"late,omitempty"`

	bound string // Last, or the greatest of Late
}

// lateIndex is the index of the last messages of the log, whose entries the next commit
// writes.
type lateIndex struct {
	IDs   idList    `json:"ids,omitempty"`
	Run   orderedID `json:"run,omitempty"` // whose turn they begin
	in    string    // id of the content
	from  uint64    // position of the first message
	words []byte    // their entry in the word index; nil if the record was read
}

// group returns the messages and the run as a group.
func (l *lateIndex) group() *idGroup { return &idGroup{From: l.from, IDs: l.IDs, Run: l.Run} }

// setPlace sets the members of the index that waits in the record that the rest of the
// record gives.
func (r *record) setPlace() error {
	late := r.late()
	if r.IDs != nil {
		r.IDs.bound = string(r.IDs.Last)
	}
	if late == nil {
		return nil
	}
	if late.IDs.len() > int(r.Messages) {
		return damaged("record of thread %q is damaged", r.ID)
	}
	late.in, late.from = r.Content, r.Messages-uint64(late.IDs.len())
	r.IDs.bound = max(r.IDs.bound, late.group().last())
	return nil
}

// readWords makes the entries of the word index of the messages. A damaged message has
// none, and does not keep its thread from being deleted or repaired.
func (l *lateIndex) readWords(ctx context.Context, part partition, thread string, index *wordindex.Index) ([]wordindex.Entry, error) {
	from := contents{part: part, thread: thread}
	e, err := log{from: from}.entryAt(ctx, contentOf(l.in), l.from)
	if err != nil {
		return nil, unlessDamaged(err)
	}
	return index.Entries(l.from, e.cut(l.from, e.end()).messages), nil
}

func unlessDamaged(err error) error {
	if host.CodeOf(err) == host.DataLoss {
		return nil
	}
	return err
}

// late returns the index that waits in the record; nil if none does.
func (r *record) late() *lateIndex {
	if r.IDs == nil {
		return nil
	}
	return r.IDs.Late
}

// isOrdered reports whether an id is a UUIDv7 in lower case, as [host.NewID] makes them.
func isOrdered(id string) bool {
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

// grouped returns the position of a message that is indexed in a group.
func (c contents) grouped(ctx context.Context, in content, id string) (seq uint64, found bool, err error) {
	if !isOrdered(id) {
		return 0, false, nil
	}
	if c.late != nil && contentOf(c.late.in) == in {
		if seq, found = c.late.group().position(id); found {
			return seq, true, nil
		}
	}
	g, err := c.groupOf(ctx, in, id)
	if err != nil || g == nil {
		return 0, false, err
	}
	seq, found = g.position(id)
	return seq, found, nil
}

// groupOf returns the only group that may have an id; nil if there is none.
func (c contents) groupOf(ctx context.Context, in content, id string) (*idGroup, error) {
	page, err := c.part.scan(ctx, kv.Range{Prefix: in.ids(), From: in.idsFrom(id), Reverse: true, Limit: 1})
	if err != nil {
		return nil, wrap(err, "read thread %q", c.thread)
	}
	if len(page.Entries) == 0 {
		return nil, nil
	}
	return c.decodeGroup(in, page.Entries[0])
}

// turnOf returns where the index of runs says that the turn of a run is: its number, or
// the other content that has the turn. found is false if the index has no such run.
func (c contents) turnOf(ctx context.Context, in content, run string) (n uint64, elsewhere string, found bool, err error) {
	raw, err := c.get(ctx, in.run(run))
	if err != nil {
		return 0, "", false, err
	}
	if raw == nil {
		if !isOrdered(run) {
			return 0, "", false, nil
		}
		g, err := c.groupOf(ctx, in, run)
		if err != nil || g == nil || string(g.Run) != run || g.Turn == 0 {
			return 0, "", false, err
		}
		return g.Turn, "", true, nil
	}
	var other runElsewhere
	if len(raw) > 1 && raw[1] == '{' {
		if kv.DecodeRecord(raw, &other) != nil || other.Content == "" {
			return 0, "", false, damaged("index of runs of thread %q is damaged", c.thread)
		}
		return 0, other.Content, true, nil
	}
	if kv.DecodeRecord(raw, &n) != nil {
		return 0, "", false, damaged("index of runs of thread %q is damaged", c.thread)
	}
	return n, "", true, nil
}
