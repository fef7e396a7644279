// Package cache keeps a bounded number of values in memory, by key, and evicts those that
// were not used for the longest time.
//
// It is for values that can be made or read again: counts of tokens, parts of an index,
// decoded messages, connections. Each cache has a bound on its entries, on their bytes,
// or on both, and never exceeds it between two calls.
//
// A cache knows nothing of what its keys mean. The owner of tenants' data puts the tenant
// into the key, and removes a tenant's entries with [Cache.DeleteIf] when the tenant is
// erased. An entry that a reader puts after that stays until it is evicted: the owner
// orders the two, or makes keys that no later reader asks for.
//
// Get and Delete take constant time; Put and Update too, on average over the calls before
// them. DeleteIf and Clear take time in proportion to the number of entries. All of them
// hold one lock: Get holds it for a lookup, and sixteen locks were not measurably faster.
package cache
