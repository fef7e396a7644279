// Package runevent is what a run reports while it works and when it ends: its events and
// its result.
//
// An [Event] has a number, a time and [Data] of one of the types of this package. Its
// JSON is the one form of events on every wire and in every trace; types and members
// that this version does not know survive a round trip. [Event.ForClient] masks the
// errors that clients may not read. The last event, [RunFinished], carries the
// [RunResult]; that of an interrupted run has questions and, on a host without a
// journal, a [Checkpoint] to resume it from.
//
// Errors are of package fault. The package knows nothing of agents and of the loop that
// runs them. Package host has its names as aliases.
package runevent
