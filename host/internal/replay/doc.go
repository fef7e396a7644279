// Package replay writes the steps of a run down and rebuilds a run from them.
//
// A [Recorder] takes each step when it is done, an answer of a model, the outcome of a
// tool call, a router's decision, and appends it to the journal as the JSON of an
// [Entry], with the changes of the state since the last one, and the operations that
// undo those of calls without an outcome, which another process makes again. [Read] puts
// the entries of a run whose process has ended together again: the [Run] says which
// results, artifacts and costs it had, which agent was at work, and which of its calls
// had begun or were done.
//
// An interrupted run leaves a [Checkpoint] in the place of its steps: where it stopped,
// with the calls that wait for answers. [Kept] is one that a caller keeps without a
// journal; the part of it that a client may have holds nothing that could get around a
// rule.
//
// [Steps] remembers the results of named steps, so that each runs once per run.
//
// The stored forms do not change within one [Version]. The package knows records,
// messages and questions; it knows no agents, tools and events.
package replay
