// Package mem0memory keeps memories with Mem0, over its HTTP API: a
// [memory.Backend] in the place of package memory's own store.
//
//	backend, err := mem0memory.New(&mem0memory.Options{APIKey: key})
//	memories := memory.NewQueued(backend, q)
//
// Mem0 finds memories by their meaning; the quality of the search is Mem0's. Texts
// are stored unchanged (infer is false): tools and providers have already decided
// which memories to keep.
//
// # Differences to a store
//
// Changes are made one after the other, because Mem0 has no transactions: if one
// fails, those before it are made. An addition keeps the caller's id in its metadata
// and is looked for by it first, so changes can be made again, as a queue does. From
// then on the memory has Mem0's own id; a change finds it by either id. Over a queue
// ([memory.Queued]) failures are tried again, and agents wait for nothing.
//
// # Scopes
//
// A scope is one user of Mem0's, whose name is made of the scope's names, tenant
// first: a search sees exactly that scope, and a change is refused, as not found,
// for a memory of another one. All tenants share the key; a reader of Mem0's
// dashboard sees the memories of all.
//
// # Errors
//
// Errors are of type [*host.Error] and hold no key: unauthenticated and
// permission_denied for the key, not_found, invalid_argument for a request that Mem0
// refuses, resource_exhausted for its rate limit after some retries, unavailable for
// a server that fails, cannot be reached or answers nonsense.
package mem0memory
