package memory

import (
	"context"
	"hash/maphash"

	"github.com/agenthost/agenthost/host/internal/kverror"
)

// locks make writers of one scope in this process wait for each other, instead of
// reading the scope again and again. The scope's revision detects writers of
// other processes.
type locks struct {
	seed  maphash.Seed
	slots [64]chan struct{}
}

func newLocks() locks {
	l := locks{seed: maphash.MakeSeed()}
	for i := range l.slots {
		l.slots[i] = make(chan struct{}, 1)
	}
	return l
}

func (l *locks) lock(ctx context.Context, s Scope) (unlock func(), err error) {
	slot := l.slots[maphash.Comparable(l.seed, s)%uint64(len(l.slots))]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, kverror.Wrap(ctx.Err(), "wait to write memories")
	}
}
