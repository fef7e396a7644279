package threads

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Restoring writes a conversation that comes from elsewhere into a thread, some messages
// and turns at a time, for package transfer. Each of its commits is refused with code
// conflict if another writer has changed the thread since the one before. It is used by
// one goroutine.
type Restoring struct {
	write   threadWriter
	thread  *Moment // as the last commit left it
	updated time.Time
	created bool
}

// Restore makes the thread of an id with the title, metadata and times of info, or
// returns the one that exists. Times to come become the present, or the thread would head
// every list. Codes are those of [Tenant.Create].
func (tn *Tenant) Restore(ctx context.Context, id string, info *Thread) (*Restoring, error) {
	if err := cmp.Or(checkTitle(id, info.Title), info.Metadata.check(id)); err != nil {
		return nil, err
	}
	r := &Restoring{write: tn.write, updated: info.Updated}
	var err error
	r.thread, err = tn.write.commit(ctx, id, "import thread", func(d *draft) error {
		if r.created = d.thread.revision == 0; !r.created {
			return errNothing
		}
		rec := &d.thread.rec
		rec.Title, rec.Metadata = info.Title, info.Metadata.clone()
		rec.Created, rec.Updated = r.past(info.Created), r.past(info.Updated)
		if rec.Updated.Before(rec.Created) {
			rec.Updated = rec.Created
		}
		rec.Head = host.NewID()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Created reports whether Restore has made the thread.
func (r *Restoring) Created() bool { return r.created }

// Moment returns the thread as the last commit left it.
func (r *Restoring) Moment() *Moment { return r.thread }

// past returns t, or the present if t is zero or to come.
func (r *Restoring) past(t time.Time) time.Time {
	now := r.write.store.now().UTC()
	if t.IsZero() || t.After(now) {
		return now
	}
	return t.UTC()
}

// commit changes the thread if no other writer has.
func (r *Restoring) commit(ctx context.Context, build func(*draft) error) error {
	t, err := r.write.commit(ctx, r.thread.rec.ID, "import thread", func(d *draft) error {
		if d.thread.rec.Head != r.thread.rec.Head {
			return host.Errorf(host.Conflict, "another writer has changed it").WithHint("import it again: stored messages are not stored twice")
		}
		if err := build(d); err != nil {
			return err
		}
		d.thread.rec.Head = host.NewID()
		if updated := r.past(r.updated); updated.After(d.thread.rec.Updated) {
			d.thread.rec.Updated = updated
		}
		return nil
	})
	if err == nil {
		r.thread = t
	}
	return err
}

// AppendMessages adds messages to the end of the thread. The first message of a user
// titles a thread that has no title. Code invalid_argument if the thread has a message of
// one of the ids, or two of the messages have the same.
func (r *Restoring) AppendMessages(ctx context.Context, messages []*host.Message) error {
	first := r.thread.rec.shownMessages()
	return r.commit(ctx, func(d *draft) error {
		n, err := d.append(ctx, messages)
		if err == nil && n != len(messages) {
			err = host.Errorf(host.InvalidArgument, "a message's id is given twice among messages %d to %d", first, first+len(messages)-1)
		}
		if i := slices.IndexFunc(messages, isInput); d.thread.rec.Title == "" && i >= 0 {
			d.thread.rec.Title = titleOf(messages[i])
		}
		return err
	})
}

func isInput(m *host.Message) bool { return m.Role == host.User }

// RestoredTurn is a turn of a conversation that was stored elsewhere.
type RestoredTurn struct {
	// Snapshot is the snapshot of the turn. From and To are numbers of messages that
	// the thread shows; Turn and State are set by AppendTurns.
	Snapshot *Snapshot
	// State is the thread's state after the turn, as [Moment.State] has it in one blob;
	// nil if the turn left none, or the same as the turn before it (SameState).
	State     json.RawMessage
	SameState bool
}

// AppendTurns adds turns behind those that the thread has.
func (r *Restoring) AppendTurns(ctx context.Context, turns []RestoredTurn) error {
	return r.commit(ctx, func(d *draft) error {
		for _, turn := range turns {
			if err := d.restoreTurn(ctx, turn); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *draft) restoreTurn(ctx context.Context, turn RestoredTurn) error {
	snap, rec := *turn.Snapshot, &d.thread.rec
	snap.Error = shortened(snap.Error)
	if turn.State != nil {
		if err := d.putState(ctx, turn.State); err != nil {
			return err
		}
	}
	if turn.State != nil || turn.SameState {
		snap.State = rec.State
	}
	rec.Turns++
	rec.Last, rec.Status = snap.ID, snap.Status
	snap.Turn = int(rec.Turns)
	snap.From += int(rec.HiddenMessages) // of the messages that show, and now of the log
	snap.To += int(rec.HiddenMessages)
	return d.putSnapshot(&snap, "")
}

// PutArtifact stores the content of an artifact, which belongs to the thread once Finish
// lists it.
func (r *Restoring) PutArtifact(ctx context.Context, a *host.Artifact) error {
	raw, err := artifactJSON(a)
	if err != nil {
		return err
	}
	if stored, err := r.thread.contents().hasBlob(ctx, digestOf(raw)); err != nil || stored {
		return err
	}
	return r.commit(ctx, func(d *draft) error {
		_, err := d.tx.putBlob(ctx, d.thread.contents(), raw)
		return err
	})
}

// Finish gives the thread its present state, as one blob, and lists artifacts that
// PutArtifact has stored. A nil state and an empty list change nothing, and neither do
// those that the thread has. Code conflict if the content of an artifact was pruned
// meanwhile.
func (r *Restoring) Finish(ctx context.Context, state json.RawMessage, artifacts []ArtifactInfo) error {
	current := r.thread.rec.State
	newState := state != nil && (current == nil || *current != *refTo(state))
	if !newState && len(artifacts) == 0 {
		return nil
	}
	return r.commit(ctx, func(d *draft) error {
		if len(artifacts) > 0 {
			if err := d.listArtifacts(ctx, artifacts); err != nil {
				return err
			}
		}
		return d.putState(ctx, state)
	})
}

// listArtifacts gives the thread artifacts whose content is stored. Nothing has referred
// to that until now, so pruning the thread may have removed it.
func (d *draft) listArtifacts(ctx context.Context, artifacts []ArtifactInfo) error {
	in := d.thread.contents()
	for _, a := range artifacts {
		if stored, err := in.hasBlob(ctx, a.Digest); err != nil {
			return err
		} else if !stored {
			return host.Errorf(host.Conflict, "its heads were pruned meanwhile").WithHint("import it again")
		}
	}
	list, err := encode(artifacts)
	if err != nil {
		return err
	}
	value, err := d.tx.valueOf(ctx, in, list)
	if err == nil {
		d.tx.put(in.own.artifactsOf(d.thread.rec.Turns), value)
	}
	return err
}

// Undo deletes the thread if Restore has made it and no other writer has changed it.
func (r *Restoring) Undo(ctx context.Context) error {
	if !r.created {
		return nil
	}
	t, err := r.write.read.open(ctx, r.thread.rec.ID)
	if err != nil || t == nil || t.rec.Head != r.thread.rec.Head {
		return nil // the rest can be imported again
	}
	if err := r.write.deleteIf(ctx, r.thread.rec.ID, nil); err != nil && host.CodeOf(err) != host.NotFound {
		return err
	}
	return nil
}
