// Package memory keeps the memories of agents across conversations: short
// statements in scopes, found by their words and, with an embedder, by their meaning, on
// any [kv.Driver].
//
//	store, err := memory.New(driver, nil)
//	scope := memory.Scope{Tenant: "acme", User: "ada"}
//	m, err := store.Add(ctx, scope, "Ada is allergic to nuts.", nil)
//	hits, err := store.Search(ctx, scope, "is she allergic?", nil)
//
// # Scopes
//
// A memory belongs to one [Scope]: a tenant and any of application, user, agent
// and run. A search sees exactly one scope; a user's memories are not found in a
// scope without a user, nor the other way round, so a name that was left out by
// mistake shows no memories of other users. [Store.Scopes] lists the scopes that
// have some names in common, for instance to delete all memories of a user.
//
// # Writing
//
// [Store.Apply] does several things or none. The same text is kept once a scope.
// Every memory has a history of its earlier texts, which survives it. A write is
// durable when its method returns, with its index: both are one transaction.
//
// # Searching
//
// Words are found by their stems (English unless Options say otherwise; scripts
// without spaces by pairs of letters) and ranked by BM25 with k1 1.2 and b 0.75
// [Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009]. A
// search caches the parts of the index that it has read until the next write to
// the scope.
//
// With Options.Embedder a search also compares meanings: the vector of the query with those
// of the scope's memories, one by one, and fuses the two lists by their ranks [Cormack, Clarke
// and Büttcher, Reciprocal Rank Fusion, 2009]. Vectors are kept with the memories, a byte a
// dimension. An embedder that is not reached fails neither a write nor a search: see
// [SearchOptions].Degraded and [Store.Embed].
//
// # Agents
//
// [Tools] are the tools create_memories, recall_memories, update_memories and
// delete_memories, or the last three as manage_memories; [NewProvider] gives an
// agent the memories that fit the conversation. Over a [Queued] they put their
// writes into a durable queue, and answer at once.
//
// # Errors
//
// Errors are of type [*host.Error]: invalid_argument for a text or scope that
// can't be kept, not_found for an id that the scope does not have,
// resource_exhausted past a limit, unavailable and data_loss from the driver.
package memory
