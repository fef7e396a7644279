// Package statedoc keeps a JSON object that several writers patch at the same time.
//
// A Go value or JSON goes in, with a limit in bytes and perhaps a schema, and comes
// out as a [View]. Views share one document: each patch is applied to the current
// document as a whole or not at all, and the document always is an object within its
// limit that fits its schema. A patch costs as much as it touches: the document shares
// its unchanged parts with the one before and is encoded only when it is read.
//
// A call gets a view of its own from [View.ForCall]. Such a view knows what its call
// has seen: [View.PatchSeen] refuses operations at a place that another writer has
// changed since. It also knows the changes of its call: [View.TakeBack] undoes them
// when the call fails, and keeps the changes of other writers.
// [View.TakeUnsaved] knows how to undo those of calls that a process does not finish.
//
// Changes come out a second time for the code that sends and stores them:
// [View.TakeChanges] returns those that no event has sent, by revision, and
// [View.TakeUnsaved] those that no journal has. Both lists are bounded: a list that
// would grow beyond its bound becomes one operation that replaces the whole document.
//
// The package knows nothing of runs, tools and events. Errors are those of package
// fault; their texts say "state" for the document.
package statedoc
