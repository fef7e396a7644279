package kv

import (
	"context"
	"time"
)

// Eraser is implemented by a [Driver] that can remove a partition from its files, not
// only hide it from readers. An interrupted erasure stays begun, also over a restart,
// and another call of Erase completes it.
type Eraser interface {
	// BeginErase marks a partition. From its return on, Get returns [ErrNotFound]
	// there, Scan an empty page, and a Commit fails with [ErrErasing]. It destroys the
	// key that encrypts the partition's values, if the store has one. Marking a marked
	// partition is no error.
	BeginErase(ctx context.Context, partition string) error

	// Erase marks a partition, removes everything in it, and removes the mark. When it
	// returns nil, the store's files have no data of the partition, also none that
	// readers held; the partition is empty, and may be written to. It leaves other
	// callers most of the store's speed.
	Erase(ctx context.Context, partition string) error

	// CompleteErase is Erase of a partition that is marked, and does nothing to another one:
	// where several processes share a store, one may have completed the erasure meanwhile,
	// and another caller may have written to the partition since.
	CompleteErase(ctx context.Context, partition string) error

	// Erasing returns the partitions that are marked.
	Erasing(ctx context.Context) ([]string, error)

	// Prove reads the whole store and counts the entries of a partition.
	Prove(ctx context.Context, partition string) (*Proof, error)
}

// Proof counts the data of a partition in a store's files.
type Proof struct {
	// Scanned is every version of every entry in the tables and logs, deletion marks
	// included, of all partitions.
	Scanned int `json:"scanned"`
	// Found is how many of them belong to the partition, and Readable how many of those
	// a reader would get.
	Found    int `json:"found"`
	Readable int `json:"readable"`
	// Blobs is the number of the partition's large values in files of their own, of
	// deleted entries too.
	Blobs int `json:"blobs"`
	// Files is the number of the store's files, and Bytes their size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Tables and Logs are how many of the files are tables and logs, which hold
	// entries.
	Tables int `json:"tables"`
	Logs   int `json:"logs"`
	// Unread lists files outside the store that may hold entries of the partition:
	// tables that a reader still holds or that are set aside, if they have such entries
	// or cannot be read.
	Unread []string `json:"unread,omitempty"`
	// DataKey says that the key file has a data key of the partition.
	DataKey bool `json:"data_key"`
	// Erasing says that an erasure has begun and not ended; ErasedAt is when one last
	// ended.
	Erasing  bool       `json:"erasing"`
	ErasedAt *time.Time `json:"erased_at,omitempty"`
}

// Gone reports whether the files have no data of the partition.
func (p *Proof) Gone() bool {
	return p.Found == 0 && p.Blobs == 0 && len(p.Unread) == 0 && !p.DataKey && !p.Erasing
}
