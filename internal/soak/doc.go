// Package soak drives hosts that are processes, breaks them, and checks that they have
// kept every promise.
//
// Clients have turns of conversations, each with a name that no other turn has. Between
// them faults come from a seed: a host is killed (SIGKILL) and another is started, a host
// is paused (SIGSTOP) for less or more than its lease, connections to the database are
// cut, the database crashes. The [Ledger] is outside of the hosts: it has when each turn
// was asked for and when a host said that it was completed, and every effect of the tools
// with its idempotency key. When the clients have finished, [Check] compares it with the
// conversations that are in the store:
//
//   - lost: a turn that a host acknowledged and that is not in its thread, or without its
//     answer; a durable run that a host has begun and that never ended; an effect that an
//     answer speaks of and that did not happen.
//   - doubled: a turn that is in its thread twice or has two answers; effects of one call
//     under two idempotency keys; a call of a tool that is not idempotent, made twice.
//   - out of order: a turn that comes before one which was acknowledged before it was
//     asked for; parts of two turns that are mixed.
//
// A host that dies leaves its client without an answer: such a turn may be in its thread
// or not, once at most.
package soak
