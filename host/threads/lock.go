package threads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// LockThread implements [host.ThreadLocker]: turns on one thread, or on one branch of
// it, run one after another, in the order in which they asked. The lock holds within
// this Store and, if the driver is a [kv.Locker] or with Options.Locks, among all
// processes that share these; turns of other processes meet at the head, where one of
// them gets a conflict. With Options.Locks every commit to a locked thread has the
// lock's fence, so that a process which was paused, and lost the lock, gets code
// conflict.
//
// Code invalid_argument without a thread id, resource_exhausted when
// Options.MaxWaiting turns wait already, ctx's error when that ends first,
// conflict for a turn that does not wait (req.Racing) while another runs. unlock
// may be called more than once.
func (s *Store) LockThread(ctx context.Context, req *host.HistoryRequest) (unlock func(), err error) {
	p, err := s.TakePlace(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.Lock(ctx)
}

// Place is a place among the turns of a thread, which was taken before the turn
// runs. Either [Place.Lock] or [Place.Leave] ends it.
type Place struct {
	store  *Store
	key    lockKey
	ticket int64 // which says who comes first
	turn   <-chan struct{}
	wait   bool      // for the lock that processes share
	own    [2]string // the turn's run, and the one that it resumes
}

// TakePlace takes the next place among the turns of req's thread without waiting for
// it, so that a caller can acknowledge a turn and run it later: turns that ask for the
// thread from then on, in this Store, come after it. Codes are those of
// [Store.LockThread].
func (s *Store) TakePlace(ctx context.Context, req *host.HistoryRequest) (*Place, error) {
	p, err := s.writer(req.Tenant).takePlace(ctx, req.Thread, req.Branch, req.Racing)
	if err == nil {
		p.own = [2]string{req.Run, req.Resumes}
	}
	return p, err
}

func (w threadWriter) takePlace(ctx context.Context, id, branch string, racing host.Racing) (*Place, error) {
	if w.read.err != nil {
		return nil, w.read.err
	}
	if err := ValidateID(id); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx, "wait for thread %q", id)
	}
	key := lockKey{w.read.part.name, id, branch}
	limit := w.store.maxWaiting
	if racing != "" && racing != host.RaceWait {
		limit = 0
	}
	turn, ticket, err := w.store.locks.enter(key, limit)
	if err != nil {
		return nil, err
	}
	return &Place{store: w.store, key: key, ticket: ticket, turn: turn, wait: limit > 0}, nil
}

// Lock waits until the place is the first and returns unlock, which gives the
// thread to the next and may be called more than once. If Lock fails the place
// is given up.
//
// A run whose host has died or has lost the store comes before turns that have the thread
// after it, until another host or Options.Interrupted continues it: such turns wait for that,
// though not for long.
func (p *Place) Lock(ctx context.Context) (unlock func(), err error) {
	patience := interruptedRuns{place: p}
	for {
		unlock, err := p.lockNow(ctx)
		if err != nil {
			return nil, err
		}
		first, err := patience.next(ctx)
		if first == nil && err == nil {
			return unlock, nil
		}
		unlock()
		if err == nil {
			err = patience.wait(ctx, first)
		}
		if err != nil {
			return nil, err
		}
		p.turn = p.store.locks.enterAgain(p.key, p.ticket)
	}
}

// lockNow is Lock without a look at what came before.
func (p *Place) lockNow(ctx context.Context) (unlock func(), err error) {
	unlock = sync.OnceFunc(func() { p.store.locks.leave(p.key) })
	select {
	case <-p.turn:
		return p.store.lockShared(ctx, p.key, p.wait, unlock)
	case <-ctx.Done():
		p.Leave()
		return nil, contextError(ctx, "wait for thread %q", p.key.thread)
	}
}

// Leave gives the place up before Lock.
func (p *Place) Leave() { p.store.locks.giveUp(p.key, p.turn) }

// lockShared takes the lock that other processes take, too, if the driver is a
// locker. unlock releases this process's lock.
func (s *Store) lockShared(ctx context.Context, key lockKey, wait bool, unlock func()) (func(), error) {
	var unlockShared func()
	var err error
	name := string(kv.NewKey("threads", key.thread, key.branch))
	switch {
	case s.shared != nil:
		var fence []kv.Cond
		if fence, unlockShared, err = s.shared.Lock(ctx, key.partition, name, wait); err == nil {
			s.locks.setFence(key, fence)
		}
	case s.locker != nil:
		unlockShared, err = s.locker.Lock(ctx, key.partition, name, wait)
	default:
		return unlock, nil
	}
	switch {
	case err == nil:
		return sync.OnceFunc(func() { unlockShared(); unlock() }), nil
	case ctx.Err() != nil:
		err = contextError(ctx, "wait for thread %q", key.thread)
	case errors.Is(err, kv.ErrBusy) && wait:
		err = host.Errorf(host.ResourceExhausted, "thread %q: too many turns wait for it already", key.thread).
			WithHint("send the next message when an answer has come")
	case errors.Is(err, kv.ErrBusy):
		err = host.Errorf(host.Conflict, "another turn is running on thread %q", key.thread)
	default:
		err = wrap(err, "wait for thread %q", key.thread)
	}
	unlock()
	return nil, err
}

type lockKey struct{ partition, thread, branch string }

// lockTable holds a queue for each thread that a turn is running on, and
// nothing for others. The zero table is ready.
type lockTable struct {
	mu     sync.Mutex
	queues map[lockKey]*queue
	ticket int64 // the last one
}

// queue holds the turns that wait behind the running one. A channel is closed
// when its owner's turn has come.
type queue struct {
	waiting []waiter  // by their tickets
	before  *point    // the thread's point when the running turn began; nil if it wrote nothing yet
	run     string    // of the running turn, if before is set
	written bool      // the commit that began the turn is done, and before stays
	head    string    // of the thread after that commit
	fence   []kv.Cond // that hold while this process has the lock among several
}

// waiter is a turn that waits.
type waiter struct {
	turn   chan struct{}
	ticket int64
}

// setFence sets the conditions of the commits of the turn that runs on a thread.
func (l *lockTable) setFence(key lockKey, fence []kv.Cond) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		q.fence = fence
	}
}

// fence returns the conditions under which this process has a thread's lock among several;
// nil if no turn of it runs there, or it is alone.
func (l *lockTable) fence(key lockKey) []kv.Cond {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		return q.fence
	}
	return nil
}

// began records the point of a thread before the first commit of the turn that
// runs on it, if one does. A commit that is tried again begins at the point that it
// has read again.
func (l *lockTable) began(key lockKey, run string, before point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil && !q.written {
		q.before, q.run = &before, run
	}
}

// headOf returns the head that the first commit of a run's turn left a thread with, ""
// unless that turn has the thread.
func (l *lockTable) headOf(key lockKey, run string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil && q.written && q.run == run {
		return q.head
	}
	return ""
}

// wrote keeps the point that began has recorded: the turn's first commit is done, and left
// the thread with a head.
func (l *lockTable) wrote(key lockKey, head string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		q.written, q.head = q.before != nil, head
	}
}

// before returns the point of a thread before the turn that runs on it; nil if
// no turn runs or it has written nothing yet.
func (l *lockTable) before(key lockKey) *point {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		return q.before
	}
	return nil
}

// enter joins the queue. The channel is closed when the caller holds the thread.
func (l *lockTable) enter(key lockKey, limit int) (turn <-chan struct{}, ticket int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch q := l.queues[key]; {
	case q == nil:
	case limit == 0:
		return nil, 0, host.Errorf(host.Conflict, "another turn is running on thread %q", key.thread)
	case len(q.waiting) >= limit:
		return nil, 0, host.Errorf(host.ResourceExhausted, "thread %q: %d turns wait for it already", key.thread, len(q.waiting)).
			WithHint("send the next message when an answer has come")
	}
	l.ticket++
	return l.join(key, l.ticket), l.ticket, nil
}

// enterAgain joins the queue at the place of a ticket.
func (l *lockTable) enterAgain(key lockKey, ticket int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.join(key, ticket)
}

// join adds a turn to the queue. l.mu is held.
func (l *lockTable) join(key lockKey, ticket int64) <-chan struct{} {
	turn := make(chan struct{})
	if q := l.queues[key]; q != nil {
		at, _ := slices.BinarySearchFunc(q.waiting, ticket, func(w waiter, ticket int64) int { return cmp.Compare(w.ticket, ticket) })
		q.waiting = slices.Insert(q.waiting, at, waiter{turn, ticket})
		return turn
	}
	if l.queues == nil {
		l.queues = map[lockKey]*queue{}
	}
	l.queues[key] = &queue{}
	close(turn)
	return turn
}

// leave hands the thread to the next in the queue.
func (l *lockTable) leave(key lockKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[key]
	if len(q.waiting) == 0 {
		delete(l.queues, key)
		return
	}
	close(q.waiting[0].turn)
	q.waiting, q.before, q.written, q.fence = q.waiting[1:], nil, false, nil
}

// giveUp leaves the queue. If the turn had come in the same moment, it goes to
// the next.
func (l *lockTable) giveUp(key lockKey, turn <-chan struct{}) {
	l.mu.Lock()
	q := l.queues[key]
	for i, w := range q.waiting {
		if w.turn == turn {
			q.waiting = slices.Delete(q.waiting, i, i+1)
			l.mu.Unlock()
			return
		}
	}
	l.mu.Unlock()
	l.leave(key)
}
