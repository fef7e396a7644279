package threads

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/idgroup"
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

// storedGroup is a group as the index has it: see [idgroup.Group.Stored].
type storedGroup struct {
	version
	idgroup.Group
}

// groupEntry returns a group as an entry of a content's index.
func groupEntry(g idgroup.Group, in content, key string) (kv.Write, error) {
	raw, err := encode(storedGroup{version{V: layout}, g.Stored(key)})
	return kv.Put(in.idsFrom(key), raw), err
}

// decodeGroup returns the group of an entry of a content's index.
func (c contents) decodeGroup(in content, e kv.Entry) (*idgroup.Group, error) {
	g := &storedGroup{}
	err := decode(e.Value, g, "index of ids of thread", c.thread)
	rest, _ := e.Key.CutPrefix(in.ids())
	key, _, _ := rest.CutString()
	g.Restore(key)
	if err == nil && !g.IDs.IsWhole() {
		err = damaged("index of ids of thread %q is damaged", c.thread)
	}
	return &g.Group, err
}

// idState is the part of a thread's record about the index of its content.
type idState struct {
	// Last is not below any ordered id that the content has, but those of Late.
	Last idgroup.ID `json:"last,omitempty"`
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
	IDs   idgroup.List `json:"ids,omitempty"`
	Run   idgroup.ID   `json:"run,omitempty"` // whose turn they begin
	in    string       // id of the content
	from  uint64       // position of the first message
	words []byte       // their entry in the word index; nil if the record was read
}

// group returns the messages and the run as a group.
func (l *lateIndex) group() *idgroup.Group {
	return &idgroup.Group{From: l.from, IDs: l.IDs, Run: l.Run}
}

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
	if !late.IDs.IsWhole() || late.IDs.Len() > int(r.Messages) {
		return damaged("record of thread %q is damaged", r.ID)
	}
	late.in, late.from = r.Content, r.Messages-uint64(late.IDs.Len())
	r.IDs.bound = max(r.IDs.bound, late.group().Last())
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

// grouped returns the position of a message that is indexed in a group.
func (c contents) grouped(ctx context.Context, in content, id string) (seq uint64, found bool, err error) {
	if !idgroup.IsOrdered(id) {
		return 0, false, nil
	}
	if c.late != nil && contentOf(c.late.in) == in {
		if seq, found = c.late.group().Position(id); found {
			return seq, true, nil
		}
	}
	g, err := c.groupOf(ctx, in, id)
	if err != nil || g == nil {
		return 0, false, err
	}
	seq, found = g.Position(id)
	return seq, found, nil
}

// groupOf returns the only group that may have an id; nil if there is none.
func (c contents) groupOf(ctx context.Context, in content, id string) (*idgroup.Group, error) {
	page, err := c.part.Scan(ctx, kv.Range{Prefix: in.ids(), From: in.idsFrom(id), Reverse: true, Limit: 1})
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
		if !idgroup.IsOrdered(run) {
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
