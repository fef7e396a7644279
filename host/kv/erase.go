package kv

import "context"

// Eraser is what a [Driver] can do, too, that removes all of a partition from
// wherever it keeps it: not only out of sight, but out of its files. An erasure
// that is interrupted stays begun, also over a restart, and is ended by another
// call of Erase.
type Eraser interface {
	// BeginErase marks a partition. From its return on, Get answers [ErrNotFound]
	// there, Scan an empty page, and a Commit fails with [ErrErasing]. The key that
	// its values are encrypted with is destroyed, where it has one. A partition that
	// is marked already is no error.
	BeginErase(ctx context.Context, partition string) error

	// Erase marks a partition, removes everything in it, and takes the mark away. When
	// it returns nil, nothing of the partition is in the store's files, whatever
	// readers held before; the partition is empty, and may be written to. It leaves
	// other callers most of the store's speed.
	Erase(ctx context.Context, partition string) error

	// Erasing returns the partitions that are marked.
	Erasing(ctx context.Context) ([]string, error)
}
