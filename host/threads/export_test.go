package threads

import "time"

// What the tests need of the inside.

// SetNow gives a store another clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// Queues is for how many threads LockThread holds a queue.
func (s *Store) Queues() int {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	return len(s.locks.queues)
}

// Waiting is how many wait for a thread.
func (s *Store) Waiting(partition, thread string) int {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	q := s.locks.queues[lockKey{partition, thread, ""}]
	if q == nil {
		return 0
	}
	return len(q.waiting)
}

// WindowStart is windowStart.
var WindowStart = windowStart

// MaxTurnEntries is maxTurnEntries.
const MaxTurnEntries = maxTurnEntries

// ThreadPrefix, DeletedPrefix and ContentPrefix are where entries lie.
var (
	ThreadPrefix  = threadKeys
	RecentPrefix  = recentKeys
	DeletedPrefix = deletedKeys
	ContentPrefix = contentKeys
)
