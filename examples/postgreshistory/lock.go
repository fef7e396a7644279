package postgreshistory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// LeaseTime is how long a host that died holds its threads.
const LeaseTime = 15 * time.Second

// How often a lease is renewed, and how often a host asks for one that another
// host holds.
const (
	renewEvery   = LeaseTime / 5
	firstAsk     = 5 * time.Millisecond
	longestAsk   = 250 * time.Millisecond
	leaseTimeout = 5 * time.Second // for one statement about a lease
)

// LockThread implements [host.ThreadLocker]: turns on one thread run one after
// another, those of this process in the order in which they asked. A host that
// waits for another asks four times a second.
//
// A run that does not wait (req.Racing) gets code conflict if another holds it.
//
// Code invalid_argument without a thread id, resource_exhausted when
// Options.MaxWaiting turns of this process wait already, ctx's error when that
// ends first. unlock may be called more than once.
func (s *Store) LockThread(ctx context.Context, req *host.HistoryRequest) (unlock func(), err error) {
	k, err := keyOf(req.Tenant, req.Thread)
	if err != nil {
		return nil, err
	}
	waits := req.Racing == "" || req.Racing == host.RaceWait
	limit := s.maxWaiting
	if !waits {
		limit = -1
	}
	leave, err := s.locks.wait(ctx, k, limit)
	if err != nil {
		return nil, wrap(err, "wait for thread %q", req.Thread)
	}
	holder := host.NewID()
	if err := s.waitForLease(ctx, k, holder, waits); err != nil {
		leave()
		return nil, wrap(err, "wait for thread %q", req.Thread)
	}
	stop, left := make(chan struct{}), make(chan struct{})
	s.held.Go(func() {
		defer close(left)
		s.renew(k, holder, stop)
		s.giveBack(k, holder)
		leave()
	})
	return sync.OnceFunc(func() {
		close(stop)
		<-left // or the next turn, which does not wait, would be refused
	}), nil
}

// waitForLease asks until the lease is ours, or once.
func (s *Store) waitForLease(ctx context.Context, k key, holder string, waits bool) error {
	for wait := firstAsk; ; wait = min(2*wait, longestAsk) {
		tag, err := s.pool.Exec(ctx, s.sql(`insert into {schema}.locks as l (tenant, thread, holder, until)
			values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
			on conflict (tenant, thread) do update set holder = excluded.holder, until = excluded.until
			where l.until < clock_timestamp()`), k.tenant, k.thread, holder, LeaseTime.Seconds())
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		if !waits {
			return errHeld(k)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fault.ContextError(ctx)
		}
	}
}

func errHeld(k key) error {
	return host.Errorf(host.Conflict, "another turn is running on thread %q", k.thread)
}

// renew keeps the lease until stop is closed. It only logs a lost lease: the
// thread's head then guards the commits of the run.
func (s *Store) renew(k key, holder string, stop <-chan struct{}) {
	ticker := time.NewTicker(s.renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		kept, err := s.keepLease(k, holder)
		if err != nil {
			s.logger.Warn("lease on a thread is not renewed", "thread", k.thread, "error", err)
			continue
		}
		if !kept {
			s.logger.Warn("lease on a thread is lost", "thread", k.thread)
		}
	}
}

func (s *Store) keepLease(k key, holder string) (kept bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, s.sql(`update {schema}.locks set until = clock_timestamp() + make_interval(secs => $4)
		where tenant = $1 and thread = $2 and holder = $3`), k.tenant, k.thread, holder, LeaseTime.Seconds())
	return err == nil && tag.RowsAffected() == 1, err
}

func (s *Store) giveBack(k key, holder string) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, s.sql(`delete from {schema}.locks where tenant = $1 and thread = $2 and holder = $3`),
		k.tenant, k.thread, holder); err != nil {
		s.logger.Warn("lease on a thread is left to run out", "thread", k.thread, "error", err)
	}
}

// lockTable holds a queue for each thread that a turn of this process is
// running on or waiting for. The zero table is ready.
type lockTable struct {
	mu     sync.Mutex
	queues map[key][]chan struct{} // the first has the turn, the others wait
}

// wait joins the queue and waits for its head. leave must be called once.
func (l *lockTable) wait(ctx context.Context, k key, limit int) (leave func(), err error) {
	turn, err := l.join(k, limit)
	if err != nil {
		return nil, err
	}
	leave = func() { l.leave(k, turn) }
	select {
	case <-ctx.Done():
		leave()
		return nil, fault.ContextError(ctx)
	default:
	}
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, fault.ContextError(ctx)
	}
}

func (l *lockTable) join(k key, limit int) (chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queues[k]
	if limit < 0 && len(queue) > 0 {
		return nil, errHeld(k)
	}
	if limit >= 0 && len(queue) > limit {
		return nil, host.Errorf(host.ResourceExhausted, "thread %q: %d turns wait for it already", k.thread, len(queue)-1).
			WithHint("send the next message when an answer has come")
	}
	if l.queues == nil {
		l.queues = map[key][]chan struct{}{}
	}
	turn := make(chan struct{})
	if len(queue) == 0 {
		close(turn)
	}
	l.queues[k] = append(queue, turn)
	return turn, nil
}

// leave takes a turn out of the queue and wakes the next if it was the first.
func (l *lockTable) leave(k key, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queues[k]
	i := slices.Index(queue, turn)
	queue = slices.Delete(queue, i, i+1)
	if len(queue) == 0 {
		delete(l.queues, k)
		return
	}
	l.queues[k] = queue
	if i == 0 {
		close(queue[0])
	}
}
