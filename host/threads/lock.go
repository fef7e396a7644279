package threads

import (
	"context"
	"errors"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/turnqueue"
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
	key    turnqueue.Key
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
	key := lockKey(w.read.part.Name, id, branch)
	limit := w.store.locks.maxWaiting
	if racing != "" && racing != host.RaceWait {
		limit = 0
	}
	turn, ticket, err := w.store.locks.turns.Enter(key, limit)
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
		p.turn = p.store.locks.turns.EnterAgain(p.key, p.ticket)
	}
}

// lockNow is Lock without a look at what came before.
func (p *Place) lockNow(ctx context.Context) (unlock func(), err error) {
	unlock = sync.OnceFunc(func() { p.store.locks.turns.Leave(p.key) })
	select {
	case <-p.turn:
		return p.store.locks.lockShared(ctx, p.key, p.wait, unlock)
	case <-ctx.Done():
		p.Leave()
		return nil, contextError(ctx, "wait for thread %q", p.key.Thread)
	}
}

// Leave gives the place up before Lock.
func (p *Place) Leave() { p.store.locks.turns.GiveUp(p.key, p.turn) }

// turnLocks let one turn at a time run on a thread: of this store, and of other processes
// where they share locks.
type turnLocks struct {
	turns      turnqueue.Table[point]
	maxWaiting int
	locker     kv.Locker // nil unless other processes lock threads, too
	shared     Locks     // of several hosts; nil for one
}

// lockKey returns the key of a thread, or of a branch of it.
func lockKey(partition, thread, branch string) turnqueue.Key {
	return turnqueue.Key{Partition: partition, Thread: thread, Branch: branch}
}

// lockShared takes the lock that other processes take, too, if the driver is a
// locker. unlock releases this process's lock.
func (l *turnLocks) lockShared(ctx context.Context, key turnqueue.Key, wait bool, unlock func()) (func(), error) {
	var unlockShared func()
	var err error
	name := string(kv.NewKey("threads", key.Thread, key.Branch))
	switch {
	case l.shared != nil:
		var fence []kv.Cond
		if fence, unlockShared, err = l.shared.Lock(ctx, key.Partition, name, wait); err == nil {
			l.turns.SetFence(key, fence)
		}
	case l.locker != nil:
		unlockShared, err = l.locker.Lock(ctx, key.Partition, name, wait)
	default:
		return unlock, nil
	}
	switch {
	case err == nil:
		return sync.OnceFunc(func() { unlockShared(); unlock() }), nil
	case ctx.Err() != nil:
		err = contextError(ctx, "wait for thread %q", key.Thread)
	case errors.Is(err, kv.ErrBusy) && wait:
		err = host.Errorf(host.ResourceExhausted, "thread %q: too many turns wait for it already", key.Thread).
			WithHint("send the next message when an answer has come")
	case errors.Is(err, kv.ErrBusy):
		err = host.Errorf(host.Conflict, "another turn is running on thread %q", key.Thread)
	default:
		err = wrap(err, "wait for thread %q", key.Thread)
	}
	unlock()
	return nil, err
}
