package cluster

import (
	"context"

	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The index of owners, in a partition of its own, because a driver does not list the
// tenants that a member has work of:
//
//	<kind>/owner/<member>/<tenant>    empty
//
// The registry of runs had it first, hence its name.
const ownerPartition = "agenthost/runs"

// Owners is an index: the tenants of which a member has work of one kind. The members that
// live find the work of one that died by it. It is safe for concurrent use.
type Owners struct {
	driver kv.Driver
	keys   kv.Key
}

// Owned is an entry of [Owners].
type Owned struct {
	Owner, Tenant string

	key      kv.Key
	revision uint64
}

// NewOwners returns the index of a kind of work, such as "runs".
func NewOwners(driver kv.Driver, kind string) *Owners {
	return &Owners{driver: driver, keys: kv.NewKey(kind, "owner")}
}

// Add makes the work of a tenant findable, before a member has it. Codes are those of the
// driver.
func (o *Owners) Add(ctx context.Context, owner, tenant string) error {
	_, err := kv.Apply(ctx, o.driver, kv.Tx{Partition: ownerPartition, Quiet: true, Writes: []kv.Write{kv.Put(o.keys.With(owner).With(tenant), nil)}})
	return kverror.Wrap(err, "write down which host has work of a tenant")
}

// All returns the entries of all members, sorted by the members' ids. Codes are those of
// the driver.
func (o *Owners) All(ctx context.Context) (found []Owned, err error) {
	for e, err := range kv.All(ctx, o.driver, ownerPartition, kv.Range{Prefix: o.keys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, kverror.Wrap(err, "read which hosts have work")
		}
		rest, _ := e.Key.CutPrefix(o.keys)
		owner, rest, ok := rest.CutString()
		tenant, _, named := rest.CutString()
		if ok && named {
			found = append(found, Owned{Owner: owner, Tenant: tenant, key: e.Key, revision: e.Revision})
		}
	}
	return found, nil
}

// Forget removes an entry whose owner has no more work of the tenant. One that was added
// again since it was read stays.
func (o *Owners) Forget(ctx context.Context, e Owned) {
	_, _ = kv.Apply(ctx, o.driver, kv.Tx{Partition: ownerPartition, Quiet: true, Conds: []kv.Cond{kv.AtRevision(e.key, e.revision)}, Writes: []kv.Write{kv.Delete(e.key)}})
}

// EraseTenant removes a tenant from the indexes of all kinds. Codes are those of the
// driver.
func EraseTenant(ctx context.Context, driver kv.Driver, tenant string) error {
	keys, err := entriesOf(ctx, driver, tenant)
	for _, key := range keys {
		if err == nil {
			_, err = kv.Apply(ctx, driver, kv.Tx{Partition: ownerPartition, Quiet: true, Writes: []kv.Write{kv.Delete(key)}})
		}
	}
	return kverror.Wrap(err, "erase the tenant's entries in the index of hosts' work")
}

// CountTenant returns how many entries of the indexes of all kinds name a tenant. Codes
// are those of the driver.
func CountTenant(ctx context.Context, driver kv.Driver, tenant string) (int, error) {
	keys, err := entriesOf(ctx, driver, tenant)
	return len(keys), kverror.Wrap(err, "look for the tenant in the index of hosts' work")
}

func entriesOf(ctx context.Context, driver kv.Driver, tenant string) (keys []kv.Key, err error) {
	for e, err := range kv.All(ctx, driver, ownerPartition, kv.Range{Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, err
		}
		_, rest, _ := e.Key.CutString() // the kind
		_, rest, _ = rest.CutString()   // "owner"
		_, rest, _ = rest.CutString()
		if of, _, ok := rest.CutString(); ok && of == tenant {
			keys = append(keys, e.Key)
		}
	}
	return keys, nil
}
