// Package sockkv shares a [kv.Driver] of one process with others of the same user
// over a socket: an embedded database is one process's, and a command line, a
// second host or a tool may still need its data.
//
// The process that has the store wraps it and serves:
//
//	shared := sockkv.Share(kv.Group(store))
//	shared.Serve(listener)
//
// Another dials and has a driver like any other, which passes the same kit:
//
//	d, err := sockkv.Dial(ctx, "unix", path)
//
// What several processes commit at the same time is committed together by the
// group committer of the one that has the store. Locks are shared, too: the process that
// [Shared.Lock]s or [Client.Lock]s a name has it alone, and one whose process ends
// is free. So turns of several processes on one thread wait for each other, as
// those of one process do.
//
// Who may open the socket may read and write everything: its file must be this
// user's alone.
package sockkv
