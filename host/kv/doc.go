// Package kv stores bytes under ordered keys, so that everything agenthost
// keeps (threads, snapshots, memory, journals, tenants, plugin state) is a
// concrete type over one narrow interface, and a new database is one small
// package that passes one kit (package kvtest).
//
// # The key space
//
// A store is divided into partitions, one for each tenant. A key lives in
// exactly one partition; keys of a partition are ordered by their bytes;
// nothing is ordered, read or written across partitions. There is no call
// that lists partitions: a driver never hands one tenant the name of another.
//
// [Key] builds keys from elements so that scans stay inside an element and
// numbers keep their order:
//
//	log := kv.NewKey("thread", id, "log")
//	log.WithUint(7) // after ...WithUint(6), before ...WithUint(10)
//
// # Reading
//
// [Driver].Get reads one key, [Driver].Scan one page of keys in either
// direction. A page is one consistent view of its partition; two calls are
// two views. Readers that need more write their data so that order suffices,
// for example an append-only log read up to a head that was read before it.
//
// # Writing
//
// A [Tx] is a value: preconditions and writes of one partition, all of which
// happen or none. A precondition that does not hold is a [PreconditionError]
// of that Tx alone. There is no closure that reads and then writes inside a
// transaction, because that would tie callers to one engine and hold its locks
// while their code runs. Read, decide, commit under preconditions, and on a
// PreconditionError read again:
//
//	head, err := d.Get(ctx, tenant, headKey)
//	if err != nil {
//		return err
//	}
//	_, err = kv.Apply(ctx, d, kv.Tx{
//		Partition: tenant,
//		Conds:     []kv.Cond{kv.AtRevision(headKey, head.Revision)},
//		Writes:    []kv.Write{kv.Put(headKey, next), kv.Put(log.WithUint(8), message)},
//	})
//
// [Group] combines the concurrent commits of many goroutines, which makes a store that
// syncs fast.
//
// # Revisions and fences
//
// A revision is a number that a store gives to a key at every write: greater
// than every number that key ever had, even if it was deleted in between, so
// a revision names one write and never comes back. It is positive and below
// 1<<63. Revisions of different keys cannot be compared, and a store may leave
// gaps between them.
//
// A fence is a key whose value says who may write, such as the lease of a run.
// A Tx with [Fence] commits only while the key still has the value that its writer
// expects, so a writer that lost its lease cannot write, however late its request
// arrives.
//
// # Digests
//
// [Checked] puts a digest in front of every value and compares it when the value is
// read, so that a value changed below it is [ErrCorrupt]. The packages that store data
// wrap their drivers with it.
//
// # Limits
//
// Every size is bounded by a constant of this package, the same for every
// driver, so that data written through one driver can move to another. Larger
// content is cut into chunks by the layer above.
package kv
