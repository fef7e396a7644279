package threads

import (
	"context"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// partition is the part of a driver that holds one tenant's entries. Its methods return
// the driver's errors unchanged.
type partition struct {
	driver kv.Driver
	name   string
}

// partitionOf returns a tenant's partition, or the error of a name that no tenant can
// have.
func partitionOf(driver kv.Driver, tenant string) (partition, error) {
	name, err := host.TenantPartition(tenant)
	return partition{driver, name}, err
}

func (p partition) get(ctx context.Context, key kv.Key) (kv.Entry, error) {
	return p.driver.Get(ctx, p.name, key)
}

func (p partition) scan(ctx context.Context, r kv.Range) (kv.Page, error) {
	return p.driver.Scan(ctx, p.name, r)
}

func (p partition) all(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.All(ctx, p.driver, p.name, r)
}

// isEmpty reports whether no key begins with prefix.
func (p partition) isEmpty(ctx context.Context, prefix kv.Key) (bool, error) {
	page, err := p.scan(ctx, kv.Range{Prefix: prefix, Limit: 1})
	return err == nil && len(page.Entries) == 0, err
}

// apply commits tx in the partition and returns the revision of its writes.
func (p partition) apply(ctx context.Context, tx kv.Tx) (revision uint64, err error) {
	tx.Partition = p.name
	return kv.Apply(ctx, p.driver, tx)
}

// remove deletes every key that begins with prefix.
func (p partition) remove(ctx context.Context, prefix kv.Key) error {
	return kv.Remove(ctx, p.driver, p.name, prefix)
}
