// Package redismessages keeps the messages of agent threads in Redis, or in
// Valkey. It is the only package that imports go-redis.
//
//	stores, err := redismessages.Open(ctx, "redis://localhost:6379", &redismessages.Options{MaxMessages: 100})
//	defer stores.Close()
//	agent, err := host.NewAgent("joker", &host.AgentOptions{Messages: stores})
//	thread, err := agent.NewThread(ctx, &host.ThreadOptions{ID: "user_session_123"})
//
// A thread is one list, an element a message's JSON, oldest first, under the key
//
//	PREFIX:TENANT:THREAD
//
// in which a colon or a percent sign of the tenant or the thread is escaped as in
// a URL. It is Agent Framework's RedisChatMessageStore, with its names (thread_id,
// key_prefix, max_messages) and these differences: the tenant is in the key;
// appending and trimming are one transaction, so that a crash leaves both or
// neither; trimming parts no tool call from its results and keeps the first system
// message; and a serialized store has no address, which there includes the
// password.
//
// # Transactions
//
// An append reads under WATCH and writes with MULTI; when another writer was
// faster it starts again. A batch that is already the end of the list is not
// added, so that a write whose answer got lost can be sent again.
//
// # Errors
//
// Errors are of type [*host.Error]: unavailable (to be tried again) when the
// server cannot be reached, loads or is busy, unauthenticated and
// permission_denied when it refuses the client, resource_exhausted when it has
// no memory left, failed_precondition when it is read-only or the key holds
// something else, conflict when others were faster too often, data_loss when a
// message cannot be read. Their text names no address and no key.
package redismessages
