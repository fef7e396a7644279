// Package callmeter bounds the calls of a guest. A [Meter] belongs to one instance, which
// runs one call at a time: it hands out fuel to the guest, adds the price of the host's
// work, and at each check stops the call if its caller has left, its deadline has passed,
// or its budget or its tenant's is used up.
//
// The meter also keeps the call's place in the run queue (package fairsched): a call
// yields at fuel checks, and leaves the queue for the blocking sections of its host
// operations and for work that nothing interrupts. A call that could not return to the
// queue before its deadline is unscheduled, and ends.
//
// A guest is stopped from inside a function that it imports, by a panic that the
// WebAssembly runtime returns as the call's error. [Meter.Stopped] is the cause.
package callmeter
