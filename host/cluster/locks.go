package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The waits between two looks at a lock that another member has: each is twice as long
// as the one before.
const (
	firstLockPoll = 5 * time.Millisecond
	lastLockPoll  = 200 * time.Millisecond
)

// unlockTimeout bounds the removal of a lock.
const unlockTimeout = 5 * time.Second

var lockKeys = kv.NewKey("cluster", "lock")

// Locks lock names for one member at a time. A lock is an entry in the store that names
// its holder; it is free when the holder has left or is dead. Each lock has a fence, for
// the commits that are made under it. It is safe for concurrent use.
type Locks struct {
	member *Member

	mu   sync.Mutex
	held map[string]bool    // values of entries that this process has written
	free map[*freeLock]bool // held without an entry, since the member was alone
}

// freeLock is a lock that a member took while it was alone.
type freeLock struct {
	partition string
	key       kv.Key
	value     string
	written   bool // the entry, since: another member came
}

// NewLocks returns the locks of a member.
func NewLocks(member *Member) *Locks {
	l := &Locks{member: member, held: map[string]bool{}, free: map[*freeLock]bool{}}
	member.arrivals.add(l.writeFree)
	return l
}

// Lock waits until this process has the lock of a name in a partition. With wait false
// it returns [kv.ErrBusy] instead. fence holds while it has it: a commit with these
// conditions fails after another member has taken the lock of one that was taken for
// dead. unlock may be called more than once.
//
// While no other member lives, and none has died within a lease, the lock is free of cost
// and has no fence. Its entry is written when another member is seen; a member that takes
// the lock before that meets the commits of this one by their conditions. Members that
// wait have no order. Errors are ctx's and those of the driver, with codes.
func (l *Locks) Lock(ctx context.Context, partition, name string, wait bool) (fence []kv.Cond, unlock func(), err error) {
	key, value := lockKeys.With(name), l.member.id+" "+rand.Text()
	if unlock := l.lockAlone(partition, key, value); unlock != nil {
		return nil, unlock, nil
	}
	if err := l.member.Register(ctx); err != nil {
		return nil, nil, err
	}
	observed := time.Now()
	for poll := firstLockPoll; ; poll = min(2*poll, lastLockPoll) {
		taken, err := l.take(ctx, partition, key, value)
		switch {
		case err != nil:
			return nil, nil, kverror.Wrap(err, "lock %q", name)
		case taken:
			return []kv.Cond{kv.Fence(key, []byte(value))}, sync.OnceFunc(func() { l.release(partition, key, value) }), nil
		case !wait:
			return nil, nil, kv.ErrBusy
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if time.Since(observed) >= l.member.Interval() {
			observed = time.Now()
			if _, err := l.member.Observe(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
}

// lockAlone takes a lock without an entry, and returns nil if the member is not alone.
func (l *Locks) lockAlone(partition string, key kv.Key, value string) (unlock func()) {
	if !l.member.alone() {
		return nil
	}
	f := &freeLock{partition: partition, key: key, value: value}
	l.mu.Lock()
	l.free[f] = true
	l.mu.Unlock()
	unlock = sync.OnceFunc(func() { l.releaseFree(f) })
	if !l.member.alone() { // one came in this moment, and the entry is not written perhaps
		unlock()
		return nil
	}
	return unlock
}

func (l *Locks) releaseFree(f *freeLock) {
	l.mu.Lock()
	delete(l.free, f)
	written := f.written
	l.mu.Unlock()
	if written {
		l.release(f.partition, f.key, f.value)
	}
}

// writeFree writes the entries of the locks that the member took while it was alone. One
// that another member has taken meanwhile stays that one's.
func (l *Locks) writeFree(ctx context.Context) {
	l.mu.Lock()
	var all []*freeLock
	for f := range l.free {
		if !f.written {
			all = append(all, f)
			l.held[f.value], f.written = true, true
		}
	}
	l.mu.Unlock()
	for _, f := range all {
		tx := kv.Tx{Partition: f.partition, Quiet: true, Conds: []kv.Cond{kv.Absent(f.key)}, Writes: []kv.Write{kv.Put(f.key, []byte(f.value))}}
		_, err := kv.Apply(ctx, l.member.driver, tx)
		written := err == nil || errors.Is(err, kv.ErrInDoubt)
		l.mu.Lock()
		released := !l.free[f]
		if !written {
			f.written = false
			delete(l.held, f.value)
		}
		l.mu.Unlock()
		if released && written { // before the entry was there
			l.release(f.partition, f.key, f.value)
		}
	}
}

// take takes a lock if it is free.
func (l *Locks) take(ctx context.Context, partition string, key kv.Key, value string) (bool, error) {
	e, err := l.member.driver.Get(ctx, partition, key)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return false, err
	}
	if e.Revision != 0 {
		if free, err := l.isFree(ctx, string(e.Value)); err != nil || !free {
			return false, err
		}
	}
	l.hold(value, true)
	tx := kv.Tx{Partition: partition, Quiet: true, Conds: []kv.Cond{kv.AtRevision(key, e.Revision)}, Writes: []kv.Write{kv.Put(key, []byte(value))}}
	_, err = kv.Apply(ctx, l.member.driver, tx)
	if err == nil {
		return true, nil
	}
	l.hold(value, false) // also if the outcome is unknown: an entry of this process that it does not hold is free
	if errors.Is(err, kv.ErrInDoubt) {
		l.removeLater(partition, key, value)
	}
	if errors.Is(err, kv.ErrPrecondition) {
		err = nil
	}
	return false, err
}

// isFree reports whether the holder of an entry has left or is dead, or is this process
// and could not remove the entry.
func (l *Locks) isFree(ctx context.Context, value string) (bool, error) {
	holder, _, _ := strings.Cut(value, " ")
	if holder != l.member.id {
		return l.member.Gone(ctx, holder)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.held[value], nil
}

func (l *Locks) hold(value string, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held {
		l.held[value] = true
	} else {
		delete(l.held, value)
	}
}

// release removes the entry of a lock.
func (l *Locks) release(partition string, key kv.Key, value string) {
	err := l.remove(context.WithoutCancel(l.member.ctx), partition, key, value)
	l.hold(value, false)
	if err != nil && !errors.Is(err, kv.ErrClosed) {
		l.member.logger.Warn("a lock is not removed: other hosts wait for it until it is", "lock", key.String(), "error", err)
		l.removeLater(partition, key, value)
	}
}

// removeLater removes an entry that this process does not hold any more, once the store
// answers: other members wait for it as long as this one lives.
func (l *Locks) removeLater(partition string, key kv.Key, value string) {
	l.member.whileMember(func(ctx context.Context) {
		tick := time.NewTicker(l.member.Interval())
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := l.remove(ctx, partition, key, value); err == nil || errors.Is(err, kv.ErrClosed) {
					return
				}
			case <-ctx.Done(): // the member leaves, and with it its locks are free
				return
			}
		}
	})
}

// remove removes an entry if it has that value.
func (l *Locks) remove(ctx context.Context, partition string, key kv.Key, value string) error {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	tx := kv.Tx{Partition: partition, Quiet: true, Conds: []kv.Cond{kv.Fence(key, []byte(value))}, Writes: []kv.Write{kv.Delete(key)}}
	_, err := kv.Apply(ctx, l.member.driver, tx)
	if errors.Is(err, kv.ErrPrecondition) {
		return nil
	}
	return err
}
