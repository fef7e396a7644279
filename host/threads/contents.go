package threads

import (
	"context"
	"errors"
	"slices"

	"github.com/agenthost/agenthost/host/kv"
)

// contents reads the entries that a moment of a thread is made of: those of its own
// content and of the contents that its view goes back to.
type contents struct {
	part    partition
	thread  string // its id, for errors
	own     content
	origins []string // ids, in the order of their ranks
	late    *lateIndex
}

// ownRank returns the rank of the own content: it comes after the origins.
func (c contents) ownRank() uint64 { return uint64(len(c.origins)) }

// at returns the content of a rank.
func (c contents) at(rank uint64) content {
	if rank == c.ownRank() {
		return c.own
	}
	return contentOf(c.origins[rank])
}

// get reads the value of a key; nil if there is no entry.
func (c contents) get(ctx context.Context, key kv.Key) ([]byte, error) {
	e, err := c.part.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	return e.Value, wrap(err, "read thread %q", c.thread)
}

// inherited reads a key of the origins, the youngest first; nil if none has it.
func (c contents) inherited(ctx context.Context, key func(content) kv.Key) (content, []byte, error) {
	for _, id := range slices.Backward(c.origins) {
		from := contentOf(id)
		if value, err := c.get(ctx, key(from)); err != nil || value != nil {
			return from, value, err
		}
	}
	return c.own, nil, nil
}
