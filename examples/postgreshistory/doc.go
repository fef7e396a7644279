// Package postgreshistory shows how to write a history adapter: it keeps conversations
// in tables of a PostgreSQL database that SQL can read. hosttest's suites, which any
// adapter can run, are its tests. A host whose data lies in PostgreSQL does not need it:
// package datadir opens such a database for everything that a host keeps, where this one
// keeps conversations alone.
//
//	store, err := postgreshistory.Open(ctx, "postgres://app@db.internal/app", nil)
//	defer store.Close()
//	history, err := host.NewHistory(store, nil)
//
// A [Store] has every ability of a history adapter but branches. Any number of hosts may
// share a database: no process keeps state that another would need.
//
// # Tables
//
// They lie in a schema of their own, agenthost by default. [Open] and [New]
// bring them up to date, in one transaction a step; hosts that start at once do
// it one after another. Every primary key begins with the tenant, and so does
// every condition of every statement.
//
//	threads    a row a conversation: title, head, state, providers' state, the last turn's status
//	messages   its log: one row a message, by position; body is the message's JSON
//	turns      each run's record beside messages: status, error, usage, results
//	artifacts  the artifacts of runs, newest turn last
//	taken_back messages that [Store.Regenerate] took out of their threads
//	locks      which run holds a thread, and until when
//
// body and state are of type json, not jsonb: a read returns the stored bytes
// exactly. Reading with SQL works all the same:
//
//	select body->'parts'->0->>'text' from agenthost.messages
//	where tenant = 'acme' and thread = 't1' order by seq;
//
// The text columns role, agent and title are copies for people; characters
// that PostgreSQL's text cannot hold are left out of them.
//
// # Commits
//
// The user's message is one transaction and so is a turn: messages, state,
// artifacts and the thread's new head, all or nothing. A transaction locks its
// thread's row, so commits to one thread happen one after another; a turn whose
// head is no longer the thread's gets code conflict and changes nothing. A
// message id that the thread has is not stored again, and neither is a turn of a
// run that has one. A write whose outcome is not known, because the connection
// broke, can therefore be sent again.
//
// # Waiting
//
// [Store.LockThread] holds a thread for a run by a lease in the table locks,
// renewed while the run lasts. The lease of a dead host expires within
// [LeaseTime]. A lease only avoids conflicts; the head is the guard against a
// late writer.
//
// # Errors
//
// Errors are of type [*host.Error]. Besides the codes that a method documents:
// unavailable (to be tried again) when the server cannot be reached, shuts down
// or has no connection left, failed_precondition when it is read-only, lacks the
// tables or has those of a newer version, resource_exhausted when it has no
// room, data_loss when a stored message cannot be read. Their text names no
// address and no statement; the driver's own error is the cause, for logs.
package postgreshistory
