// Package soak drives hosts that are processes, breaks them, and checks that they have
// kept every promise.
//
// Clients have turns of conversations, each with a name that no other turn has. Between
// them faults come from a seed: a host is killed (SIGKILL) and another is started, a host
// is paused (SIGSTOP) for less or more than its lease, connections to the database are
// cut, the network to it is slow (see [Proxy]), the database crashes. The clocks of the
// hosts differ by up to two hours. The hosts are built of the packages, with two tools, or
// of a configuration, as a user of the command builds them, and then have no tools. The [Ledger] is outside of the hosts: it has when each turn
// was asked for and when a host said that it was completed, and every effect of the tools
// with its idempotency key. When the clients have finished, [Check] compares it with the
// conversations and the open runs that are in the store:
//
//   - lost: a turn that a host acknowledged and that is not in its thread, or without its
//     answer; a durable run that is still open in the journal a minute after the last fault
//     ([OpenRun] says what the journal has of it), or that a host has begun and that has
//     neither an answer nor a host that said why; an effect that an answer speaks of and
//     that did not happen.
//   - doubled: a turn that is in its thread twice or has two answers; effects of one call
//     under two idempotency keys; a call of a tool that is not idempotent, made twice.
//   - out of order: a turn that comes before one which was acknowledged before it was
//     asked for; parts of two turns that are mixed.
//
// A durable run whose tool must not be called twice, and whose host died during the call,
// asks what the tool did: it is in the journal and waits. A run that was refused or failed
// with a code is counted by it.
//
// A host that dies leaves its client without an answer: such a turn may be in its thread
// or not, once at most.
//
// # The server
//
// RunServer (on Linux) drives the command agenthost serve, a process on Badger, with requests
// over HTTP: ones that wait, streams, streams that are read slowly, and durable runs that are
// only accepted. Meanwhile the server is killed and started again, its model closes every
// connection, its device is full, one of its plugins traps at each call, and its
// configuration changes or cannot be read. Each request has an answer unless its server was
// killed; a turn that was said to be completed is in its thread, once; a durable run that has
// begun ends; and the last process has given back what its load took: goroutines, open
// files and memory, as GET /metrics says.
package soak
