// Package search finds messages of a tenant's threads by their words.
//
//	s := search.New(threads.New(driver, nil))
//	hits, err := s.Messages(ctx, "acme", "late orders", nil)
//
// In goes a query, as a person writes it; out come messages, the best first by BM25, each
// with the part of its text that is about the query. The words are those of the index
// that a [threads.Store] writes with the messages ([threads.Options].SearchDisabled
// turns it off, [threads.Tenant.Reindex] makes up for that).
//
// A message is found by its texts, by the results of its tools, a string by its
// characters and anything else as JSON, and by its data, together the first
// [MaxTextBytes] of them; not by reasoning, media, and the arguments of calls. Words
// are compared by their stems in English.
package search
