package threads

import (
	"bytes"
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/idgroup"
	"github.com/agenthost/agenthost/host/threads/internal/stateblob"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// DamagedText is the text of the messages that [Tenant.Repair] puts in the place of
// damaged ones.
const DamagedText = "(This message was damaged in storage and is lost.)"

// Repaired says what [Tenant.Repair] has replaced.
type Repaired struct {
	// Messages are the ids of the messages whose content is lost: their places have
	// [DamagedText] now.
	Messages []string `json:"messages"`
	// State reports that the thread's present state was lost. The thread has the state
	// after the turn StateOf, the last one whose state can be read; empty: none.
	State   bool   `json:"state,omitempty"`
	StateOf string `json:"state_of,omitempty"`
}

// Repair replaces the damaged entries of a thread that keep it from being read, so that
// readers see the rest of the conversation and new turns can follow: a damaged message by
// [DamagedText], in its place and with its id, and a damaged present state by the last
// readable one. Intact entries stay, and so do numbers of messages, turns and branches.
// Threads forked from this one show the same replacements. The
// replaced messages are lost: restore a backup instead, if there is one.
//
// Code not_found if there is no such thread, data_loss if its own record is damaged, which
// only a backup repairs. It waits for a turn that runs on the thread, as
// [Store.LockThread] does.
func (tn *Tenant) Repair(ctx context.Context, id string) (*Repaired, error) {
	out, err := tn.repair(ctx, id)
	if err == nil && tn.write.store.repaired != nil {
		err = tn.write.store.repaired(ctx)
	}
	return out, err
}

func (tn *Tenant) repair(ctx context.Context, id string) (*Repaired, error) {
	unlock, err := tn.write.lock(ctx, id, host.RaceWait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer tn.write.store.windows.dropTenant(tn.write.read.part.Name) // forks show the replacements, too
	t, err := tn.write.read.find(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &repairer{contents: t.contents(), shown: map[content][]view.Part{}, out: Repaired{Messages: []string{}}}
	if err := r.findShown(ctx, t); err != nil {
		return nil, err
	}
	for rank := range r.contents.ownRank() + 1 {
		if err := r.repairLog(ctx, r.contents.at(rank)); err != nil {
			return nil, err
		}
	}
	if _, _, err := t.states(ctx); host.CodeOf(err) != host.DataLoss {
		return &r.out, err
	}
	return &r.out, r.repairState(ctx, tn.write, t)
}

// repairer replaces damaged entries of the contents of a thread.
type repairer struct {
	contents contents
	shown    map[content][]view.Part // of the logs, by the thread and its heads
	out      Repaired
}

// findShown finds the parts of logs that a thread and the heads that it has left behind
// show, as far as the heads can be read. [Tenant.PruneHeads] removes other entries.
func (r *repairer) findShown(ctx context.Context, t *Moment) error {
	r.addShown(t)
	for h, err := range t.lineage().all(ctx) {
		if host.CodeOf(err) == host.DataLoss {
			return nil
		}
		if err != nil {
			return err
		}
		switch then, err := t.moment(ctx, h.Point); {
		case err == nil:
			r.addShown(then)
		case host.CodeOf(err) != host.DataLoss:
			return err
		}
	}
	return nil
}

func (r *repairer) addShown(t *Moment) {
	for _, p := range t.messageList().Parts() {
		c := t.contents().at(p.At.Rank)
		r.shown[c] = append(r.shown[c], p)
	}
}

// shows reports whether the thread or a head shows the message at a position of a log.
func (r *repairer) shows(c content, at uint64) bool {
	return slices.ContainsFunc(r.shown[c], func(p view.Part) bool { return p.At.Seq <= at && at < p.To })
}

// readableEntry is where an entry of a log that can be read begins and ends.
type readableEntry struct{ first, end uint64 }

// repairLog replaces the messages of a content's log that cannot be read: those of damaged
// entries, and the missing ones that the thread shows. Where nothing shows a message, its
// entry may have been removed.
func (r *repairer) repairLog(ctx context.Context, c content) error {
	ids, err := r.idsOf(ctx, c)
	if err != nil {
		return err
	}
	end := uint64(0)
	for _, p := range r.shown[c] {
		end = max(end, p.To)
	}
	for seq := range ids {
		end = max(end, seq+1)
	}
	readable, damagedAt, err := r.readLog(ctx, c)
	if err != nil {
		return err
	}
	for at := range damagedAt {
		end = max(end, at+1)
	}
	next := uint64(0)
	for _, e := range append(readable, readableEntry{end, end}) {
		afterDamage := false // the damaged entry may have had several messages
		for at := next; at < e.first; at++ {
			_, isDamaged := damagedAt[at]
			afterDamage = afterDamage || isDamaged
			if !isDamaged && !r.shows(c, at) && (!afterDamage || ids[at] == "") {
				continue
			}
			if err := r.replace(ctx, c, at, ids[at], damagedAt[at]); err != nil {
				return err
			}
		}
		next = max(next, e.end)
	}
	return nil
}

// idsOf returns the ids of a log's messages by position, as far as the index can be read.
func (r *repairer) idsOf(ctx context.Context, c content) (map[uint64]string, error) {
	prefix, ids := c.all().With("message"), map[uint64]string{}
	for e, err := range kv.EachEntry(ctx, r.contents.part.Driver, r.contents.part.Name, prefix) {
		if err != nil && e.Key == "" {
			return nil, wrap(err, "read thread %q", r.contents.thread)
		}
		rest, _ := e.Key.CutPrefix(prefix)
		id, _, ok := rest.CutString()
		if err != nil || !ok {
			continue
		}
		positions, err := positionsOf(e.Value)
		if err != nil {
			continue
		}
		for _, seq := range positions {
			ids[seq] = id
		}
	}
	return ids, r.addGroupedIDs(ctx, c, ids)
}

// addGroupedIDs adds the ids that the index has in groups.
func (r *repairer) addGroupedIDs(ctx context.Context, c content, ids map[uint64]string) error {
	add := func(g *idgroup.Group) {
		for i := range g.IDs.Len() {
			if id := g.IDs.At(i); id != "" {
				ids[g.From+uint64(i)] = id
			}
		}
	}
	for e, err := range kv.EachEntry(ctx, r.contents.part.Driver, r.contents.part.Name, c.ids()) {
		if err != nil && e.Key == "" {
			return wrap(err, "read thread %q", r.contents.thread)
		}
		if err != nil {
			continue
		}
		if g, err := r.contents.decodeGroup(c, e); err == nil {
			add(g)
		}
	}
	if late := r.contents.late; late != nil && contentOf(late.in) == c {
		add(late.group())
	}
	return nil
}

// readLog returns the entries of a log that can be read, in order, and the stored bytes of
// the others by the position in their keys.
func (r *repairer) readLog(ctx context.Context, c content) (readable []readableEntry, damagedAt map[uint64][]byte, err error) {
	damagedAt = map[uint64][]byte{}
	for e, err := range kv.EachEntry(ctx, r.contents.part.Driver, r.contents.part.Name, c.log()) {
		if err != nil && e.Key == "" {
			return nil, nil, wrap(err, "read thread %q", r.contents.thread)
		}
		rest, _ := e.Key.CutPrefix(c.log())
		first, _, ok := rest.CutUint()
		if !ok {
			continue
		}
		if err != nil {
			damagedAt[first] = e.Value
			continue
		}
		entry, err := log{from: r.contents}.decode(ctx, c, e)
		switch {
		case host.CodeOf(err) == host.DataLoss:
			damagedAt[first] = e.Value
		case err != nil:
			return nil, nil, err
		default:
			readable = append(readable, readableEntry{first, entry.end()})
		}
	}
	return readable, damagedAt, nil
}

// replace stores a message in the place of one that cannot be read. stored is its entry,
// if there is one; it tells the role unless the damage is there.
func (r *repairer) replace(ctx context.Context, c content, at uint64, id string, stored []byte) error {
	m := host.AssistantText(DamagedText)
	if bytes.Contains(stored, []byte(`"role":"user"`)) {
		m = host.UserText(DamagedText)
	}
	var writes []kv.Write
	if m.ID = id; id == "" {
		m.ID = chat.RandomID() // an ordered id would have to be above the others
		position, err := encode(at)
		if err != nil {
			return err
		}
		writes = append(writes, kv.Put(c.message(m.ID), position))
	}
	value := chat.AppendMessagesJSON([]byte{formatJSON}, []*host.Message{m})
	_, err := r.contents.part.Apply(ctx, kv.Tx{Writes: append(writes, kv.Put(c.logAt(at), value))})
	if err != nil {
		return wrap(err, "repair thread %q", r.contents.thread)
	}
	r.out.Messages = append(r.out.Messages, m.ID)
	return nil
}

// repairState gives a thread the state of its last turn whose state can be read.
func (r *repairer) repairState(ctx context.Context, write threadWriter, t *Moment) error {
	r.out.State = true
	state, err := r.lastState(ctx, t)
	if err != nil {
		return err
	}
	_, err = write.commit(ctx, t.rec.ID, "repair thread", func(d *draft) error {
		if d.thread.revision == 0 {
			return notFound(t.rec.ID)
		}
		d.thread.rec.State = state
		d.moveHead()
		return nil
	})
	return err
}

// lastState returns the state of the last turn whose snapshot and state can be read, nil if
// there is none.
func (r *repairer) lastState(ctx context.Context, t *Moment) (*Ref, error) {
	for _, p := range slices.Backward(t.turnList().Parts()) {
		for n := p.To; n > p.At.Seq; n-- {
			snap, err := t.turns().at(ctx, r.contents.at(p.At.Rank), n)
			if err == nil && snap.State != nil {
				var blob []byte
				if blob, err = r.contents.readBlob(ctx, snap.State, "state"); err == nil {
					_, _, err = stateblob.Split(blob)
				}
			}
			switch {
			case host.CodeOf(err) == host.DataLoss:
			case err != nil:
				return nil, err
			case snap.State != nil:
				r.out.StateOf = snap.ID
				return snap.State, nil
			}
		}
	}
	return nil, nil
}
