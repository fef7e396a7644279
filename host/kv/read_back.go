package kv

import (
	"context"
	"time"
)

// readBackTimeout bounds a ReadBack.
const readBackTimeout = 5 * time.Second

// ReadBack returns an entry as a Commit in doubt (see [ErrInDoubt]) has stored it, or
// ErrNotFound. It does so also when ctx has ended, as it often has once a commit is in doubt,
// within 5 seconds. A store that takes no more commits, and may lose the entry with its next
// start, gives the error that it has for commits.
func ReadBack(ctx context.Context, d Driver, partition string, key Key) (Entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBackTimeout)
	defer cancel()
	e, err := d.Get(ctx, partition, key)
	if err == nil {
		_, err = Apply(ctx, d, Tx{Partition: partition, Conds: []Cond{AtRevision(key, e.Revision)}})
	}
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}
