package kv

import (
	"context"
	"errors"
)

// ErrBusy is the answer of a [Locker] when another caller has the lock: to a caller
// that does not wait, and to one too many waiting.
var ErrBusy = errors.New("locked by somebody else")

// Locker is what a [Driver] can do, too, that several processes use at once: keep
// a name for one of them at a time. A lock is a courtesy between those who ask for
// it; what must hold is a condition of a [Tx].
type Locker interface {
	// Lock waits until the caller has a name of a partition alone, in the order
	// of asking. With wait false it returns [ErrBusy] instead of waiting. unlock
	// may be called more than once; the lock of a process that ends is free.
	// Name and partition are as of keys. ctx's error when that ends first.
	Lock(ctx context.Context, partition, name string, wait bool) (unlock func(), err error)
}
