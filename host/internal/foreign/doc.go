// Package foreign calls code that is not the host's own: history adapters, journals,
// reducers.
//
// A function goes in, with a context. Its value and error come out, also when it
// panics, ends its goroutine or does not return: [Call.Await] logs a panic, turns it
// into an error, and abandons a function that does not return soon after its context
// has ended. [EndedBy] says whether an error is a consequence of the context's end, and
// [NamePanic] says in a panic whose code it was.
//
// Errors are those of package fault. The package knows nothing of runs.
package foreign
