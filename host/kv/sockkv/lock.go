package sockkv

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// MaxWaiting is how many callers may wait for one lock.
const MaxWaiting = 1024

type lockKey struct{ partition, name string }

// lockTable has a queue for every locked name. The first caller in the queue has the
// lock.
type lockTable struct {
	mu     sync.Mutex
	queues map[lockKey][]chan struct{}
}

// lock waits until the caller holds the lock of a name, in the order of calls.
func (l *lockTable) lock(ctx context.Context, partition, name string, wait bool) (unlock func(), err error) {
	if err := kv.ValidateKey(partition, kv.Key(name)); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	key, turn := lockKey{partition, name}, make(chan struct{})
	if err := l.enter(key, turn, wait); err != nil {
		return nil, err
	}
	unlock = sync.OnceFunc(func() { l.leave(key, turn) })
	select {
	case <-turn:
		return unlock, nil
	case <-ctx.Done():
		unlock()
		return nil, fmt.Errorf("lock: %w", ctx.Err())
	}
}

func (l *lockTable) enter(key lockKey, turn chan struct{}, wait bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues == nil {
		l.queues = map[lockKey][]chan struct{}{}
	}
	queue := l.queues[key]
	if len(queue) > 0 && !wait || len(queue) > MaxWaiting {
		return fmt.Errorf("lock: %w", kv.ErrBusy)
	}
	if len(queue) == 0 {
		close(turn)
	}
	l.queues[key] = append(queue, turn)
	return nil
}

// leave removes a caller from the queue. If the caller had the lock, the next gets it.
func (l *lockTable) leave(key lockKey, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queues[key]
	i := slices.Index(queue, turn)
	queue = slices.Delete(queue, i, i+1)
	switch {
	case len(queue) == 0:
		delete(l.queues, key)
		return
	case i == 0:
		close(queue[0])
	}
	l.queues[key] = queue
}
