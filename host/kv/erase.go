package kv

import (
	"context"
	"time"
)

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

	// Prove reads the whole store and counts the entries of a partition.
	Prove(ctx context.Context, partition string) (*Proof, error)
}

// Proof is what a store's files have of a partition.
type Proof struct {
	// Scanned is every version of every entry in the tables and logs, deletion marks
	// included, of all partitions.
	Scanned int `json:"scanned"`
	// Found is how many of them are of the partition, and Readable how many of those
	// a reader would get.
	Found    int `json:"found"`
	Readable int `json:"readable"`
	// Blobs are the large values of the partition that have files of their own, of
	// deleted entries too.
	Blobs int `json:"blobs"`
	// Files are the files of the store, and Bytes their size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Tables and Logs are those of the files that hold entries.
	Tables int `json:"tables"`
	Logs   int `json:"logs"`
	// Unread are files that are no part of the store and may hold entries of the
	// partition: tables that a reader still has or that are set aside, if they have
	// such entries or cannot be read.
	Unread []string `json:"unread,omitempty"`
	// DataKey says that the key file has a data key of the partition.
	DataKey bool `json:"data_key"`
	// Erasing says that an erasure has begun and not ended; ErasedAt is when one last
	// ended.
	Erasing  bool       `json:"erasing"`
	ErasedAt *time.Time `json:"erased_at,omitempty"`
}

// Gone reports whether the files have nothing of the partition.
func (p *Proof) Gone() bool {
	return p.Found == 0 && p.Blobs == 0 && len(p.Unread) == 0 && !p.DataKey && !p.Erasing
}
