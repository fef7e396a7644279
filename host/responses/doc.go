// Package responses keeps the answers of OpenAI's Responses API, so that a client finds one
// by its id: to continue its conversation, to read it again, to follow it while it is made.
//
//	store := responses.New(driver)
//	err := store.Put(ctx, "acme", &responses.Record{ID: "resp_1", Run: "1", Thread: "orders", Response: answer, Input: items})
//
// The records of a tenant are in the tenant's partition: they are deleted with the tenant, and
// those of a thread with it, by [EraseThread]. The package knows no run and no protocol.
package responses
