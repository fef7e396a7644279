package threads

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// errNothing is what a build returns when there is nothing to commit.
var errNothing = errors.New("nothing to commit")

// draft is a commit to one thread being put together.
type draft struct {
	by      threadWriter
	thread  *Moment // as of after the commit
	before  record  // as of before the commit
	careful bool    // look every message id up instead of betting that it is new
	tx      txBuilder
	index   indexer
}

func newDraft(by threadWriter, t *Moment, careful bool) *draft {
	d := &draft{by: by, thread: t, before: t.rec, careful: careful, tx: newTxBuilder(t.part, t.rec.ID, t.revision == 0)}
	d.index = indexer{dictionary: by.store.index, before: &d.before, thread: t, tx: &d.tx}
	return d
}

// commit reads a thread, calls build to change it and commits the change. When another
// commit comes first it starts again. build may get a thread that does not exist yet
// (revision 0), and returns errNothing to commit nothing. commit returns the thread
// after the commit.
func (w threadWriter) commit(ctx context.Context, id, doing string, build func(*draft) error) (*Moment, error) {
	return w.commitOn(ctx, id, "", doing, build)
}

// commitOn is commit to a branch of a thread. A branch is not made by it.
//
// The first attempt is built on the thread as this store's last commit has left it, if
// that is known. The thread may have changed since: then the attempt fails, and whatever
// an attempt finds wrong is looked at again on a thread that is read.
func (w threadWriter) commitOn(ctx context.Context, id, branch, doing string, build func(*draft) error) (*Moment, error) {
	return w.commitFrom(ctx, w.remembered(id, branch), id, branch, doing, build)
}

// commitFrom is commitOn whose first attempt is built on t, which may be nil.
func (w threadWriter) commitFrom(ctx context.Context, t *Moment, id, branch, doing string, build func(*draft) error) (*Moment, error) {
	var d *draft
	drops := w.store.windows.countDrops()
	isGiven := t != nil
	for attempt := range maxAttempts {
		if attempt == queueAfter {
			retrying := w.store.retries.of(w.read.part.Name, id)
			retrying.Lock()
			defer retrying.Unlock()
		}
		if attempt > 0 || !isGiven {
			var err error
			if t, err = w.openOrNew(ctx, id, branch); err != nil {
				return nil, err
			}
		}
		if d != nil && d.tx.isAhead && d.thread.root() != t.root() {
			_ = sweeper{w.read.part}.discard(ctx, d.thread.rec.Content) // the thread was deleted since; leftovers only take space
		}
		d = newDraft(w, t, attempt > 0)
		if err := build(d); err != nil {
			switch {
			case isGiven && attempt == 0:
				continue
			case errors.Is(err, errNothing):
				return t, nil
			}
			return nil, wrap(err, "%s %q", doing, id)
		}
		fence := d.requireLock(branch)
		err := d.apply(ctx)
		if err == nil {
			w.store.windows.remember(d.thread, drops)
			w.store.windows.dropBefore(d)
			return d.thread, nil
		}
		w.store.windows.forget(w.read.part.Name, id)
		if !errors.Is(err, kv.ErrPrecondition) {
			return nil, wrap(err, "%s %q", doing, id)
		}
		if lostLock(err, fence) {
			return nil, errLostLock(doing, id)
		}
	}
	return nil, host.Errorf(host.Conflict, "%s %q: others changed it first, %d times", doing, id, maxAttempts).
		WithHint("try again, with fewer writers at once")
}

// remembered returns the thread as this store's last commit has left it; nil if that is
// not known, and for a branch.
func (w threadWriter) remembered(id, branch string) *Moment {
	if branch != "" || w.read.err != nil {
		return nil
	}
	return w.store.windows.record(w.read.part.Name, id)
}

// requireLock makes the commit one of the process that has the thread's lock among
// several, if a turn of this process runs there.
func (d *draft) requireLock(branch string) []kv.Cond {
	fence := d.by.store.locks.turns.Fence(lockKey(d.thread.part.Name, d.thread.rec.ID, branch))
	for _, c := range fence {
		d.tx.require(c)
	}
	return fence
}

func errLostLock(doing, id string) error {
	return host.Errorf(host.Conflict, "%s %q: another host has taken the thread from this one, which was silent for too long", doing, id).
		WithHint("send the message again")
}

// lostLock reports whether a commit failed because its fence does not hold.
func lostLock(err error, fence []kv.Cond) bool {
	var failed *kv.PreconditionError
	if !errors.As(err, &failed) {
		return false
	}
	return slices.ContainsFunc(fence, func(c kv.Cond) bool { return failed.Cond.Kind == kv.CondFence && failed.Cond.Key == c.Key })
}

// retryLocks serialize the commits that have lost a thread to other writers
// several times. Several threads share a lock, which costs them time and nothing
// else.
type retryLocks struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func (r *retryLocks) of(partition, thread string) *sync.Mutex {
	return &r.locks[maphash.Comparable(r.seed, [2]string{partition, thread})%uint64(len(r.locks))]
}

// openOrNew returns a thread, or one to be made. The content of a new thread gets an id
// that no other attempt has used: the chunks that an earlier attempt wrote ahead may be
// under removal.
func (w threadWriter) openOrNew(ctx context.Context, id, branch string) (*Moment, error) {
	t, err := w.read.openOn(ctx, id, branch)
	if err != nil || t != nil {
		return t, err
	}
	return w.newThread(id), nil
}

// newThread returns a thread to be made.
func (w threadWriter) newThread(id string) *Moment {
	now := w.store.now().UTC()
	rec := record{version: version{V: layout}, ID: id, Created: now, Updated: now, point: point{Content: host.NewID()}}
	return &Moment{part: w.read.part, rec: rec, content: contentOf(rec.Content)}
}

// moveHead gives the thread a new head and the time.
func (d *draft) moveHead() {
	d.thread.rec.Head = host.NewID()
	if now := d.by.store.now().UTC(); now.After(d.thread.rec.Updated) { // a clock may go back, a list must not
		d.thread.rec.Updated = now
	}
}

// apply commits the draft unless another commit has changed the thread since the draft
// read it.
func (d *draft) apply(ctx context.Context) error {
	if err := d.index.put(ctx); err != nil {
		return err
	}
	if d.thread.branch != nil {
		return d.applyToBranch(ctx)
	}
	d.thread.rec.V = d.thread.rec.layout()
	raw, err := encode(d.thread.rec)
	if err != nil {
		return err
	}
	key := threadKey(d.thread.rec.ID)
	d.tx.requireFirst(kv.AtRevision(key, d.thread.revision))
	d.tx.put(key, raw)
	d.moveInList()
	d.thread.revision, err = d.tx.commit(ctx)
	return err
}

// moveInList moves the thread to its place in the list of recent ones.
func (d *draft) moveInList() {
	now := recentKey(d.thread.rec.Updated, d.thread.rec.ID)
	if d.thread.revision == 0 {
		d.tx.put(now, nil)
		return
	}
	if old := recentKey(d.before.Updated, d.thread.rec.ID); old != now {
		d.tx.put(now, nil)
		d.tx.delete(old)
	}
}

// putState stores custom state unless the thread has the same.
func (d *draft) putState(ctx context.Context, state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	if !json.Valid(state) {
		return host.Errorf(host.InvalidArgument, "state of thread %q is not JSON", d.thread.rec.ID)
	}
	if ref := refTo(state); d.thread.rec.State != nil && *d.thread.rec.State == *ref {
		d.thread.known.learn(ref, state)
		return nil
	}
	var err error
	if d.thread.rec.State, err = d.tx.putBlob(ctx, d.thread.contents(), state); err == nil {
		d.thread.known.learn(d.thread.rec.State, state)
	}
	return err
}
