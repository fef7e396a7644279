// Package sockkv shares a [kv.Driver] of one process with other processes of the same
// user over a socket: only one process can open an embedded database, and a command
// line, a second host or a tool may also need its data.
//
// The process that has the store wraps it and serves:
//
//	shared := sockkv.Share(kv.Group(store))
//	shared.Serve(listener)
//
// Another process dials and has a driver like any other, which passes the same kit:
//
//	d, err := sockkv.Dial(ctx, "unix", path)
//
// The group committer of the process that has the store combines the concurrent commits
// of all processes. Locks are shared, too: one process at a time holds the lock of a
// name by [Shared.Lock] or [Client.Lock], and its end frees the lock. So turns of
// several processes on one thread wait for each other, like those of one process.
//
// A process that may open the socket may read and write everything: only this user may
// have access to its file.
package sockkv
