package threads

import (
	"cmp"
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/idgroup"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// ForkOptions are the optional parts of a fork.
type ForkOptions struct {
	ID       string // default: a fresh UUIDv7
	At       At     // the moment to fork from; default: now
	Title    string // default: the thread's
	Metadata Metadata
}

// Fork makes a new thread that begins at a moment of another: with its messages,
// turns, state and artifacts. Both continue independently. The new thread refers
// to the log of the old one, so a fork costs a few hundred bytes however long
// the conversation is, and the shared part of the log stays when the old thread
// is deleted.
//
// Code not_found if there is no such thread or moment, already_exists if there
// is a thread of the new id, and as of [Tenant.Create].
func (tn *Tenant) Fork(ctx context.Context, id string, opts *ForkOptions) (*Thread, error) {
	if opts == nil {
		opts = &ForkOptions{}
	}
	fork := cmp.Or(opts.ID, host.NewID())
	if err := cmp.Or(checkTitle(fork, opts.Title), opts.Metadata.check(fork)); err != nil {
		return nil, err
	}
	t, err := tn.write.commit(ctx, fork, "fork into thread", func(d *draft) error {
		if d.thread.revision != 0 {
			return host.Errorf(host.AlreadyExists, "there is a thread %q", fork).WithHint("choose another id")
		}
		from, err := tn.write.read.find(ctx, id)
		if err != nil {
			return err
		}
		d.thread.rec.Title = cmp.Or(opts.Title, from.rec.Title)
		d.thread.rec.Metadata = opts.Metadata.clone()
		return d.fork(ctx, from, opts.At)
	})
	if err != nil {
		return nil, err
	}
	return t.Thread(), nil
}

// fork makes the draft's new thread begin at a moment of another. The commit
// requires that the other's record is unchanged: a deleted thread lends nothing.
func (d *draft) fork(ctx context.Context, from *Moment, at At) error {
	to, err := from.at(ctx, at)
	if err != nil {
		return err
	}
	v, err := to.forkedView(ctx)
	if err != nil {
		return err
	}
	d.tx.require(kv.AtRevision(threadKey(from.rec.ID), from.revision))
	p := to.rec.point
	d.thread.rec.State, d.thread.rec.Last, d.thread.rec.Status = p.State, p.Last, p.Status
	d.thread.rec.Parent = &Parent{Thread: from.rec.ID, Snapshot: p.Last}
	if late := from.rec.late(); late != nil {
		if err := d.index.putWith(ctx, late); err != nil {
			return err
		}
	}
	if ids := from.rec.IDs; ids != nil && !ids.Older && to.rec.Content == from.rec.Content {
		d.thread.rec.IDs = &idState{Last: idgroup.ID(ids.bound), bound: ids.bound}
	}
	d.refer(v)
	d.moveHead()
	return d.show(v)
}

// forkedView returns the view of a new content that continues from this moment.
// The view keeps only the origins that hold one of its parts or the state.
func (t *Moment) forkedView(ctx context.Context) (view.View, error) {
	v := t.closedView()
	v.Origins = append(v.Origins[:len(v.Origins):len(v.Origins)], t.rec.Content)
	v.Tail, v.TurnTail = 0, 0
	if t.rec.State == nil || *t.rec.State == emptyObjectRef { // which lies nowhere
		return v.WithNeededOrigins(), nil
	}
	for rank := v.OwnRank(); rank > 0; rank-- {
		has, err := t.contents().get(ctx, contentOf(v.Origins[rank-1]).blob(t.rec.State.Digest))
		if err != nil {
			return view.View{}, err
		}
		if has != nil {
			return v.WithNeededOrigins(rank - 1), nil
		}
	}
	return view.View{}, damaged("state of thread %q is missing", t.rec.ID)
}

// refer keeps the contents that a view refers to for as long as the draft's content
// lives.
func (d *draft) refer(v view.View) {
	for _, id := range v.Origins {
		d.tx.put(childKeys.With(id, d.thread.rec.Content), nil)
	}
}
