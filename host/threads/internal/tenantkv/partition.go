package tenantkv

import (
	"context"
	"iter"

	"github.com/agenthost/agenthost/host/kv"
)

// Partition is the part of a driver that holds one tenant's entries. Its methods return
// the driver's errors unchanged.
type Partition struct {
	Driver kv.Driver
	Name   string
}

// Get returns the entry of a key.
func (p Partition) Get(ctx context.Context, key kv.Key) (kv.Entry, error) {
	return p.Driver.Get(ctx, p.Name, key)
}

// Scan returns a page of entries.
func (p Partition) Scan(ctx context.Context, r kv.Range) (kv.Page, error) {
	return p.Driver.Scan(ctx, p.Name, r)
}

// All yields the entries of a range, whatever their number. An error comes last.
func (p Partition) All(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.All(ctx, p.Driver, p.Name, r)
}

// IsEmpty reports whether no key begins with prefix.
func (p Partition) IsEmpty(ctx context.Context, prefix kv.Key) (bool, error) {
	page, err := p.Scan(ctx, kv.Range{Prefix: prefix, Limit: 1})
	return err == nil && len(page.Entries) == 0, err
}

// Apply commits tx in the partition and returns the revision of its writes.
func (p Partition) Apply(ctx context.Context, tx kv.Tx) (revision uint64, err error) {
	tx.Partition = p.Name
	return kv.Apply(ctx, p.Driver, tx)
}

// Remove deletes every key that begins with prefix.
func (p Partition) Remove(ctx context.Context, prefix kv.Key) error {
	return kv.Remove(ctx, p.Driver, p.Name, prefix)
}
