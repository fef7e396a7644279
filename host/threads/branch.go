package threads

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// Branch implements [host.Brancher]: the conversation of the branch continues beside
// the thread's main line, which stays unchanged, head included. Without a message the
// branch begins before the turn that holds the thread, at the moment that LockThread
// and AppendUserMessage of this Store recorded; if another process that shares the lock
// runs that turn, the branch begins after the turn before it.
func (s *Store) Branch(ctx context.Context, req *host.HistoryRequest, message string) (string, error) {
	var name string
	_, err := s.writer(req.Tenant).commit(ctx, req.Thread, "begin a branch of thread", func(d *draft) error {
		if message != "" && d.thread.revision == 0 {
			return notFound(req.Thread)
		}
		from, cause, err := d.branchPoint(ctx, message)
		if err != nil {
			return err
		}
		if err := d.branchOff(ctx, from, cause, message); err != nil {
			return err
		}
		name = branchID(d.thread.rec.Heads)
		return nil
	})
	return name, err
}

// branchPoint returns the moment that a branch begins at.
func (d *draft) branchPoint(ctx context.Context, message string) (from *Moment, cause Cause, err error) {
	if message != "" {
		from, err = d.thread.atInput(ctx, message)
		return from, Regenerated, err
	}
	if before := d.by.store.locks.turns.Before(lockKey(d.by.read.part.Name, d.thread.rec.ID, "")); before != nil && before.Content == d.thread.rec.Content {
		from, err = d.thread.moment(ctx, *before)
		return from, Raced, err
	}
	if d.by.store.locks.locker == nil {
		return d.thread, Raced, nil
	}
	from, err = d.thread.afterLastTurn(ctx) // the turn that runs may be another process's
	return from, Raced, err
}

// afterLastTurn returns the moment at which the thread's last turn ended,
// without later messages.
func (t *Moment) afterLastTurn(ctx context.Context) (*Moment, error) {
	turns := t.turnList()
	n := turns.Len()
	if n == 0 {
		return t.upTo(ctx, 0)
	}
	last := turns.At(n - 1)
	snap, err := t.turns().at(ctx, t.contents().at(last.At.Rank), last.To)
	if err != nil {
		return nil, err
	}
	return t.upTo(ctx, t.messageList().CountBefore(view.Position{Rank: last.At.Rank, Seq: uint64(max(snap.To, 0))}))
}

// atInput returns the thread with a user's message as its last.
func (t *Moment) atInput(ctx context.Context, message string) (*Moment, error) {
	near, i, err := t.log().around(ctx, message)
	if err != nil {
		return nil, err
	}
	if near[i].Role != host.User {
		return nil, host.Errorf(host.InvalidArgument, "message %q of thread %q is the %s's, and only a user's can be answered", message, t.rec.ID, near[i].Role)
	}
	return t.upTo(ctx, near[i].number+1)
}

// branchOff adds to the lineage a branch that begins at a moment and has a content of
// its own. The thread's main line and its head stay unchanged.
func (d *draft) branchOff(ctx context.Context, from *Moment, cause Cause, message string) error {
	v, err := from.forkedView(ctx)
	if err != nil {
		return err
	}
	b := &draft{by: d.by, thread: &Moment{part: d.thread.part, rec: d.thread.rec}, tx: d.tx}
	p := from.rec.point
	b.thread.rec.point = point{Head: host.NewID(), Content: host.NewID(), State: p.State, Last: p.Last, Status: p.Status}
	b.thread.content = contentOf(b.thread.rec.Content)
	b.refer(v)
	if err := b.show(v); err != nil {
		return err
	}
	b.tx.put(d.thread.root().owned().With(b.thread.rec.Content), nil)
	d.thread.rec.Heads++
	head := storedHead{version: version{V: layoutOfViews}, Point: b.thread.rec.point, Cause: cause, Message: message, Left: d.by.store.now().UTC(), Own: true}
	raw, err := encode(head)
	if err != nil {
		return err
	}
	b.tx.put(d.thread.root().head(d.thread.rec.Heads), raw)
	d.tx = b.tx // one commit for both
	return nil
}

// branchHead is the branch of its thread that a thread was opened on.
type branchHead struct {
	storedHead
	number   uint64
	revision uint64
	main     record // of its thread
}

// onBranch returns the thread on an open branch, one that accepts turns. Code not_found
// if the thread has no such branch, failed_precondition if the branch was left behind.
func (t *Moment) onBranch(ctx context.Context, branch string) (*Moment, error) {
	id, n := t.rec.ID, branchNumber(branch)
	if n == 0 || n > t.rec.Heads {
		return nil, noBranch(id, branch)
	}
	e, err := t.part.Get(ctx, t.root().head(n))
	if err != nil {
		return nil, wrap(err, "read branch %s of thread %q", branch, id)
	}
	b := &branchHead{number: n, revision: e.Revision, main: t.rec}
	if err := decode(e.Value, &b.storedHead, "branch of thread", id); err != nil {
		return nil, err
	}
	if !b.Own {
		return nil, host.Errorf(host.FailedPrecondition, "branch %s of thread %q has been left behind", branch, id).
			WithHint("rewind the thread to it, or fork it")
	}
	out, err := t.moment(ctx, b.Point)
	if err == nil {
		out.branch = b
	}
	return out, err
}

func noBranch(id, branch string) error {
	return host.Errorf(host.NotFound, "thread %q has no branch %.80q", id, branch).
		WithHint("list the branches of the thread for those it has")
}

// applyToBranch commits a draft of a branch, unless another commit has changed the
// branch since or the removal of its content has begun. Turns on the thread's main line
// do not disturb the commit.
func (d *draft) applyToBranch(ctx context.Context) error {
	h := d.thread.branch.storedHead
	h.Point, h.version = d.thread.rec.point, version{V: d.thread.rec.headLayout()}
	raw, err := encode(h)
	if err != nil {
		return err
	}
	key, here := d.thread.root().head(d.thread.branch.number), d.thread.root().owned().With(d.thread.rec.Content)
	d.tx.requireFirst(kv.AtRevision(key, d.thread.branch.revision), kv.Fence(here, nil))
	d.tx.put(key, raw)
	if main := d.thread.branch.main; main.Heads != d.thread.rec.Heads { // heads are numbered in the thread
		main.Heads = d.thread.rec.Heads
		main.V = main.layout()
		if raw, err = encode(main); err != nil {
			return err
		}
		d.tx.require(kv.AtRevision(threadKey(main.ID), d.thread.revision))
		d.tx.put(threadKey(main.ID), raw)
	}
	_, err = d.tx.commit(ctx)
	return err
}

// Regenerate implements [host.Regenerator]: the thread is rewound to the message, and
// its present head is kept in the lineage. Regenerate does not wait for the thread,
// which the calling run holds.
func (s *Store) Regenerate(ctx context.Context, req *host.HistoryRequest, message string) (head string, err error) {
	t, err := s.writer(req.Tenant).commitOn(ctx, req.Thread, req.Branch, "rewind thread", func(d *draft) error {
		if d.thread.revision == 0 {
			return notFound(req.Thread)
		}
		to, err := d.thread.atInput(ctx, message)
		if err != nil {
			return err
		}
		if d.shows(to) {
			return errNothing
		}
		d.begins(req)
		return d.showAgain(to, Regenerated, message)
	})
	if err != nil {
		return "", err
	}
	s.locks.turns.Wrote(lockKey(t.part.Name, req.Thread, req.Branch), t.rec.Head)
	return t.rec.Head, nil
}
