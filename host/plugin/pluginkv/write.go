package pluginkv

import (
	"context"
	"errors"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// The bounds of a batch.
const (
	maxBatch      = 256     // changes
	maxBatchBytes = 1 << 20 // of their values; a larger value is written alone
	expirePage    = 100     // expired items removed with a batch
	maxAttempts   = 16      // to write a batch while others write for the same owner
)

// change is a write that one caller waits for.
type change struct {
	key   string
	value []byte
	put   bool
	opts  plugin.PutOptions

	taken    bool // it is in a batch; guarded by Store.mu
	done     chan struct{}
	revision int64
	err      error
}

// line is the queue of changes for one owner. Its fields except turn are guarded by
// Store.mu.
type line struct {
	turn    chan struct{} // a mutex: holds a value while a caller writes
	waiting []*change
	users   int
}

// write makes a change. The caller that gets the line's turn writes a batch of waiting
// changes for the owner; the other callers wait for their changes in such a batch.
func (s *Store) write(ctx context.Context, owner plugin.Owner, c *change) (int64, error) {
	p, err := placeOf(owner)
	if err != nil {
		return 0, err
	}
	c.done = make(chan struct{})
	l := s.enter(owner, c)
	defer s.leave(owner, l)
	select {
	case <-c.done:
		return c.revision, c.err
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		if s.withdraw(l, c) {
			return 0, ctx.Err()
		}
		<-c.done
		return c.revision, c.err
	}
	defer func() { <-l.turn }()
	for !c.isDone() {
		s.writeBatch(ctx, owner, p, s.take(l))
	}
	return c.revision, c.err
}

func (c *change) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// enter puts a change, or nil, into an owner's line.
func (s *Store) enter(owner plugin.Owner, c *change) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[owner]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		s.lines[owner] = l
	}
	l.users++
	if c != nil {
		l.waiting = append(l.waiting, c)
	}
	return l
}

func (s *Store) leave(owner plugin.Owner, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.lines, owner)
	}
}

// withdraw removes a change from the line. It reports false if a batch has the change
// already.
func (s *Store) withdraw(l *line, c *change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.taken {
		return false
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other *change) bool { return other == c })
	return true
}

// take returns the next batch: the changes that have waited longest, no two of them to
// one key, because each write of a key has a revision of its own.
func (s *Store) take(l *line) (batch []*change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, bytes := map[string]bool{}, 0
	for _, c := range l.waiting {
		if bytes += len(c.value); len(batch) == maxBatch || len(batch) > 0 && bytes > maxBatchBytes || keys[c.key] {
			break
		}
		keys[c.key], c.taken = true, true
		batch = append(batch, c)
	}
	l.waiting = l.waiting[len(batch):]
	return batch
}

// writeBatch writes changes and notifies their callers. No caller's context ends it,
// because it writes for many callers.
func (s *Store) writeBatch(ctx context.Context, owner plugin.Owner, p place, batch []*change) {
	ctx = context.WithoutCancel(ctx)
	err := errors.New("the store panicked")
	defer func() {
		for _, c := range batch {
			if err != nil {
				c.revision, c.err = 0, err
			}
			close(c.done)
		}
	}()
	err = s.attempt(ctx, owner, p, func(pl *plan) error {
		for _, c := range batch {
			if c.err = pl.change(ctx, c); c.err != nil && !refusal(c.err) {
				return c.err
			}
		}
		return nil
	}, func(revision uint64) {
		for _, c := range batch {
			if c.put && c.err == nil {
				c.revision = int64(revision)
			}
		}
	})
}

// refusal reports whether an error is about one change and none of the others.
func refusal(err error) bool {
	code := host.CodeOf(err)
	return code == host.Conflict || code == host.ResourceExhausted
}

// attempt plans writes and commits them, and repeats both if another process or store
// has written for the owner meanwhile. If a change did not fit, attempt removes all
// expired items and plans once more.
func (s *Store) attempt(ctx context.Context, owner plugin.Owner, p place, make func(*plan) error, made func(revision uint64)) error {
	for tries, swept := 0, false; tries < maxAttempts; tries++ {
		pl, err := s.newPlan(ctx, p)
		if err != nil {
			return err
		}
		if err := pl.expire(ctx); err != nil {
			return err
		}
		if err := make(pl); err != nil {
			return err
		}
		if pl.full && pl.expired == expirePage && !swept {
			swept = true
			if err := s.expireAll(ctx, p); err != nil {
				return err
			}
			continue
		}
		revision, err := s.commit(ctx, pl)
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err != nil {
			return storeError(err, "write a plugin's keys")
		}
		made(revision)
		return nil
	}
	return host.Errorf(host.Unavailable, "write the keys of plugin %q: others write them all the time", owner.Plugin).WithHint("try again")
}

func (s *Store) commit(ctx context.Context, pl *plan) (uint64, error) {
	tx, err := pl.tx()
	if err != nil || len(tx.Writes) == 0 {
		return 0, err
	}
	return kv.Apply(ctx, s.driver, tx)
}

// expire waits for the owner's turn and removes the owner's expired items.
func (s *Store) expire(ctx context.Context, owner plugin.Owner, p place) error {
	l := s.enter(owner, nil)
	defer s.leave(owner, l)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	return s.expireAll(ctx, p)
}

// expireAll removes an owner's expired items. The caller has the line's turn.
func (s *Store) expireAll(ctx context.Context, p place) error {
	for tries := 0; tries < maxAttempts; {
		pl, err := s.newPlan(ctx, p)
		if err != nil {
			return err
		}
		if err := pl.expire(ctx); err != nil || pl.expired == 0 {
			return err
		}
		switch _, err := s.commit(ctx, pl); {
		case errors.Is(err, kv.ErrPrecondition):
			tries++
		case err != nil:
			return storeError(err, "remove a plugin's keys")
		}
	}
	return nil // another writer removes them
}
