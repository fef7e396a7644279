package kv

import (
	"context"
	"errors"
)

// ErrBusy is the error of a [Locker] when another caller has the lock, for a caller
// that does not wait, or when too many callers wait.
var ErrBusy = errors.New("locked by somebody else")

// Locker is implemented by a [Driver] that several processes use at once: it locks a
// name for one of them at a time. Locks are advisory; a requirement that must hold
// belongs into a condition of a [Tx].
type Locker interface {
	// Lock waits until the caller holds the lock of a name in a partition, in the order
	// of calls. With wait false it returns [ErrBusy] instead of waiting. unlock may be
	// called more than once; the lock of a process that ends is free. Name and
	// partition have the limits of keys. The error is ctx's if ctx ends first.
	Lock(ctx context.Context, partition, name string, wait bool) (unlock func(), err error)
}
