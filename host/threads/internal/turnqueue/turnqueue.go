package turnqueue

import (
	"cmp"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// Key names a thread, or a branch of it.
type Key struct{ Partition, Thread, Branch string }

// Table holds a queue for each thread that a turn is running on, and
// nothing for others. P is a point of a thread. The zero table is ready, and safe for
// concurrent use.
type Table[P any] struct {
	mu     sync.Mutex
	queues map[Key]*queue[P]
	ticket int64 // the last one
}

// queue holds the turns that wait behind the running one. A channel is closed
// when its owner's turn has come.
type queue[P any] struct {
	waiting []waiter  // by their tickets
	before  *P        // the thread's point when the running turn began; nil if it wrote nothing yet
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

// SetFence sets the conditions of the commits of the turn that runs on a thread.
func (l *Table[P]) SetFence(key Key, fence []kv.Cond) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		q.fence = fence
	}
}

// Fence returns the conditions under which this process has a thread's lock among several;
// nil if no turn of it runs there, or it is alone.
func (l *Table[P]) Fence(key Key) []kv.Cond {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		return q.fence
	}
	return nil
}

// Began records the point of a thread before the first commit of the turn that
// runs on it, if one does. A commit that is tried again begins at the point that it
// has read again.
func (l *Table[P]) Began(key Key, run string, before P) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil && !q.written {
		q.before, q.run = &before, run
	}
}

// HeadOf returns the head that the first commit of a run's turn left a thread with, ""
// unless that turn has the thread.
func (l *Table[P]) HeadOf(key Key, run string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil && q.written && q.run == run {
		return q.head
	}
	return ""
}

// Wrote keeps the point that Began has recorded: the turn's first commit is done, and left
// the thread with a head.
func (l *Table[P]) Wrote(key Key, head string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		q.written, q.head = q.before != nil, head
	}
}

// Before returns the point of a thread before the turn that runs on it; nil if
// no turn runs or it has written nothing yet.
func (l *Table[P]) Before(key Key) *P {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		return q.before
	}
	return nil
}

// Enter joins the queue, unless limit turns wait already. The channel is closed when the
// caller holds the thread; either [Table.Leave] or [Table.GiveUp] follows. Codes:
// resource_exhausted beyond the limit, conflict for one of 0 while another turn runs.
func (l *Table[P]) Enter(key Key, limit int) (turn <-chan struct{}, ticket int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch q := l.queues[key]; {
	case q == nil:
	case limit == 0:
		return nil, 0, fault.Errorf(fault.Conflict, "another turn is running on thread %q", key.Thread)
	case len(q.waiting) >= limit:
		return nil, 0, fault.Errorf(fault.ResourceExhausted, "thread %q: %d turns wait for it already", key.Thread, len(q.waiting)).
			WithHint("send the next message when an answer has come")
	}
	l.ticket++
	return l.join(key, l.ticket), l.ticket, nil
}

// EnterAgain joins the queue at the place of a ticket, of a turn that has left. No limit
// holds.
func (l *Table[P]) EnterAgain(key Key, ticket int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.join(key, ticket)
}

// join adds a turn to the queue. l.mu is held.
func (l *Table[P]) join(key Key, ticket int64) <-chan struct{} {
	turn := make(chan struct{})
	if q := l.queues[key]; q != nil {
		at, _ := slices.BinarySearchFunc(q.waiting, ticket, func(w waiter, ticket int64) int { return cmp.Compare(w.ticket, ticket) })
		q.waiting = slices.Insert(q.waiting, at, waiter{turn, ticket})
		return turn
	}
	if l.queues == nil {
		l.queues = map[Key]*queue[P]{}
	}
	l.queues[key] = &queue[P]{}
	close(turn)
	return turn
}

// Leave hands the thread to the next in the queue.
func (l *Table[P]) Leave(key Key) {
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

// Count returns how many threads have a queue.
func (l *Table[P]) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queues)
}

// Waiting returns how many turns wait behind the one that runs on a thread.
func (l *Table[P]) Waiting(key Key) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; q != nil {
		return len(q.waiting)
	}
	return 0
}

// GiveUp leaves the queue. If the turn had come in the same moment, it goes to
// the next.
func (l *Table[P]) GiveUp(key Key, turn <-chan struct{}) {
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
	l.Leave(key)
}
