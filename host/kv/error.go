package kv

import (
	"errors"
	"fmt"
)

// The errors of a store. Test for them with errors.Is: drivers wrap them in errors that
// name the operation, the cause and the remedy.
var (
	// ErrNotFound is the error of Get for a missing entry.
	ErrNotFound = errors.New("key not found")
	// ErrPrecondition matches every *[PreconditionError].
	ErrPrecondition = errors.New("precondition does not hold")
	// ErrInvalid is the error of a request that can never succeed, such as an empty
	// key.
	ErrInvalid = errors.New("invalid request")
	// ErrTooLarge matches every *[LimitError].
	ErrTooLarge = errors.New("too large")
	// ErrClosed is the error of every method after Close.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly is the error of a write to a store that takes none: this process
	// cannot write to its directory, or the store stopped taking writes after one of
	// them failed half-way.
	ErrReadOnly = errors.New("store takes no writes")
	// ErrNoSpace is the error of a write for which the device has no room.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrUnavailable is the error of a call that did not reach the store, such as a
	// database on another machine; nothing was written. It may succeed later.
	ErrUnavailable = errors.New("store cannot be reached")
	// ErrDenied is the error of a store that refuses this process: wrong credentials, or
	// a role that lacks a right.
	ErrDenied = errors.New("store refuses access")
	// ErrInDoubt is the error of a Tx that may or may not have been written.
	ErrInDoubt = errors.New("outcome of the commit is unknown")
	// ErrLocked is the error of opening a store that is open elsewhere, and matches every
	// *[LockedError].
	ErrLocked = errors.New("store is in use")
	// ErrKey is the error of opening an encrypted store, or reading its backup, without
	// its key.
	ErrKey = errors.New("wrong encryption key")
	// ErrErasing is the error of a write to a partition that is being erased; reads
	// find nothing there. The partition accepts writes again when the erasure has
	// ended.
	ErrErasing = errors.New("partition is being erased")
	// ErrCorrupt is the error for data that differs from the written data.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrFormat is the error for data in a format that this version does not know.
	ErrFormat = errors.New("unknown format of stored data")
)

// PreconditionError is the error of a Tx one of whose conditions did not hold.
// Nothing of that Tx was written.
type PreconditionError struct {
	// Index is the position in Tx.Conds of the first condition that failed.
	Index int
	// Cond is that condition. Its Value is left out.
	Cond Cond
	// Found is the revision the key had instead, 0 if it was absent.
	Found uint64
}

// Error names the condition and the entry found instead.
func (e *PreconditionError) Error() string {
	return fmt.Sprintf("condition %d: key %s %s, found %s", e.Index, e.Cond.Key, e.wanted(), e.found())
}

// Is makes errors.Is(err, ErrPrecondition) hold.
func (e *PreconditionError) Is(target error) bool { return target == ErrPrecondition }

func (e *PreconditionError) wanted() string {
	switch e.Cond.Kind {
	case CondAbsent:
		return "must be absent"
	case CondRevision:
		return fmt.Sprintf("must be at revision %d", e.Cond.Revision)
	case CondFence:
		return "must have the value of the fence"
	default:
		return fmt.Sprintf("has condition of unknown kind %d", e.Cond.Kind)
	}
}

func (e *PreconditionError) found() string {
	switch {
	case e.Found == 0:
		return "no entry"
	case e.Cond.Kind == CondFence:
		return fmt.Sprintf("another value at revision %d", e.Found)
	default:
		return fmt.Sprintf("revision %d", e.Found)
	}
}

// EntryError is an [ErrCorrupt] of one entry, with which a Scan ends. It has the key,
// which suffices to remove the entry.
type EntryError struct {
	Key Key
	Err error
}

// Error names the key.
func (e *EntryError) Error() string { return fmt.Sprintf("entry %s: %v", e.Key, e.Err) }

// Unwrap returns the entry's fault.
func (e *EntryError) Unwrap() error { return e.Err }

// LimitError is the error of a request beyond one of the limits of this package.
type LimitError struct {
	// What names the thing that is too large: "key", "value of key ...".
	What string
	// Got is its size, Max the limit, both in Unit ("bytes", "writes", ...).
	Got, Max int
	Unit     string
}

// Error names the thing, its size and the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s has %d %s, the limit is %d", e.What, e.Got, e.Unit, e.Max)
}

// Is makes errors.Is(err, ErrTooLarge) hold.
func (e *LimitError) Is(target error) bool { return target == ErrTooLarge }

// LockedError is the error of opening a store that another process has open.
type LockedError struct {
	Process int // its id
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%v by process %d; stop it, or name another directory", ErrLocked, e.Process)
}

// Is makes errors.Is(err, ErrLocked) hold.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// invalidf is an ErrInvalid with the reason.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// within returns a *LimitError if got is over limit.
func within(what string, got, limit int, unit string) error {
	if got <= limit {
		return nil
	}
	return &LimitError{What: what, Got: got, Max: limit, Unit: unit}
}
