// Package fairsched shares a few permits to run between many flows by start-time
// fair queueing. In go calls, each with the name of its flow, and what they have
// used; out come decisions which call runs next.
//
// It promises that a flow gets its share of the permits however many calls another
// flow has, that a flow which was idle is served at once but saves up at most
// [MaxCredit], and that no flow starts so many calls that another can start none.
// The package knows nothing of what a call does: a unit of use is an instruction of
// a guest in one scheduler, and a nanosecond of compiling in another.
package fairsched
