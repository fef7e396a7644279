package threads

import "time"

// What the tests need of the inside.

// SetNow gives a store another clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// Queues is for how many threads LockThread holds a queue.
func (s *Store) Queues() int { return s.locks.turns.Count() }

// Waiting is how many wait for a thread.
func (s *Store) Waiting(partition, thread string) int {
	return s.locks.turns.Waiting(lockKey(partition, thread, ""))
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
