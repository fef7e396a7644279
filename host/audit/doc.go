// Package audit keeps who did what to a host, in a log that shows when it was tampered
// with.
//
//	log := audit.New(driver)
//	seq, err := log.Append(ctx, &audit.Entry{Actor: "key/" + who.Key, Action: "tenant.suspend", Tenant: "acme"})
//	page, err := log.List(ctx, &audit.Filter{Tenant: "acme"})
//	head, err := log.Verify(ctx)
//
// An [Entry] has ids and never content: who acted, the action and the thing it was done to, of which
// tenant, and whether it was allowed. Entries are small and are added at the end; nothing
// changes one, and those of a deleted tenant stay, with its id. An operator may remove the
// oldest, once they are exported ([Log.Trim]); the chain then begins after them.
//
// # The chain
//
// Each entry has the SHA-256 of its own bytes and of the sum of the entry before it, so
// there is one chain for a store. [Log.Verify] reads it and finds an entry that was
// removed, added, reordered or changed, also at the end: the store has the [Head] of the
// chain beside it. Someone who can write to the store can compute a whole chain again; give
// Verify a Head that was kept elsewhere, such as the last one of an export, to find that.
//
// # Hosts and crashes
//
// Any number of hosts append to one chain: an append is a commit on condition of the head,
// and is made again when another host was faster. Entries that wait for each other are
// committed together. An entry whose Append has returned is as durable as the store makes
// anything.
package audit
