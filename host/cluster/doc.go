// Package cluster tells which processes share a store and live.
//
// A [Member] is a process. It has a record in the store, and every write of the record
// is a heartbeat. Work that outlives a process (a job, a background turn, a durable run,
// the lock of a thread) names the member that has it; when the member has written no
// heartbeat for its lease, or has left, another member takes the work over.
//
//	member, err := cluster.New(driver, nil)
//	defer member.Close()
//	err = member.Register(ctx)
//
//	// Now and then a member looks at the others. The work of one that has died is free.
//	deaths, err := member.Observe(ctx)
//	if !member.Lives(holder) {
//		err = takeOver(ctx, holder)
//	}
//
// # Liveness and safety
//
// Heartbeats are for liveness alone. A member measures on its own clock how long it has
// waited for the next heartbeat of another one, so clocks that differ or jump make no
// member dead. A member that was paused for longer than its lease is taken for dead
// while it may still believe that it lives: what keeps it from writing then is the fence
// or the revision in each of its commits (see kv.Fence), which the takeover changes.
//
// # Changes
//
// [Member.Announce] tells all members that something which they hold in memory has
// changed in the store, such as a grant, a budget or a version of a plugin;
// [Member.Subscribe] calls a function then, within a second. [Member.AnnounceAndWait]
// returns when every living member that has subscribed with
// [Member.SubscribeAcknowledged] has taken the change, as the erasure of a tenant needs.
//
// # Locks
//
// [Locks] make the turns of several hosts on one thread queue, and give each commit under
// a lock a fence.
//
// The records are in the partition that the queue has had for its holders, so that
// members of earlier versions see them and are seen.
package cluster
